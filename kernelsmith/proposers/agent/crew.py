"""The sessions that run side by side: starts them, watches them, keeps the books on each.

All of it runs on one event loop; ``has_work``, ``running`` and ``begun`` may be asked from
any thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.errors import InfrastructureError, InputError, StorageError
from kernelsmith.model import (
    AgentSettings,
    Candidate,
    JournalEntry,
    SessionEnd,
    SessionRecord,
    SessionStart,
    Task,
    ToolDone,
    Usage,
)
from kernelsmith.ports import Journal
from kernelsmith.proposers.agent.budget import Budget, Ticket
from kernelsmith.proposers.agent.desk import Desk, View
from kernelsmith.proposers.agent.population import Choice, Population
from kernelsmith.proposers.agent.seams import Toolbox, ToolReply

# Sessions in a row that ended before one tool call was answered: no luck, something is wrong.
MAX_BARREN_IN_A_ROW = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Fittings:
    """What conversations are made with. ``begin`` writes a session's start; ``converse`` holds it
    until it ends, or gives None where it pauses; its ``should_end`` is asked between turns and
    says why to end, "" to go on."""

    begin: Callable[[Choice, View], SessionStart]
    toolbox: Callable[[Task, str, Candidate], Toolbox]
    caller: Callable[[], Any]
    converse: Callable[..., Awaitable[SessionEnd | None]]


@dataclass(slots=True, kw_only=True)
class Crew:
    """Runs sessions until none runs and none can begin. ``unfinished``: of a resumed run, to be
    gone on with before new ones begin."""

    settings: AgentSettings
    desk: Desk
    budget: Budget
    population: Population
    journal: Journal
    fittings: Fittings
    unfinished: list[SessionRecord] = field(default_factory=list)
    _running: "dict[asyncio.Task[bool | None], str]" = field(default_factory=dict)
    _barren_in_a_row: int = 0

    @property
    def running(self) -> int:
        """How many sessions are under way."""
        return len(self._running)

    def has_work(self, task: str) -> bool:
        """Whether a session about this task is under way or may still begin."""
        if task in list(self._running.values()):
            return True
        if self.budget.spent:
            return False
        waits = any(record.start and record.start.task == task for record in self.unfinished)
        return waits or not self.population.full

    async def run(self) -> None:
        """Until nothing is left to do, or cancelled.

        Raises:
            KernelsmithError: what ends the agent; every other session is cancelled first.
        """
        caller = self.fittings.caller()
        try:
            while True:
                self._begin_sessions(caller)
                if not self._running:
                    return
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                for done in [each for each in self._running if each.done()]:
                    self._note_done(done)
                    del self._running[done]
        finally:
            for session in self._running:
                session.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await caller.close()

    def _begin_sessions(self, caller: Any) -> None:
        while len(self._running) < self.settings.concurrency and not self.budget.spent:
            views = self.desk.offered()
            record = self._next_unfinished(views)
            if record is not None and record.start is not None:
                name = record.start.task
                coroutine = self._go_on(record, record.start, views[name], caller)
            else:
                choice = self.population.next(views)
                if choice is None:
                    return
                name = choice.task
                coroutine = self._begin(choice, views[name], caller)
            self._running[asyncio.create_task(coroutine)] = name

    def _next_unfinished(self, views: Mapping[str, View]) -> SessionRecord | None:
        for record in self.unfinished:
            if record.start is not None and record.start.task in views:
                self.unfinished.remove(record)
                return record
        return None

    async def _begin(self, choice: Choice, view: View, caller: Any) -> bool | None:
        start = self.fittings.begin(choice, view)
        await self._append(start)
        self.population.note_started(choice, start)
        return await self._converse(start, None, choice.parent, view, caller)

    async def _go_on(
        self, record: SessionRecord, start: SessionStart, view: View, caller: Any
    ) -> bool | None:
        known = {judged.candidate.id: judged.candidate for judged in view.history}
        parent = known.get(start.parent, view.seed)
        return await self._converse(start, record, parent, view, caller)

    async def _converse(
        self,
        start: SessionStart,
        record: SessionRecord | None,
        parent: Candidate,
        view: View,
        caller: Any,
    ) -> bool | None:
        """Whether any of its tool calls was answered; None: it is only paused."""
        toolbox = self.fittings.toolbox(view.task, start.id, parent)
        tools = WatchedTools(tools=toolbox, answered=len(record.results) if record else 0)
        end = await self.fittings.converse(
            start,
            record,
            tools,
            caller,
            self.journal,
            Purse(budget=self.budget, desk=self.desk, task=start.task),
            self.settings,
            should_end=lambda: self.population.should_end(start.id),
        )
        if end is None:
            return None
        return self._note_end(end, tools.answered)

    def _note_end(self, end: SessionEnd, answered: int) -> bool:
        self._barren_in_a_row = 0 if answered else self._barren_in_a_row + 1
        if self._barren_in_a_row >= MAX_BARREN_IN_A_ROW:
            last = f"{end.reason}: {end.message}" if end.message else end.reason
            raise InputError(
                f"{self._barren_in_a_row} sessions in a row ended before {self.settings.model} "
                f"had one tool call answered; the last with {last}",
                hint=f"read one with `kernelsmith show {end.session_id}`, or name another --model",
            )
        return answered > 0

    def _note_done(self, session: "asyncio.Task[bool | None]") -> None:
        if not session.cancelled():  # cancelled: its task was withdrawn
            session.result()

    async def _append(self, entry: JournalEntry) -> None:
        await asyncio.wrap_future(self.journal.append(entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """The reply where the machine failed and no tool is to blame."""

    text: str
    facts: Mapping[str, Any]
    is_error: bool = True
    finished: str = ""


@dataclass(slots=True, kw_only=True)
class WatchedTools:
    """A session's tools, counted; a look that the machine failed becomes a reply."""

    tools: Toolbox
    answered: int

    async def run(self, tool_use_id: str, name: str, tool_input: Mapping[str, Any]) -> ToolReply:
        """As the tools' own."""
        try:
            reply = await self.tools.run(tool_use_id, name, tool_input)
        except StorageError:
            raise
        except InfrastructureError as error:
            text = f"The machine failed, not your candidate: {error.message}. Try again."
            reply = Excuse(text=text, facts={"failed": error.message})
        self.answered += 1
        return reply

    def replay(self, name: str, tool_input: Mapping[str, Any], done: ToolDone) -> None:
        """As the tools' own."""
        self.tools.replay(name, tool_input, done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """The run's budget, closed where a session's task is no longer worked on."""

    budget: Budget
    desk: Desk
    task: str

    async def admit(self, prompt_bytes: int, max_tokens: int) -> Ticket | None:
        """As the budget's own; None where the task was withdrawn, too."""
        if self.task not in self.desk.offered():
            return None
        return await self.budget.admit(prompt_bytes, max_tokens)

    def settle(self, ticket: Ticket, usage: Usage | None) -> None:
        """As the budget's own."""
        self.budget.settle(ticket, usage)
