"""``replay`` on fakes: what it judges by, and what it says when something is not as it was."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelsmith import replay as repeating
from kernelsmith.cli.reading import opened
from kernelsmith.errors import InputError, MissingError
from kernelsmith.lineage import queries
from kernelsmith.lineage.replays import recorded_verdict
from kernelsmith.model import Candidate, CheckResult, Verdict
from tests.loop import fakes
from tests.loop.fake_wiring import FakeDevice
from tests.replay.conftest import Kit


def run_of(kit: Kit, *words: str) -> list[dict[str, Any]]:
    """A run of fourteen candidates; their ids and verdicts in order."""
    limits = ["--max-candidates", "14", "--seed", "4", "--json"]
    assert kit("run", "toy", *limits, *words)[0] == 0
    plain = sqlite3.connect("runs.db")
    rows = plain.execute(
        "SELECT c.id, v.status FROM verdicts v JOIN candidates c USING (record) ORDER BY v.step"
    ).fetchall()
    plain.close()
    return [{"id": name, "status": status} for name, status in rows]


def first(judged: list[dict[str, Any]], status: str) -> str:
    return str(next(each["id"] for each in judged if each["status"] == status))


def replayed(kit: Kit, name: str, *words: str) -> tuple[int, dict[str, Any]]:
    code, out, err = kit("replay", name, "--json", *words)
    assert not err, err
    return code, json.loads(out)


@pytest.mark.parametrize("status", ["ACCEPTED", "BITS_DIFFER", "POLICY", "NOT_FASTER"])
def test_every_kind_of_verdict_is_repeated_from_the_record(kit: Kit, status: str) -> None:
    name = first(run_of(kit), status)
    code, shown = replayed(kit, name)
    assert (code, shown["outcome"]) == (0, "same")
    assert shown["recorded"]["status"] == shown["here"]["status"] == status
    assert (shown["changes"], shown["differences"]) == ([], [])


def test_the_gate_gets_the_recorded_task_secret_incumbent_and_count(kit: Kit) -> None:
    judged = run_of(kit)
    task, secret = kit.asked[0]
    told = list(kit.judge.judged)
    kit.known = False  # the task's file is gone: the record must do
    for number, each in enumerate(judged):
        kit.judge.judged.clear()
        assert replayed(kit, each["id"])[0] == 0
        assert kit.judge.judged == [told[number]]
        assert kit.asked[-1] == (task, secret)


def test_what_is_recorded_is_read_and_nothing_is_written(kit: Kit, tmp_path: Path) -> None:
    name = first(run_of(kit), "ACCEPTED")
    before = (tmp_path / "runs.db").read_bytes()
    assert replayed(kit, name)[0] == 0
    assert (tmp_path / "runs.db").read_bytes() == before


def test_another_verdict_exits_1_and_says_what_differs(kit: Kit) -> None:
    name = first(run_of(kit), "ACCEPTED")
    kit.judge = fakes.FakeJudge(status=lambda candidate: "BITS_DIFFER")
    code, shown = replayed(kit, name)
    assert (code, shown["outcome"]) == (1, "different")
    parts = [(each["what"], each["recorded"], each["here"]) for each in shown["differences"]]
    assert ("status", "ACCEPTED", "BITS_DIFFER") in parts
    code, out, _ = kit("replay", name)
    assert code == 1
    assert "the verdict is not repeated" in out


class OtherWords(fakes.FakeJudge):
    """Finds other bits to differ than were recorded."""

    def judge(
        self, candidate: Candidate, incumbent: Candidate, confirms: int, number: int | None = None
    ) -> Verdict:
        verdict = super().judge(candidate, incumbent, confirms, number)
        *rest, last = verdict.checks
        return replace(verdict, checks=(*rest, replace(last, message="case m7: y[2]")))


def test_other_bits_are_no_repetition_of_the_same_status(kit: Kit) -> None:
    name = first(run_of(kit), "BITS_DIFFER")
    kit.judge = OtherWords()
    code, shown = replayed(kit, name)
    assert (code, shown["outcome"]) == (1, "different")
    assert [each["what"] for each in shown["differences"]] == ["message"]


def test_another_epoch_is_named_first_and_bits_are_still_compared(kit: Kit) -> None:
    judged = run_of(kit)
    kit.device = FakeDevice("another toy")
    code, out, _ = kit("replay", first(judged, "BITS_DIFFER"))
    assert code == 0
    lines = out.splitlines()
    assert lines[1] == "another epoch: cpu is another toy, was a toy"
    assert lines[-1] == "the verdict is repeated"


def test_the_speed_of_another_epoch_decides_nothing(kit: Kit) -> None:
    name = first(run_of(kit), "ACCEPTED")
    kit.judge = fakes.FakeJudge(status=lambda candidate: "NOT_FASTER")
    assert replayed(kit, name)[0] == 1
    kit.device = FakeDevice("another toy")
    code, shown = replayed(kit, name)
    assert (code, shown["outcome"]) == (5, "undecidable")
    assert shown["epoch"]["recorded"] != shown["epoch"]["here"]


def test_a_missing_device_exits_3(kit: Kit) -> None:
    name = first(run_of(kit), "ACCEPTED")

    class Gone(FakeDevice):
        def describe(self) -> dict[str, Any]:
            raise MissingError("no such device here", hint="use another")

    kit.device = Gone()
    assert kit("replay", name)[0] == 3


def test_a_run_that_kept_no_definitions_cannot_be_repeated(kit: Kit) -> None:
    name = first(run_of(kit), "ACCEPTED")
    plain = sqlite3.connect("runs.db")
    (text,) = plain.execute("SELECT options FROM runs").fetchone()
    options = json.loads(text)
    assert set(options.pop("definitions")) == {"toy"}
    plain.execute("UPDATE runs SET options = ?", (json.dumps(options),))
    plain.commit()
    plain.close()
    with opened(Path("runs.db")) as connection:
        record = queries.find_candidate(connection, name)
        with pytest.raises(InputError, match="keeps no definition of task toy"):
            recorded_verdict(connection, record)
    code, out, err = kit("replay", name)
    assert (code, out) == (5, "")
    assert "the lineage was edited after it was recorded: runs " in err


def timed_out(message: str) -> Verdict:
    check = CheckResult(name="parity.train", status="fail", seconds=1.0, message=message)
    return Verdict(
        candidate="c", task="toy", status="TIMEOUT", checks=(check,), gain=None, unchecked=(),
        epoch="e", device={},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("here", "differs"),
    [("b: did not end within 30.0016 s", False), ("c: did not end within 30.0015 s", True)],
)
def test_how_long_was_waited_is_measured_and_where_it_hung_is_not(here: str, differs: bool) -> None:
    then = timed_out("b: did not end within 30.0015 s")
    assert bool(repeating.compare(then, timed_out(here))) is differs


def test_a_seed_and_a_stranger_have_no_verdict(kit: Kit) -> None:
    run_of(kit)
    seed = fakes.seed_of(fakes.make_task()).id
    code, _, err = kit("replay", seed)
    assert (code, "it is a seed" in err) == (2, True)
    assert kit("replay", "ffff")[0] == 2


def test_only_the_searchs_own_from_a_shipped_seed_is_trusted(kit: Kit) -> None:
    name = first(run_of(kit), "ACCEPTED")
    kit.walls.clear()
    replayed(kit, name)
    kit.known = False
    replayed(kit, name, "--sandbox", "bubblewrap")
    assert kit.walls == [("auto", True), ("bubblewrap", False)]


class Timing(fakes.FakeJudge):
    """Keeps timing sessions as the gate does: which judgement of the gate, against whom."""

    numbers: list[int | None]

    def judge(
        self, candidate: Candidate, incumbent: Candidate, confirms: int, number: int | None = None
    ) -> Verdict:
        self.numbers = [*getattr(self, "numbers", []), number]
        verdict = super().judge(candidate, incumbent, confirms, number)
        label = f"{candidate.id} {len(self.judged)} screen"
        kept = {"session": label, "against": incumbent.id}
        return replace(verdict, samples=(kept,) if verdict.samples else ())


def test_hidden_shapes_are_drawn_again_by_the_number_on_record(kit: Kit) -> None:
    kit.judge = Timing()
    judged = run_of(kit)
    kit.judge.numbers.clear()
    for each in judged:
        replayed(kit, each["id"])
    timed = [each["status"] in ("ACCEPTED", "NOT_FASTER") for each in judged]
    wanted = [place + 1 if was else None for place, was in enumerate(timed)]
    assert kit.judge.numbers == wanted


def test_a_winner_found_unsupported_is_not_what_later_ones_had_to_beat(kit: Kit) -> None:
    kit.judge.holds = lambda candidate: False
    judged = run_of(kit)
    assert kit("resume", "latest", "--max-candidates", "6")[0] == 0
    told = {name: against for name, against, _ in kit.judge.judged}
    seed = fakes.seed_of(fakes.make_task()).id
    later = [name for name in told if name not in [each["id"] for each in judged]]
    assert told[later[0]] == seed
    kit.judge.judged.clear()
    for name in told:
        replayed(kit, name)
    assert {name: against for name, against, _ in kit.judge.judged} == told
