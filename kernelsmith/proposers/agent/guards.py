"""What stands between a conversation and the parts it uses: it watches, and changes little."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.model import CallAnswered, CallSent, JournalEntry, ToolDone, Usage
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Journal
from kernelsmith.proposers.agent.budget import Budget, Call, Ticket
from kernelsmith.proposers.agent.desk import Desk
from kernelsmith.proposers.agent.seams import Toolbox, ToolReply


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingJournal:
    """The proxy's journal: a call begins only while its client waits with leave to spend; each
    answer is counted when it is on record, before its client sees the end of it."""

    journal: Journal
    budget: Budget
    _calls: dict[str, Call] = field(default_factory=dict)  # under way, by their ids

    def append(self, entry: JournalEntry) -> "Future[str]":
        """As the journal's own.

        Raises:
            InfrastructureError: nobody has leave for this call; it must not begin.
        """
        if isinstance(entry, CallSent):
            call = (entry.session_id, entry.turn, entry.attempt)
            self.budget.begin(call)
            try:
                future = self.journal.append(entry)
            except Exception:
                self.budget.over(call)
                raise
            future.add_done_callback(lambda done: self._sent(done, call))
            return future
        if not isinstance(entry, CallAnswered):
            return self.journal.append(entry)
        try:
            future = self.journal.append(entry)
        except Exception:
            self._over(entry.call_id)
            raise
        future.add_done_callback(lambda done: self._answered(done, entry))
        return future

    def _sent(self, done: "Future[str]", call: Call) -> None:
        if done.exception() is None:
            self._calls[done.result()] = call
        else:  # then it is not sent
            self.budget.over(call)

    def _answered(self, done: "Future[str]", answer: CallAnswered) -> None:
        if done.exception() is None:
            self.budget.count(answer.usage)
        self._over(answer.call_id)

    def _over(self, call_id: str) -> None:
        call = self._calls.pop(call_id, None)
        if call is not None:
            self.budget.over(call)


@dataclass(slots=True, kw_only=True)
class Ledger:
    """The journal, and what is on its way into it: the event loop must not end before."""

    journal: Journal
    _due: "set[Future[str]]" = field(default_factory=set)

    def append(self, entry: JournalEntry) -> "Future[str]":
        """As the journal's own."""
        future = self.journal.append(entry)
        self._due.add(future)
        future.add_done_callback(self._due.discard)
        return future

    async def drained(self) -> None:
        """Returns when all is on the disk, or has failed; whoever appended it is told."""
        due = [asyncio.wrap_future(future) for future in list(self._due)]
        await asyncio.gather(*due, return_exceptions=True)


@dataclass(slots=True, kw_only=True)
class WatchedTools:
    """A session's tools; counts the calls that were answered."""

    tools: Toolbox
    answered: int

    async def run(self, tool_use_id: str, name: str, tool_input: Mapping[str, Any]) -> ToolReply:
        """As the tools' own."""
        reply = await self.tools.run(tool_use_id, name, tool_input)
        self.answered += 1
        return reply

    def replay(self, name: str, tool_input: Mapping[str, Any], done: ToolDone) -> None:
        """As the tools' own."""
        self.tools.replay(name, tool_input, done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """The run's budget, closed where a session's task is no longer worked on; while the run is
    paused it lets no call begin, so that none runs into its time limit at the proxy."""

    budget: Budget
    desk: Desk
    task: str
    pauses: Pauses = field(default_factory=Pauses)

    async def admit(
        self, prompt_bytes: int, max_tokens: int, call: Call | None = None
    ) -> Ticket | None:
        """As the budget's own; None where the task was withdrawn, too."""
        await self.pauses.passed()
        if not self.desk.admits(self.task):
            return None
        return await self.budget.admit(prompt_bytes, max_tokens, call)

    def settle(self, ticket: Ticket, usage: Usage | None) -> None:
        """As the budget's own."""
        self.budget.settle(ticket, usage)

    def require_no_limits(self) -> None:
        """As the budget's own."""
        self.budget.require_no_limits()
