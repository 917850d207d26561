"""The tools of a session: what they take, what they refuse before any cost, what they answer."""

import asyncio
import json
from typing import Any

import pytest

from kernelsmith.errors import EvidenceError, InfrastructureError, StorageError
from kernelsmith.model import candidate_id
from kernelsmith.proposers.agent import tool_list
from kernelsmith.proposers.agent.tools import TOOLS_JSON, Toolbox, ToolReply
from tests.agent.fake_desk import DIFFER, SESSION, FakeDesk, other, recorded, rms_norm, toolbox

EDIT = {"old": "y = (h * rstd) * weight", "new": "y = weight * (h * rstd)"}
BROKEN = {"old": "y = (h * rstd) * weight", "new": "y = h * (rstd * weight)"}


@pytest.fixture
def desk() -> FakeDesk:
    return FakeDesk(
        rms_norm(), faults={"h * (rstd * weight)": ("BITS_DIFFER", "parity.train", DIFFER)}
    )


def run(tools: Toolbox, name: str, number: int = 0, /, **given: Any) -> ToolReply:
    return asyncio.run(tools.run(f"toolu_{number}", name, given))


def checked(tools: Toolbox, **edit: str) -> str:
    reply = run(tools, "check", base="seed", edits=[edit or EDIT])
    return str(reply.facts["candidate"])


def test_the_list_of_tools_is_json_with_the_names_of_the_contract() -> None:
    tools = json.loads(TOOLS_JSON)
    names = " ".join(tool["name"] for tool in tools)
    assert names == "get_task read_source check measure submit read_ir lineage finish"
    fields = {tool["name"]: list(tool["input_schema"]["properties"]) for tool in tools}
    assert fields["check"] == ["source", "base", "edits"]
    assert fields["read_ir"] == ["candidate", "kernel", "what"]
    assert fields["submit"] == ["candidate", "note"]
    assert all(tool["input_schema"]["type"] == "object" for tool in tools)
    assert all("oneOf" not in tool["input_schema"] for tool in tools)
    again = json.dumps(tool_list.TOOLS, ensure_ascii=False, separators=(",", ":")).encode()
    assert again == TOOLS_JSON


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("shell", {}, "There is no such tool. Tools: get_task"),
        ("check", {}, "Give either source, or base and edits"),
        ("check", {"source": "x = 1", "base": "seed", "edits": []}, "Give either source"),
        ("check", {"base": "seed"}, "edits need a base, and a base needs edits"),
        ("check", {"base": "seed", "edits": []}, "at least one"),
        ("check", {"base": "seed", "edits": [{"old": "a"}]}, "edit 0 must be {old, new}"),
        ("check", {"base": "seed", "edits": ["a"]}, "edit 0 must be {old, new}"),
        ("check", {"source": "  \n"}, "source is empty"),
        ("check", {"source": 3}, "source must be a string, not a number"),
        ("check", {"source": "é" * 40_000}, "A source of 80000 bytes: at most 65536"),
        ("check", {"source": "x = '\ud800'"}, "surrogate"),
        ("check", {"base": "nobody", "edits": [EDIT]}, 'name "seed", "parent", "incumbent"'),
        ("measure", {}, "The field candidate is missing: measure takes candidate"),
        ("measure", {"candidate": "0" * 16}, "check it first (nothing was checked yet)"),
        ("measure", {"candidate": "0" * 16, "why": "x"}, "Unknown field 'why'"),
        ("read_ir", {"candidate": "0" * 16, "what": "ptx"}, "what must be ttir or assembly"),
        ("get_task", {"name": "x"}, "get_task takes nothing"),
        ("submit", {"candidate": None, "note": ""}, "candidate must be a string, not null"),
    ],
)
def test_a_wrong_call_is_refused_with_how_to_mend_it(
    desk: FakeDesk, name: str, given: dict[str, Any], says: str
) -> None:
    reply = asyncio.run(toolbox(desk).run("toolu_0", name, given))
    assert reply.is_error
    assert says in reply.text
    assert desk.log == []


@pytest.mark.parametrize(
    ("old", "mend"),
    [
        ("squares", "make it longer, so that it occurs once"),
        ("no such text", "copy it from read_source"),
        ("", "copy it from read_source"),
    ],
)
def test_each_old_occurs_exactly_once(desk: FakeDesk, old: str, mend: str) -> None:
    count = desk.task.seed_source.count(old) if old else 0
    reply = run(toolbox(desk), "check", base="seed", edits=[{"old": old, "new": "x"}])
    assert reply.is_error
    assert f"edit 0: old occurs {count} times in {desk.seed.id}: {mend}" in reply.text
    assert desk.log == []


def test_an_edit_that_changes_nothing_is_refused(desk: FakeDesk) -> None:
    reply = run(
        toolbox(desk), "check", base="seed", edits=[{"old": EDIT["old"]} | {"new": EDIT["old"]}]
    )
    assert "edit 0 changes nothing" in reply.text


def test_check_measure_submit_and_the_candidate_that_is_submitted(desk: FakeDesk) -> None:
    tools = toolbox(desk)
    first = run(tools, "check", 1, base="seed", edits=[EDIT])
    source = desk.task.seed_source.replace(EDIT["old"], EDIT["new"])
    assert first.facts["candidate"] == candidate_id(source)
    assert first.text.startswith(f"Candidate {candidate_id(source)}: bits kept so far")
    measured = run(tools, "measure", 2, candidate=candidate_id(source))
    assert "1.0500 warm, 1.0500 cold" in measured.text
    assert "same code" in measured.text, "the case that was not timed"
    assert "| bytes, floor 4.4 us" in measured.text
    note = "a \x07note\nof two lines " + "x" * 300
    verdict = run(tools, "submit", 3, candidate=candidate_id(source), note=note)
    assert verdict.text.startswith(f"Candidate {candidate_id(source)}: ACCEPTED, gain 1.0500")
    assert "residual_train.bf16.M257-N1024.normal: 1.0500" in verdict.text
    kinds = [kind for kind, _ in desk.log]
    assert kinds == ["bits", "time", "submit"]
    looked, _, submitted = (candidate for _, candidate in desk.log)
    assert looked.origin == f"{SESSION}/toolu_1"
    assert submitted.origin == f"{SESSION}/toolu_3"
    assert (submitted.author, submitted.parents) == ("agent", (desk.seed.id,))
    assert submitted.note.startswith("a note of two lines xxx")
    assert len(submitted.note) <= tool_list.NOTE_MAX_CHARS + len(" … (cut)")
    assert submitted.source == source


def test_the_first_differing_bits_are_told_and_nothing_is_measured_or_submitted(
    desk: FakeDesk,
) -> None:
    tools = toolbox(desk)
    reply = run(tools, "check", base="seed", edits=[BROKEN])
    assert reply.is_error
    assert "BITS_DIFFER in parity.train" in reply.text
    assert DIFFER in reply.text
    for name, more in (("measure", {}), ("submit", {"note": "x"})):
        refused = run(tools, name, candidate=reply.facts["candidate"], **more)
        assert refused.is_error
        assert "failed its check" in refused.text
        assert DIFFER in refused.text
    assert [kind for kind, _ in desk.log] == ["bits"]


def test_the_same_program_again_costs_nothing_and_gives_the_recorded_answer(
    desk: FakeDesk,
) -> None:
    tools = toolbox(desk)
    first = run(tools, "check", base="seed", edits=[EDIT])
    renamed = desk.task.seed_source.replace(EDIT["old"], EDIT["new"]).replace("squares", "sums")
    again = run(tools, "check", source=f"# once more\n{renamed}")
    assert again.facts == {"candidate": first.facts["candidate"], "kept": True, "again": True}
    assert first.text in again.text
    run(tools, "measure", candidate=first.facts["candidate"])
    run(tools, "measure", candidate=first.facts["candidate"])
    assert [kind for kind, _ in desk.log] == ["bits", "time"]
    run(tools, "submit", candidate=first.facts["candidate"], note="")
    twice = run(tools, "submit", candidate=first.facts["candidate"], note="")
    assert twice.is_error
    assert "submitted before" in twice.text
    assert [kind for kind, _ in desk.log] == ["bits", "time", "submit"]


def test_a_repeat_of_what_others_tried_is_refused_with_its_verdict(desk: FakeDesk) -> None:
    theirs = other(desk.task, BROKEN["old"], BROKEN["new"])
    desk.history.append(asyncio.run(_judged(desk, theirs, ("BITS_DIFFER", "parity.train", DIFFER))))
    desk.log.clear()
    reply = run(toolbox(desk), "check", source=theirs.source.replace("squares", "sums"))
    assert reply.is_error
    assert f"the same program as {theirs.id}: BITS_DIFFER" in reply.text
    assert DIFFER in reply.text
    seed = run(toolbox(desk), "check", source="# mine\n" + desk.task.seed_source)
    assert "the seed's own program" in seed.text
    assert desk.log == []


async def _judged(desk: FakeDesk, candidate: Any, verdict: tuple[str, str, str]) -> Any:
    desk.verdicts[candidate.source] = verdict
    await desk.submit(candidate)
    return desk.history.pop()


def test_edits_on_another_authors_source_apply_to_what_read_source_shows(desk: FakeDesk) -> None:
    theirs = other(desk.task, EDIT["old"], EDIT["new"] + "  # weight first")
    desk.history.append(asyncio.run(_judged(desk, theirs, ("ACCEPTED", "", ""))))
    tools = toolbox(desk)
    shown = run(tools, "read_source", name="incumbent")
    assert shown.facts == {"candidate": theirs.id}
    assert "# weight first" not in shown.text
    assert '"""y and, as asked' not in shown.text
    edit = {"old": "y = weight * (h * rstd)\n", "new": "y = weight * (rstd * h)\n"}
    reply = run(tools, "check", base=theirs.id, edits=[edit])
    assert not reply.is_error
    assert desk.log[-1][1].parents == (theirs.id,)
    assert "#" not in desk.log[-1][1].source


def test_the_seed_and_own_sources_are_shown_whole(desk: FakeDesk) -> None:
    tools = toolbox(desk)
    assert desk.task.seed_source.rstrip() in run(tools, "read_source", name="seed").text
    mine = checked(tools, old=EDIT["old"], new=EDIT["new"] + "  # mine")
    assert "# mine" in run(tools, "read_source", name=mine).text


def test_sources_that_the_policy_did_not_pass_are_not_shown(desk: FakeDesk) -> None:
    theirs = other(desk.task, "import torch\n", "import torch\nimport os\n")
    desk.history.append(asyncio.run(_judged(desk, theirs, ("POLICY", "policy", "line 9: no"))))
    reply = run(toolbox(desk), "read_source", name=theirs.id)
    assert reply.is_error
    assert reply.text == f"{theirs.id} is POLICY: its source is not shown."


def test_read_ir_lists_all_kernels_and_shows_one_without_places(desk: FakeDesk) -> None:
    tools = toolbox(desk)
    mine = checked(tools)
    reply = run(tools, "read_ir", candidate=mine, what="ttir")
    assert reply.text.startswith("2 kernels of timed cases (the gate compiled 3 in all):")
    timed = "residual_train.bf16.M257-N1024.normal"
    assert f"_forward#2 | num_warps=8 | {timed} | arena" in reply.text
    assert "ttir of _forward#2:" in reply.text, "what the heaviest case launches"
    assert "arena_bytes 4160, spills 1" in reply.text
    assert "tt.func @_forward()" in reply.text
    assert "/home" not in reply.text
    shown = run(tools, "read_ir", candidate=mine, what="assembly", kernel="_backward_input")
    assert "assembly of _backward_input" in shown.text
    small = run(tools, "read_ir", candidate=mine, what="ttir", kernel="_forward#1")
    assert "ttir of _forward#1:" in small.text, "of cases for bits only, by its name"
    assert "8-byte Spill" in shown.text
    assert ".size" not in shown.text
    assert [kind for kind, _ in desk.log] == ["bits", "code"], "looked at once"
    wrong = run(tools, "read_ir", candidate=mine, what="ttir", kernel="nope")
    assert "it has: _forward#2, _backward_input" in wrong.text


def test_get_task_tells_what_limits_each_case_and_what_the_seed_took(desk: FakeDesk) -> None:
    tools = toolbox(desk)
    before = run(tools, "get_task").text
    assert "residual_infer.bf16.M16-N1024.normal | infer | 0.2 |" in before
    assert "20.0 us" not in before
    run(tools, "measure", candidate=checked(tools))
    assert "20.0 us" in run(tools, "get_task").text


def test_finish_ends_the_session_with_its_reason(desk: FakeDesk) -> None:
    reply = run(toolbox(desk), "finish", reason="nothing\nleft")
    assert (reply.finished, reply.is_error) == ("nothing left", False)
    assert run(toolbox(desk), "finish", reason=" ").finished == "finished"


def test_a_failure_of_the_machine_is_said_and_others_may_be_tried(desk: FakeDesk) -> None:
    tools = toolbox(desk)
    desk.raises = InfrastructureError("a worker was killed in /var/run/host")
    reply = run(tools, "check", base="seed", edits=[EDIT])
    assert reply.is_error
    assert "The machine failed on this twice" in reply.text
    assert "Go on with something else" in reply.text
    assert "/var" not in reply.text
    desk.raises = None
    assert not run(tools, "check", base="seed", edits=[EDIT]).is_error


@pytest.mark.parametrize("error", [EvidenceError("untrue"), StorageError("disk full")])
def test_what_ends_a_run_passes_through(desk: FakeDesk, error: Exception) -> None:
    desk.raises = error
    with pytest.raises(type(error)):
        run(toolbox(desk), "check", base="seed", edits=[EDIT])


def test_a_replayed_session_goes_on_as_the_one_that_ran(desk: FakeDesk) -> None:
    tools, script = toolbox(desk), []

    def play(name: str, /, **given: Any) -> ToolReply:
        reply = run(tools, name, len(script), **given)
        script.append((name, given, recorded(name, reply, len(script))))
        return reply

    play("check", base="seed", edits=[BROKEN])
    good = play("check", base="seed", edits=[EDIT]).facts["candidate"]
    play("measure", candidate=good)
    further = {
        "old": "products += (dy * weight) * (x * rstd)",
        "new": "products += (x * rstd) * (dy * weight)",
    }
    next_one = play("check", base=good, edits=[further]).facts["candidate"]
    play("submit", candidate=good, note="one")
    play("lineage")
    done = list(desk.log)
    resumed = toolbox(desk)
    for name, given, result in script:
        resumed.replay(name, given, result)
    assert desk.log == done, "nothing ran"
    for name, given in (
        ("check", {"base": good, "edits": [further]}),
        ("submit", {"candidate": good, "note": ""}),
        ("measure", {"candidate": good}),
        ("read_source", {"name": next_one}),
        ("get_task", {}),
    ):
        assert run(resumed, name, **given) == run(tools, name, **given)
    submitted = run(resumed, "submit", 9, candidate=next_one, note="two")
    assert "ACCEPTED" in submitted.text
    assert desk.log[-1][1].parents == (good,)


def test_a_record_that_was_edited_is_no_evidence(desk: FakeDesk) -> None:
    tools = toolbox(desk)
    reply = run(tools, "check", base="seed", edits=[EDIT])
    given = {"base": "seed", "edits": [BROKEN]}
    with pytest.raises(EvidenceError, match="does not give its source again"):
        toolbox(desk).replay("check", given, recorded("check", reply))
