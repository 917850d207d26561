"""What a database shows of a run that was killed and resumed: problems found, things counted.

A *life* is one process of the run; a new one begins with each "started" or "resumed" on record.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from kernelsmith.lineage import conversations, database
from kernelsmith.lineage.verify import verify
from kernelsmith.model import END_OF_BODY, CallRecord, SessionRecord
from kernelsmith.wire import answer_of

LOOK_OF_TOOL = {"check": "bits", "measure": "time", "read_ir": "code"}
PROGRESS = """
SELECT (SELECT count(*) FROM model_answers WHERE complete AND status = 200)
  + (SELECT count(*) FROM tool_results) + (SELECT count(*) FROM verdicts)
  + (SELECT count(*) FROM sessions) + (SELECT count(*) FROM session_ends)
"""
"""Grows with what a run has behind it, and with nothing that is done again."""


@dataclass(slots=True)
class Evidence:
    """``accepted``: candidate ids by task; ``statuses``: all that was judged; ``last_step``: what
    came on record last."""

    problems: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, list[str]] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    spent_tokens: int = 0
    last_step: str = ""

    def require(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class Happened:
    """What others saw. ``at_server``: lines of the server's log; ``at_gate``: of the judges'."""

    at_server: Sequence[dict[str, Any]]
    at_gate: Sequence[dict[str, Any]]


def lines(path: Path) -> list[dict[str, Any]]:
    """A log of JSON lines; a last line that was cut off is left out."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def examine(db: Path, happened: Happened, killed_lives: int) -> Evidence:
    """Everything that must hold after any kill. ``killed_lives``: how many of the lives so far
    were killed."""
    found = Evidence()
    opened = database.open_for_reading(db)
    try:
        with opened.reading() as connection:
            report = verify(connection)
            found.problems += [f"lineage: {finding.line()}" for finding in report.findings]
            run_id = connection.exec_driver_sql("SELECT id FROM runs").scalar_one()
            sessions = conversations.sessions(connection, run_id)
            for session in sessions:
                conversation(found, session)
            server(found, sessions, happened)
            _gate(found, connection, happened, killed_lives)
            _standing(found, connection, sessions)
    finally:
        opened.close()
    return found


def conversation(found: Evidence, session: SessionRecord) -> None:
    """No received turn is sent again; every body begins with the one before it."""
    start = session.start
    found.require(start is not None, f"{session.id} has no beginning on record")
    if start is None:
        return
    before = start.prefix + start.opening + END_OF_BODY
    turns: dict[int, list[CallRecord]] = {}
    for call in session.calls:
        turns.setdefault(call.sent.turn if call.sent.turn is not None else -1, []).append(call)
    found.require(list(turns) == list(range(len(turns))), f"{session.id}: turns {list(turns)}")
    for turn, calls in turns.items():
        where = f"{session.id} turn {turn}"
        bodies = {call.sent.request for call in calls}
        found.require(len(bodies) == 1, f"{where}: {len(bodies)} different bodies")
        body = calls[0].sent.request
        found.require(
            body.startswith(before[: -len(END_OF_BODY)]),
            f"{where}: its body does not begin with the one before it",
        )
        before = body
        attempts = [call.sent.attempt for call in calls]
        found.require(attempts == list(range(len(calls))), f"{where}: attempts {attempts}")
        received = [n for n, call in enumerate(calls) if call.answer and answer_of(call.answer)]
        found.require(len(received) <= 1, f"{where}: received {len(received)} times")
        if received:
            last = received[0] == len(calls) - 1
            found.require(last, f"{where}: sent again after its answer was on record")
        elif turn < len(turns) - 1:
            found.require(False, f"{where}: not received, and the conversation went on")
    seen = Counter((done.turn, done.tool_use_id) for done in session.results)
    twice = [key for key, count in seen.items() if count > 1]
    found.require(not twice, f"{session.id}: results recorded twice: {twice}")


def server(found: Evidence, sessions: Sequence[SessionRecord], happened: Happened) -> None:
    """The bytes that the server saw are those on record."""
    sent, answered = Counter[str](), Counter[str]()
    for session in sessions:
        for call in session.calls:
            name = sha256(call.sent.request).hexdigest()
            sent[name] += 1
            answered[name] += call.answer is not None and call.answer.status is not None
    # A request that was on record and not yet out when the kill came is not in the server's log;
    # the log is written after the answer, so a request cut off by the kill may lack its line.
    seen = Counter(line["request_sha256"] for line in happened.at_server)
    unknown = sum((seen - sent).values())
    found.require(not unknown, f"the server saw {unknown} requests that are not on record")
    silent = sum((answered - seen).values())
    found.require(not silent, f"{silent} answers on record are of requests the server never saw")
    leaked = [line for line in happened.at_server if line.get("own_headers_seen")]
    found.require(not leaked, "the server saw headers that are ours")
    found.counts["requests_at_server"] = sum(seen.values())


def _gate(found: Evidence, connection: Connection, happened: Happened, killed_lives: int) -> None:
    """What is on record is not run again: no look whose result is, no judgement whose verdict is.

    A life that is killed may have begun what it could not record: at most one piece of work, since
    the gate does one thing at a time, and one more look that was done and whose result was on its
    way to the record.
    """
    lives = connection.exec_driver_sql(
        "SELECT step, payload FROM events WHERE kind IN ('started', 'resumed') ORDER BY step"
    ).all()
    steps = [row[0] for row in lives]
    life_of = {json.loads(row[1])["process"]["pid"]: n for n, row in enumerate(lives)}
    begun = [line for line in happened.at_gate if line["phase"] == "begin"]
    looks = Counter(
        (life_of[line["pid"]], line["what"], line["candidate"])
        for line in begun
        if line["what"] in LOOK_OF_TOOL.values()
    )
    results = connection.exec_driver_sql("SELECT step, name, facts FROM tool_results").all()
    done: Counter[tuple[int, str, str]] = Counter()
    for step, name, facts in results:
        candidate = json.loads(facts).get("candidate", "")
        done[(bisect_right(steps, step) - 1, LOOK_OF_TOOL.get(name, ""), candidate)] += 1
    for life, extra in sorted(Counter(key[0] for key in (looks - done).elements()).items()):
        allowed = IN_FLIGHT if life < killed_lives else 0
        found.require(extra <= allowed, f"life {life}: {extra} looks without a result of theirs")
    verdicts = connection.exec_driver_sql(
        "SELECT verdicts.step, candidates.id, candidates.task, status FROM verdicts "
        "JOIN candidates USING (record) ORDER BY verdicts.step"
    ).all()
    judged_in = {row[1]: bisect_right(steps, row[0]) - 1 for row in verdicts}
    for line in begun:
        if line["what"] == "judge" and line["candidate"] in judged_in:
            late = life_of[line["pid"]] > judged_in[line["candidate"]]
            found.require(not late, f"{line['candidate']} was judged again after its verdict")
    twice = len(verdicts) - len(judged_in)
    found.require(not twice, f"{twice} candidates have two verdicts")
    found.statuses = {row[1]: row[3] for row in verdicts}
    for _, candidate, task, status in verdicts:
        if status == "ACCEPTED":
            found.accepted.setdefault(task, []).append(candidate)
    found.counts["lives"] = len(lives)
    found.counts["looks"] = sum(looks.values())
    found.counts["looks_begun_again"] = sum((looks - done).values())
    found.counts["judgements"] = sum(line["what"] == "judge" for line in begun)
    found.counts["verdicts"] = len(verdicts)


IN_FLIGHT = 2


def _standing(found: Evidence, connection: Connection, sessions: Sequence[SessionRecord]) -> None:
    calls = [call for session in sessions for call in session.calls]
    received = [call for call in calls if call.answer and answer_of(call.answer)]
    found.counts |= {
        "sessions": len(sessions),
        "sessions_ended": sum(session.end is not None for session in sessions),
        "calls": len(calls),
        "calls_without_answer": sum(call.answer is None for call in calls),
        "calls_in_flight": _in_flight(connection),
        "received": len(received),
        "tool_results": sum(len(session.results) for session in sessions),
        "steps": connection.exec_driver_sql("SELECT count(*) FROM steps").scalar_one(),
    }
    newest = "SELECT kind FROM steps ORDER BY seq DESC LIMIT 1"
    found.last_step = connection.exec_driver_sql(newest).scalar_one()
    found.spent_tokens = sum(call.answer.usage.tokens for call in received if call.answer)


def _in_flight(connection: Connection) -> int:
    """Calls of the newest life that nothing is known to have come back for."""
    query = """
        SELECT count(*) FROM model_calls LEFT JOIN model_answers ON call_id = model_calls.id
        WHERE call_id IS NULL AND model_calls.step >
            (SELECT max(step) FROM events WHERE kind IN ('started', 'resumed'))
    """
    return int(connection.exec_driver_sql(query).scalar_one())
