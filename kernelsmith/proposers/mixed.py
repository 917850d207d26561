"""The proposer ``search,agent``: the search fills the time in which the agent thinks."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kernelsmith.errors import DatabaseError, InputError, MissingError
from kernelsmith.model import Candidate, Task
from kernelsmith.ports import Judged, Proposer

Found = TypeVar("Found")
_LOG = logging.getLogger(__name__)


class Mixed:
    """Both propose into one history, so that each builds on what the other won.

    The agent is asked before each choice; where both have a candidate they take turns. Where the
    agent cannot go on (its key, its model, its server), the search does.
    """

    name = "search,agent"

    def __init__(self, search: Proposer, agent: Proposer, tasks: Sequence[Task]) -> None:
        self._search, self._agent = search, agent
        self._tasks = {task.name: task for task in tasks}
        self._next: tuple[str, Candidate | None] | None = None
        self._last = self._search
        self._agent_done: set[str] = set()
        self._ended = ""
        self._dry: dict[str, int] = {}  # where the search had nothing: after how many candidates

    def choose(self, histories: Mapping[str, Sequence[Judged]], wait_s: float) -> str | None:
        """A task for which ``propose`` has a candidate, or for which neither will have one."""
        ready = self._asked(histories, 0.0)
        if ready is None or self._last is self._agent:
            self._next = self._searched(histories) or self._taken(histories, ready)
        else:
            self._next = self._taken(histories, ready) or self._searched(histories)
        if self._next is None:
            self._next = self._over(histories)
        if self._next is None:
            self._next = self._taken(histories, self._asked(histories, wait_s))
        return None if self._next is None else self._next[0]

    def propose(self, task: Task, history: Sequence[Judged]) -> Candidate | None:
        """What ``choose`` found for this task."""
        name, candidate = self._next or ("", None)
        self._next = None
        return candidate if name == task.name else None

    def standing(self) -> str:
        """The agent's: the search spends nothing."""
        if self._ended:
            return f"agent: ended: {self._ended}; the search goes on"
        return self._agent.standing()

    def ended_early(self) -> str:
        """Why the agent ended; "" while it has not, or has come to its own end."""
        return self._ended

    def close(self, histories: Mapping[str, Sequence[Judged]] | None = None) -> None:
        """Closes both."""
        self._agent.close(histories)
        self._search.close()

    def _asked(self, histories: Mapping[str, Sequence[Judged]], wait_s: float) -> str | None:
        """The task for which the agent is ready. It learns all verdicts by being asked."""
        open_ = {name: h for name, h in histories.items() if name not in self._agent_done}
        return self._unless_it_ends(lambda: self._agent.choose(open_, wait_s)) if open_ else None

    def _taken(
        self, histories: Mapping[str, Sequence[Judged]], name: str | None
    ) -> tuple[str, Candidate] | None:
        if name is None:
            return None
        candidate = self._unless_it_ends(
            lambda: self._agent.propose(self._tasks[name], histories[name])
        )
        if candidate is None:
            self._agent_done.add(name)
            return None
        self._last = self._agent
        return name, candidate

    def _unless_it_ends(self, ask: Callable[[], Found | None]) -> Found | None:
        """What the agent answers; None from when it cannot go on, which is no reason to end the
        free search: only the machine, the record and the evidence are."""
        try:
            return ask()
        except DatabaseError:
            raise
        except (InputError, MissingError) as error:
            _LOG.warning(error.message, exc_info=error, extra={"event": "agent_failed"})
            self._ended = f"{error.message} ({error.hint})" if error.hint else error.message
            self._agent_done.update(self._tasks)
            self._agent.close()  # nothing more is spent
            return None

    def _searched(self, histories: Mapping[str, Sequence[Judged]]) -> tuple[str, Candidate] | None:
        for name, history in histories.items():
            if self._dry.get(name) == len(history):
                continue
            candidate = self._search.propose(self._tasks[name], history)
            if candidate is not None:
                self._last = self._search
                return name, candidate
            self._dry[name] = len(history)
        return None

    def _over(self, histories: Mapping[str, Sequence[Judged]]) -> tuple[str, None] | None:
        for name in histories:
            if name in self._agent_done and self._dry.get(name) == len(histories[name]):
                return name, None
        return None
