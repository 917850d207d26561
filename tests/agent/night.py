"""A night without a model: scripted conversations, a journal in memory, the loop in miniature."""

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from kernelsmith.errors import InfrastructureError
from kernelsmith.lineage.past import PastCandidate
from kernelsmith.model import (
    AgentSettings,
    Candidate,
    JournalEntry,
    Look,
    LookKind,
    Price,
    Rates,
    SessionEnd,
    SessionRecord,
    SessionStart,
    Task,
    ToolDone,
    Usage,
    new_candidate,
    seed_candidate,
)
from kernelsmith.proposers.agent import Agent
from kernelsmith.proposers.agent.budget import Budget
from kernelsmith.proposers.agent.desk import Desk, View
from kernelsmith.proposers.agent.fittings import Fittings
from kernelsmith.proposers.agent.population import Choice
from tests.loop.fakes import make_task, normal_hash

RATES = Rates(
    input=Decimal(3),
    output=Decimal(15),
    cache_read=Decimal("0.3"),
    cache_write_5m=Decimal("3.75"),
    cache_write_1h=Decimal(6),
)
PRICES = {"model": Price(rates=RATES)}
SETTINGS = AgentSettings(
    model="model", max_tokens=100, prices=PRICES, concurrency=1, sessions_max=1, budget_usd=None
)
RUN = "run-1"
PREFIX = b'{"max_tokens":100,"messages":['


def settings(**changes: Any) -> AgentSettings:
    return replace(SETTINGS, **changes)


def judged(
    candidate: Candidate, status: str = "ACCEPTED", gain: float | None = None, message: str = ""
) -> PastCandidate:
    return PastCandidate(candidate=candidate, status=status, gain_vs_seed=gain, message=message)


def candidate(source: str, origin: str = "", task: str = "toy", **more: Any) -> Candidate:
    return new_candidate(source, task, author="agent", origin=origin, **more)


@dataclass
class MemoryJournal:
    entries: list[JournalEntry] = field(default_factory=list)

    def append(self, entry: JournalEntry) -> "Future[str]":
        self.entries.append(entry)
        future: Future[str] = Future()
        future.set_result(str(len(self.entries)))
        return future

    def sessions(self, run_id: str) -> Sequence[SessionRecord]:
        return [
            SessionRecord(
                id=start.id,
                start=start,
                calls=(),
                results=tuple(
                    each
                    for each in self.entries
                    if isinstance(each, ToolDone) and each.session_id == start.id
                ),
                end=next(
                    (
                        each
                        for each in self.entries
                        if isinstance(each, SessionEnd) and each.session_id == start.id
                    ),
                    None,
                ),
            )
            for start in self.starts
        ]

    def close(self) -> None: ...

    @property
    def starts(self) -> list[SessionStart]:
        return [each for each in self.entries if isinstance(each, SessionStart)]

    @property
    def ends(self) -> list[str]:
        return [each.reason for each in self.entries if isinstance(each, SessionEnd)]

    @property
    def results(self) -> list[ToolDone]:
        return [each for each in self.entries if isinstance(each, ToolDone)]

    @property
    def answers(self) -> list[str]:
        return [each.text for each in self.results]


@dataclass(frozen=True)
class Reply:
    text: str
    is_error: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    finished: str = ""


@dataclass
class DeskTools:
    """``submit`` and the three looks, on sources as they come."""

    task: Task
    session_id: str
    parent: Candidate
    desk: Desk

    async def run(self, tool_use_id: str, name: str, tool_input: Mapping[str, Any]) -> Reply:
        origin = f"{self.session_id}/{tool_use_id}"
        wanted = candidate(tool_input["source"], origin, self.task.name, parents=(self.parent.id,))
        if name == "submit":
            verdict = await self.desk.submit(wanted)
            facts = {"status": verdict.status, "gain_vs_seed": verdict.gain_vs_seed}
            return Reply(f"{verdict.status} {verdict.message}".strip(), facts=facts)
        try:
            look = await self.desk.look(wanted, name)  # type: ignore[arg-type]
        except InfrastructureError as error:
            return Reply(error.message, is_error=True)
        return Reply(f"look {look.status} against {look.against}")

    def replay(self, name: str, tool_input: Mapping[str, Any], done: ToolDone) -> None: ...


Step = tuple[str, str]  # a tool's name and a source, or ("raise", why), ("end", why)


@dataclass
class Script:
    """What each session does, in order of their beginning; sessions beyond it end at once."""

    sessions: Iterable[Sequence[Step]]
    usage: Usage = Usage(output=10)  # noqa: RUF009
    at_once: int = 0
    at_once_most: int = 0
    resumed: list[SessionRecord] = field(default_factory=list)
    errors: Mapping[str, BaseException] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._scripts = iter(self.sessions)
        self._of: dict[str, Sequence[Step]] = {}

    async def converse(
        self,
        start: SessionStart,
        record: SessionRecord | None,
        toolbox: Any,
        caller: Any,
        journal: Any,
        budget: Any,
        settings: AgentSettings,
        should_end: Any = None,
    ) -> SessionEnd | None:
        steps = self._of.setdefault(start.id, next(self._scripts, ()))
        if record is not None:
            self.resumed.append(record)
        self.at_once += 1
        self.at_once_most = max(self.at_once_most, self.at_once)
        try:
            for turn, (name, source) in enumerate(steps):
                if record is not None and turn < len(record.results):
                    continue
                if why := await should_end():
                    return self._end(journal, start, why)
                ticket = await budget.admit(300, settings.max_tokens)
                if ticket is None:
                    return None
                budget.budget.count(self.usage)  # as the proxy does
                budget.settle(ticket, self.usage)
                if name == "raise":
                    raise self.errors[source]
                if name == "end":
                    return self._end(journal, start, source)
                reply = await toolbox.run(f"tool{turn}", name, {"source": source})
                journal.append(done(start.id, turn, name, reply))
            return self._end(journal, start, "end_turn")
        finally:
            self.at_once -= 1

    def _end(self, journal: Any, start: SessionStart, reason: str) -> SessionEnd:
        end = SessionEnd(session_id=start.id, reason=reason)
        journal.append(end)
        return end


def done(session_id: str, turn: int, name: str, reply: Reply) -> ToolDone:
    return ToolDone(
        session_id=session_id,
        turn=turn,
        ordinal=0,
        tool_use_id=f"tool{turn}",
        name=name,
        text=reply.text,
        is_error=reply.is_error,
        seconds=0.0,
        facts=reply.facts,
    )


class NoCaller:
    closed = False

    async def close(self) -> None:
        self.closed = True


def start_of(choice: Choice, number: int, prefix: bytes = PREFIX) -> SessionStart:
    return SessionStart(
        id=f"s{number:011x}",
        run_id=RUN,
        task=choice.task,
        ordinal=choice.ordinal,
        parent=choice.parent.id,
        model="model",
        prompt="p",
        prefix=prefix,
        opening=b"{}",
    )


@dataclass
class Gate:
    """A judge by a table: source -> status (NOT_FASTER if it is not there)."""

    statuses: Mapping[str, str] = field(default_factory=dict)
    gains: Mapping[str, float] = field(default_factory=dict)
    looks: list[tuple[str, str, str]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    fail: Callable[[int], BaseException | None] = lambda number: None

    def look(self, wanted: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        self.threads.add(threading.current_thread().name)
        self.looks.append((wanted.source, incumbent.source, kind))
        if (error := self.fail(len(self.looks))) is not None:
            raise error
        return Look(
            kind=kind,
            candidate=wanted.id,
            status=None,
            checks=(),
            seconds=0.0,
            against=incumbent.source.strip(),
        )

    def verdict(self, wanted: Candidate) -> PastCandidate:
        status = self.statuses.get(wanted.source, "NOT_FASTER")
        gain = self.gains.get(wanted.source, 1.1 if status == "ACCEPTED" else None)
        return judged(wanted, status, gain)


@dataclass
class Night:
    """An agent, and the loop around it as ``loop.py`` calls it."""

    script: Any
    gate: Gate = field(default_factory=Gate)
    settings: AgentSettings = SETTINGS
    tasks: Sequence[Task] = (make_task(),)
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    histories: dict[str, list[Any]] = field(default_factory=dict)
    converse: Any = None
    caller: Any = NoCaller
    spent: Sequence[Usage] = ()

    def __post_init__(self) -> None:
        self.seeds = {task.name: seed_candidate(task) for task in self.tasks}
        for task in self.tasks:
            self.histories.setdefault(task.name, [])
        numbers = itertools.count(len(self.journal.starts))

        def begin(choice: Choice, view: View) -> SessionStart:
            return start_of(choice, next(numbers))

        def fittings(desk: Desk) -> Fittings:
            return Fittings(
                begin=begin,
                toolbox=lambda task, session_id, parent: DeskTools(task, session_id, parent, desk),
                caller=self.caller,
                converse=self.converse or self.script.converse,
            )

        self.agent = Agent(
            settings=self.settings,
            tasks=self.tasks,
            judges={task.name: self.gate for task in self.tasks},  # type: ignore[misc]
            seeds=self.seeds,
            device_facts={},
            journal=self.journal,
            run_id=RUN,
            base_url="http://127.0.0.1:9",
            api_key="",
            normal_hash=normal_hash,
            budget=Budget(self.settings, self.spent),
            sessions=self.journal.sessions(RUN),
            fittings=fittings,
        )

    def run(self, proposer: Any = None, steps: int = 400) -> list[str]:
        """Until every lane is exhausted or so many choices were made; closes the agent."""
        proposer = proposer or self.agent
        lanes = {task.name: task for task in self.tasks}
        try:
            for _ in range(steps):
                if not lanes:
                    break
                offered = {name: self.histories[name] for name in lanes}
                name = proposer.choose(offered, 0.2)
                if name is None:
                    continue
                wanted = proposer.propose(lanes[name], self.histories[name])
                if wanted is None:
                    del lanes[name]
                    continue
                self.histories[name].append(self._judge(wanted))
            return sorted(set(self.histories) - set(lanes))
        finally:
            proposer.close()

    def _judge(self, wanted: Candidate) -> PastCandidate:
        past = [each.candidate for each in self.histories[wanted.task]]
        seen = {normal_hash(each.source) for each in [self.seeds[wanted.task], *past]}
        if normal_hash(wanted.source) in seen:
            return judged(wanted, "DUPLICATE", message="the same program")
        return self.gate.verdict(wanted)

    def statuses(self, task: str = "toy") -> list[tuple[str, str]]:
        return [(each.candidate.source, each.status) for each in self.histories[task]]


def machine_failure() -> InfrastructureError:
    return InfrastructureError("the template died")
