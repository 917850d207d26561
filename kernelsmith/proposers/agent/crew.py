"""The sessions that run side by side: begins them, goes on with those of a resumed run.

All of it runs on one event loop; ``has_work`` and ``running`` may be asked from any thread.
"""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kernelsmith.errors import InputError
from kernelsmith.model import AgentSettings, Candidate, SessionEnd, SessionRecord, SessionStart
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Journal
from kernelsmith.proposers.agent.budget import Budget
from kernelsmith.proposers.agent.desk import Desk, View
from kernelsmith.proposers.agent.fittings import Fittings
from kernelsmith.proposers.agent.guards import Ledger, Purse, WatchedTools
from kernelsmith.proposers.agent.population import Choice, Population

# Sessions in a row that ended before one tool call was answered: no luck, something is wrong.
MAX_BARREN_IN_A_ROW = 6


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
    pauses: Pauses = field(default_factory=Pauses)
    unfinished: list[SessionRecord] = field(default_factory=list)
    _running: "dict[asyncio.Task[bool | None], str]" = field(default_factory=dict)
    _barren_in_a_row: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self._ledger = Ledger(journal=self.journal)

    @property
    def running(self) -> int:
        """How many sessions are under way."""
        return len(self._running)

    def has_work(self, task: str) -> bool:
        """Whether a session about this task is under way or may still begin."""
        with self._lock:
            if task in self._running.values():
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
                    with self._lock:
                        del self._running[done]
                self.desk.wake()  # perhaps nothing is left to wait for
        finally:
            for session in self._running:
                session.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._ledger.drained()
            await caller.close()

    def _begin_sessions(self, caller: Any) -> None:
        while len(self._running) < self.settings.concurrency and not self.budget.spent:
            views = self.desk.offered()  # not under our lock: the desk asks has_work under its own
            # Under the lock no one sees a session that is neither waiting nor running.
            with self._lock:
                record = self._next_unfinished(views)
                choice = None if record else self.population.next(views)
                if record is not None and record.start is not None:
                    name = record.start.task
                    coroutine = self._go_on(record, record.start, views[name], caller)
                elif choice is not None:
                    name = choice.task
                    coroutine = self._begin(choice, views[name], caller)
                else:
                    return
                self._running[asyncio.create_task(coroutine)] = name

    def _next_unfinished(self, views: Mapping[str, View]) -> SessionRecord | None:
        for record in self.unfinished:
            if record.start is not None and record.start.task in views:
                self.unfinished.remove(record)
                return record
        return None

    async def _begin(self, choice: Choice, view: View, caller: Any) -> bool | None:
        start = self.fittings.begin(choice, view)
        # A session that is cancelled here is on record all the same.
        await asyncio.shield(asyncio.wrap_future(self._ledger.append(start)))
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
            self._ledger,
            Purse(budget=self.budget, desk=self.desk, task=start.task, pauses=self.pauses),
            self.settings,
            should_end=partial(self.population.should_end, start.id),
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
