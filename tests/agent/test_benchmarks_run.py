"""The benchmarks' own parts: what would be wrong shows, and an edit makes another program."""

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest

from kernelsmith import catalog
from kernelsmith.gate import policy
from kernelsmith.model import (
    CallAnswered,
    CallRecord,
    CallSent,
    SessionRecord,
    SessionStart,
    ToolDone,
)
from kernelsmith.proposers.search import normalised_hash
from kernelsmith.rehearsal import replies
from kernelsmith.wire import fragments

BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")
PREFIX = b'{"model":"m","messages":['
OPENING = fragments.user_text("Task: toy. Session: 0. Parent: p.")
REPLY = replies.Reply(parts=(replies.ToolCall("get_task", "{}"),))
STREAM = b"".join(replies.stream_events(REPLY, "5" * 64, replies.Usage(), thinking=False))


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """Those of ``benchmarks/agent``, which is no package that is installed."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    names = ("evidence", "edits_server")
    yield {name: importlib.import_module(f"agent.{name}") for name in names}
    for name in [each for each in sys.modules if each.split(".")[0] == "agent"]:
        del sys.modules[name]


def sent(turn: int, request: bytes, attempt: int = 0) -> CallSent:
    return CallSent(
        run_id="r",
        session_id="s",
        turn=turn,
        attempt=attempt,
        method="POST",
        path="/v1/messages",
        headers=(),
        dropped=(),
        request=request,
    )


def answered(status: int = 200) -> CallAnswered:
    return CallAnswered(
        call_id="c",
        status=status,
        headers=(("content-type", "text/event-stream"),),
        body=STREAM,
        complete=True,
        delivered_bytes=len(STREAM),
        error="",
        first_byte_s=0.0,
        seconds=0.0,
    )


def bodies() -> tuple[bytes, bytes]:
    first = fragments.body(PREFIX, [OPENING])
    return first, first[:-2] + b"," + fragments.user_text("go on") + b"]}"


def talk() -> SessionRecord:
    """Two turns; the first was refused once, the second is not answered yet."""
    first, second = bodies()
    start = SessionStart(
        id="s",
        run_id="r",
        task="toy",
        ordinal=0,
        parent="p",
        model="m",
        prompt="h",
        prefix=PREFIX,
        opening=OPENING,
    )
    calls = (
        CallRecord(id="1", sent=sent(0, first), answer=answered(529)),
        CallRecord(id="2", sent=sent(0, first, 1), answer=answered()),
        CallRecord(id="3", sent=sent(1, second), answer=None),
    )
    done = ToolDone(
        session_id="s",
        turn=0,
        ordinal=0,
        tool_use_id="t",
        name="check",
        text="",
        is_error=False,
        seconds=0.0,
    )
    return SessionRecord(id="s", start=start, calls=calls, results=(done,), end=None)


def test_a_conversation_in_order_shows_no_problem(modules: dict[str, ModuleType]) -> None:
    found = modules["evidence"].Evidence()
    modules["evidence"].conversation(found, talk())
    assert found.problems == []


def test_what_a_kill_must_not_do_to_a_conversation_shows(modules: dict[str, ModuleType]) -> None:
    whole = talk()
    first, second = bodies()
    refused, received, waiting = whole.calls
    again = CallRecord(id="4", sent=sent(0, first, 2), answer=None)
    other = replace(waiting, sent=sent(1, second.replace(b"Task: toy", b"Task: toi")))
    wrong = {
        "sent again after its answer": (refused, received, again, waiting),
        "does not begin with": (refused, received, other),
        "not received, and the conversation went on": (refused, waiting),
        "received 2 times": (replace(received, sent=sent(0, first)), received),
        "attempts": (received,),
    }
    for words, calls in wrong.items():
        found = modules["evidence"].Evidence()
        modules["evidence"].conversation(found, replace(whole, calls=calls))
        assert any(words in problem for problem in found.problems), (words, found.problems)
    found = modules["evidence"].Evidence()
    modules["evidence"].conversation(found, replace(whole, results=whole.results * 2))
    assert "recorded twice" in found.problems[0]


def test_requests_that_only_one_side_knows_show(modules: dict[str, ModuleType]) -> None:
    evidence = modules["evidence"]
    lines = [{"request_sha256": sha256(call.sent.request).hexdigest()} for call in talk().calls]
    stranger = {"request_sha256": "0" * 64, "own_headers_seen": ["x-kernelsmith-turn"]}
    cases = {(): lines, ("headers", "not on record"): [*lines, stranger], ("never saw",): lines[2:]}
    for words, log in cases.items():
        found = evidence.Evidence()
        evidence.server(found, [talk()], evidence.Happened(log, []))
        assert len(found.problems) == len(words)
        assert all(any(word in problem for problem in found.problems) for word in words)


@pytest.mark.parametrize("task", ["rms_norm", "linear"])
def test_each_edit_makes_another_program_within_the_language(
    modules: dict[str, ModuleType], task: str
) -> None:
    loaded = catalog.load_task(task, "cpu", ())
    first = modules["edits_server"].initial(task, loaded.seed_source)
    found = modules["edits_server"].CURRENT.search(f"# Current Program\n```python\n{first}```")
    assert found is not None
    second = first.replace(found[1], re.sub(r"\+ \d+", "+ 77", found[1]))
    assert first.count(found[1]) == 1
    assert len({normalised_hash(each) for each in (loaded.seed_source, first, second)}) == 3
    assert policy.check(first, loaded.entries) == []
