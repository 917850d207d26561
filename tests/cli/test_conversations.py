"""``show SESSION``, and what ``show RUN`` and ``runs`` tell of an agent, on a hand-made record."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.cli import standing
from kernelsmith.lineage.journal import LineageJournal, open_journal
from kernelsmith.lineage.spending import AgentStanding
from kernelsmith.lineage.store import LineageStore, open_store
from kernelsmith.model import Usage
from tests.cli.asking import Kernelsmith, one_error_line
from tests.lineage import talks

Story = Callable[[LineageStore, LineageJournal], str]


def record(folder: Path, story: Story) -> str:
    path = folder / "runs.db"
    store, journal = open_store(path), open_journal(path)
    try:
        return story(store, journal)
    finally:
        journal.close()
        store.close()


@pytest.fixture
def run_id(tmp_path: Path) -> str:
    return record(tmp_path, talks.record_story)


def shown(kernelsmith: Kernelsmith, *words: str) -> dict[str, Any]:
    code, out, err = kernelsmith("show", *words, "--json")
    assert (code, err) == (0, "")
    return dict(json.loads(out))


def is_inert(text: str) -> bool:
    return all(each == "\n" or each.isprintable() for each in text)


def test_a_conversation_is_told_turn_by_turn(kernelsmith: Kernelsmith, run_id: str) -> None:
    code, out, err = kernelsmith("show", talks.SESSION[:5])
    assert (code, err) == (0, "")
    lines = out.splitlines()
    for line in (
        f"session    {talks.SESSION}",
        f"run        {run_id}",
        f"parent     {talks.SEED.id}",
        "calls      4 in 3 turns, 1 without an answer",
        "tokens     8,000 tokens in (6,000 from the cache), 400 out",
        "spend      $0.0200",
        f"submitted  {talks.SUBMITTED}  ACCEPTED",
        "end        finished: nothing is left to try",
        "  user     Task: toy. Session: 0. Parent: p.",
        "  thinking 300 characters",
        "  tool     check  (toolu_1)",
        "             line_11 = 11",
        f"             … 28 more lines: kernelsmith diff {talks.SUBMITTED}",
        "  error    check, 0.5 s  (toolu_1)",
        "  result   submit, 0.5 s  (toolu_2)",
        "             for every row",
    ):
        assert line in lines
    told = [line.split(";", 1)[1] for line in lines if line.startswith("  call ")]
    assert told[1] == " status 529 after 1.5 s; overloaded_error: Overloaded"
    assert told[2].endswith("200 out, $0.0100, tool_use")
    assert told[3] == " no answer is on record"
    assert "line_12" not in out
    assert "scripted" not in out


def test_nothing_that_was_said_is_obeyed_by_a_terminal(
    kernelsmith: Kernelsmith, run_id: str
) -> None:
    words = ([talks.SESSION], [run_id], [talks.SUBMITTED])
    told = [kernelsmith("show", *each)[1] for each in words]
    told.append(kernelsmith("diff", talks.SUBMITTED)[1])
    told.append(kernelsmith("runs")[1])
    assert all(is_inert(out) for out in told)
    assert r"look\x1b[2J \u202egnp\u200b\x9b31m \x00 and\x0d" in told[0]
    assert "this\\x0cend" in told[0]
    assert r"note       tiles\x1b]0;owned\x07 of 64" in told[2]
    for out in (told[0], told[2]):  # a line of the model's stands where none of ours does
        claims = [line for line in out.splitlines() if line.strip() == "verdict    accepted (cpu)"]
        assert claims
        assert all(line.startswith(" ") for line in claims)


def test_all_of_it_is_in_one_document(kernelsmith: Kernelsmith, run_id: str) -> None:
    found = shown(kernelsmith, talks.SESSION)
    assert found["schema"] == "kernelsmith.session/1"
    assert (found["run"], found["rehearsal"], found["turns"]) == (run_id, False, 3)
    assert (found["cost_usd"], found["usage"]["tokens"]) == ("0.02", 8400)
    assert found["end"] == {"reason": "finished", "message": "nothing is left to try"}
    assert found["facts"] == {"effort": "high"}
    assert found["submitted"] == [
        {"candidate": talks.SUBMITTED, "tool_use_id": "toolu_2", "status": "ACCEPTED"}
    ]
    first, second, third = found["exchanges"]
    assert first["user"] == [{"type": "text", "text": "Task: toy. Session: 0. Parent: p."}]
    (call,) = first["calls"]
    assert call["request_bytes"] == len(talks.body([talks.OPENING]))
    assert call["dropped"] == ["x-api-key"]
    thinking, text, tool = call["answer"]["said"]
    assert thinking["text"] == "hm " * 100
    assert text == {"kind": "text", "text": talks.ODD}
    assert tool["input"] == {"source": talks.SOURCE}
    assert call["answer"]["cost_usd"] == "0.01"
    assert first["results"][0]["is_error"] is True
    failed, again = second["calls"]
    assert failed["answer"]["server_said"] == {"kind": "overloaded_error", "message": "Overloaded"}
    assert (failed["answer"]["received"], again["answer"]["received"]) == (False, True)
    assert again["attempt"] == 1
    assert [each["answer"] for each in third["calls"]] == [None]


def test_a_run_lists_its_sessions_and_what_they_cost(kernelsmith: Kernelsmith, run_id: str) -> None:
    _, out, _ = kernelsmith("show", run_id)
    assert "agent: 1 session with m-1, 4 calls, 8,400 tokens, $0.0200 of $5.00" in out
    row = next(line for line in out.splitlines() if line.startswith(talks.SESSION))
    assert row.split()[:7] == [talks.SESSION, "toy", "3", "1", "1", "8,400", "$0.0200"]
    assert f"  kernelsmith show {talks.SESSION}" in out
    agent = shown(kernelsmith, run_id)["agent"]
    assert (agent["model"], agent["rehearsal"], agent["budget_usd"]) == ("m-1", False, "5")
    assert agent["cost_usd"] == "0.02"
    (session,) = agent["sessions"]
    assert (session["submissions"], session["accepted"], session["answers"]) == (1, 1, 3)
    _, out, _ = kernelsmith("runs", "--json")
    assert json.loads(out)["runs"][0]["agent"] == agent


def test_a_rehearsal_says_that_it_is_one(kernelsmith: Kernelsmith, tmp_path: Path) -> None:
    run_id = record(
        tmp_path, lambda store, journal: talks.record_story(store, journal, rehearsal=True)
    )
    for words in (["show", run_id], ["runs"], ["show", talks.SESSION]):
        assert "scripted replies, not a model" in kernelsmith(*words)[1]
    assert shown(kernelsmith, talks.SESSION)["rehearsal"] is True
    assert shown(kernelsmith, run_id)["agent"]["rehearsal"] is True


SSE = ("content-type", "text/event-stream")


@pytest.mark.parametrize(
    ("first_answer", "label"),
    [
        ({"model": "scripted-replies"}, True),
        ({"headers": (SSE, ("x-rehearsal", "scripted replies, not a model"))}, True),
        ({"headers": (SSE, ("x-note", "x-rehearsal"))}, False),
        ({"headers": (SSE, ("x-note", '["x-rehearsal", ""]'))}, False),
    ],
)
def test_scripted_replies_are_labelled_whatever_the_run_was_started_as(
    kernelsmith: Kernelsmith, tmp_path: Path, first_answer: dict[str, Any], label: bool
) -> None:
    run_id = record(
        tmp_path, lambda store, journal: talks.record_story(store, journal, first_answer)
    )
    for words in (["show", run_id], ["runs"], ["show", talks.SESSION]):
        assert (
            "scripted replies, not a model" in kernelsmith(*words)[1].split("turn 0")[0]
        ) is label
    assert shown(kernelsmith, talks.SESSION)["rehearsal"] is label
    agent = shown(kernelsmith, run_id)["agent"]
    assert (agent["rehearsal"], agent["sessions"][0]["rehearsal"]) == (label, label)
    assert json.loads(kernelsmith("runs", "--json")[1])["runs"][0]["agent"] == agent


@pytest.mark.parametrize("rehearsal", [True, False])
def test_a_candidate_of_a_rehearsal_is_labelled_beside_its_author(
    kernelsmith: Kernelsmith, tmp_path: Path, rehearsal: bool
) -> None:
    record(tmp_path, lambda store, journal: talks.record_story(store, journal, rehearsal=rehearsal))
    label = "scripted replies, not a model"
    _, out, _ = kernelsmith("show", talks.SUBMITTED)
    (author,) = [line for line in out.splitlines() if line.startswith("author ")]
    assert author.startswith("author     agent, ")
    assert author.endswith(f"({label})") is rehearsal
    assert shown(kernelsmith, talks.SUBMITTED)["rehearsal"] is rehearsal
    _, patch, said = kernelsmith("diff", talks.SUBMITTED)
    assert label not in patch  # it is for git apply
    assert (said == f"{talks.SUBMITTED} by agent: {label}\n") is rehearsal
    told = json.loads(kernelsmith("diff", talks.SUBMITTED, "--json")[1])
    assert (told["author"], told["rehearsal"]) == ("agent", rehearsal)
    assert shown(kernelsmith, talks.SEED.id)["rehearsal"] is False


def test_a_candidate_names_the_conversation_it_comes_from(
    kernelsmith: Kernelsmith, run_id: str
) -> None:
    assert shown(kernelsmith, talks.SUBMITTED)["origin"] == f"{talks.SESSION}/toolu_2"
    assert f"kernelsmith show {talks.SESSION}" in kernelsmith("show", talks.SUBMITTED)[1]


def test_a_run_of_the_search_has_no_agent(kernelsmith: Kernelsmith) -> None:
    kernelsmith("run", "toy", "--max-candidates", "2", "--seed", "4")
    _, out, _ = kernelsmith("runs", "--json")
    assert json.loads(out)["runs"][0]["agent"] is None
    assert "agent" not in kernelsmith("show", "latest")[1]


def odd_answers(store: LineageStore, journal: LineageJournal) -> str:
    run_id = talks.begin_run(store)
    malformed = {"type": "tool_use", "id": "t1", "name": "check", "partial": '{"source": "x\x1b'}
    headers = (("content-type", "text/event-stream"), ("content-encoding", "br"))
    cut = talks.stream({"type": "text", "text": "half"})[:-60]
    answers: list[dict[str, Any]] = [
        {"body": talks.stream(malformed)},
        {"body": b"\x8b\x02\x80odd", "headers": headers},
        {"body": cut, "complete": False, "error": "the stream broke off"},
        {"body": b"", "status": None, "headers": (), "complete": False, "error": "refused"},
        {"body": b"<html>\x1b[31mBad gateway</html>", "status": 502},
    ]
    for answer in answers:
        request = b'{"messages":[{"role":"user","content":"hi \x1b[2J"}]}'
        call = journal.append(talks.sent(run_id, None, request, session_id="Their talk")).result()
        journal.append(talks.answered(call, **answer)).result()
    journal.append(talks.sent(run_id, None, b"\xff\x00", session_id="Their talk")).result()
    journal.append(talks.sent(run_id, None, b"[" * 99999, session_id="Their talk")).result()
    return run_id


def test_a_foreign_clients_odd_answers_are_shown_for_what_they_are(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    record(tmp_path, odd_answers)
    code, out, err = kernelsmith("show", "Their")
    assert (code, err) == (0, "")
    assert is_inert(out)
    for words in (
        "calls      7 in 7 turns, 2 without an answer",
        "end        a foreign client's",
        "user     hi \\x1b[2J",
        "the input is no JSON",
        "content encoding 'br' is not known",
        "the stream broke off; cut off after",
        "no status after 1.5 s; refused; cut off after 0 bytes",
        "status 502 after 1.5 s",
        r"<html>\x1b[31mBad gateway</html>",
        '{"type": "unreadable request", "bytes": 2}',
        "model    half",
        "spend      not priced",
    ):
        assert words in out
    found = shown(kernelsmith, "Their talk")
    assert (found["ordinal"], len(found["exchanges"]), found["end"]) == (None, 7, None)
    assert found["exchanges"][0]["calls"][0]["answer"]["said"][0]["written"] == '{"source": "x\x1b'


def test_a_session_before_its_first_call_shows_how_it_opens(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    def begin(store: LineageStore, journal: LineageJournal) -> str:
        return journal.append(talks.start(talks.begin_run(store))).result()

    record(tmp_path, begin)
    _, out, _ = kernelsmith("show", talks.SESSION)
    assert "  user     Task: toy. Session: 0. Parent: p." in out
    assert "end        open" in out


def test_a_session_that_is_not_there_is_told(kernelsmith: Kernelsmith, run_id: str) -> None:
    code, out, err = kernelsmith("show", "s9")
    assert (code, out) == (2, "")
    assert "no session 's9'" in one_error_line(err)


@pytest.mark.parametrize(
    ("usd", "tokens", "says"),
    [
        ("0.004", None, "$0.0041 of $0.0040, budget spent"),
        ("5", None, "$0.0041 of $5.00"),
        (None, 10, "$0.0041, budget spent"),
        (None, 11, "$0.0041"),
    ],
)
def test_a_budget_that_ended_the_conversations_is_named(
    usd: str | None, tokens: int | None, says: str
) -> None:
    agent = AgentStanding(
        model="m-1",
        rehearsal=False,
        budget_usd=None if usd is None else Decimal(usd),
        budget_tokens=tokens,
        calls=1,
        usage=Usage(output=10),
        cost_usd=Decimal("0.0041"),
        sessions=(),
    )
    assert standing.agent_line(agent).endswith(says)
