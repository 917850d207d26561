"""The proposer ``agent``: a model that rewrites kernels, several conversations at once.

Conversations live on an event loop in a thread of their own. What they ask of the gate waits at
the desk; the run's main thread serves it inside ``choose``, since the gate runs only there.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kernelsmith.errors import InfrastructureError, StorageError
from kernelsmith.model import AgentSettings, Candidate, Look, SessionRecord, Task
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Journal, Judge, Judged
from kernelsmith.proposers.agent.budget import Budget
from kernelsmith.proposers.agent.crew import Crew
from kernelsmith.proposers.agent.desk import Desk, Waiting
from kernelsmith.proposers.agent.fittings import Fittings, Origin, real
from kernelsmith.proposers.agent.population import Population

SWEEP = 8  # looks served at most in a ``choose`` that is not to wait
LOOK_TRIES = 2
MAX_SET_ASIDE_IN_A_ROW = 3  # candidates on which the machine failed: both as the loop judges
WAIT_S = 1.0
LAST_WORDS_S = 2.0
CLOSE_TIMEOUT_S = 60.0  # the journal may wait for the disk
_LOG = logging.getLogger(__name__)


class Agent:
    """Proposes what its sessions submit. Nothing is spent before the first ``choose``."""

    name = "agent"

    def __init__(
        self,
        *,
        settings: AgentSettings,
        tasks: Sequence[Task],
        judges: Mapping[str, Judge],
        seeds: Mapping[str, Candidate],
        device_facts: Mapping[str, Any],
        journal: Journal,
        run_id: str,
        base_url: str,
        api_key: str,
        normal_hash: Callable[[str], str],
        budget: Budget,
        proxy_token: str = "",
        sessions: Sequence[SessionRecord] = (),
        pauses: Pauses | None = None,
        fittings: Callable[[Desk], Fittings] | None = None,
    ) -> None:
        """``base_url``: the proxy's, up to the run; a session's id is added to it. ``budget``: what
        the proxy's answers are counted on, with those of a resumed run. ``proxy_token``: by
        which the proxy knows the run's own calls. ``sessions``: what is on record of it.
        ``pauses``: the run's. ``fittings``: other conversations than the real ones, for tests."""
        self._judges = judges
        self._budget = budget
        self._population = Population(run_id=run_id, settings=settings)
        for record in sessions:
            self._population.note_record(record)
        self._desk = Desk(tasks, seeds, normal_hash, self._population.note_judged)
        pauses = pauses or Pauses()
        origin = Origin(
            settings=settings,
            run_id=run_id,
            base_url=base_url,
            api_key=api_key,
            proxy_token=proxy_token,
            device_facts=device_facts,
            normal_hash=normal_hash,
            pauses=pauses,
        )
        self._crew = Crew(
            settings=settings,
            desk=self._desk,
            budget=self._budget,
            population=self._population,
            journal=journal,
            fittings=fittings(self._desk) if fittings else real(origin, self._desk),
            pauses=pauses,
            unfinished=[each for each in sessions if each.start and each.end is None],
        )
        self._set_aside: dict[str, InfrastructureError] = {}  # not to be looked at again
        self._set_aside_in_a_row = 0
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None

    def choose(self, histories: Mapping[str, Sequence[Judged]], wait_s: float) -> str | None:
        """Serves those who wait for the gate until one has submitted a candidate, and gives its
        task; or a task that no session will propose for any more.

        At least one look is served where one is asked for, however little ``wait_s`` is.

        Raises:
            KernelsmithError: what ended the sessions; looks at several candidates in a row failed.
        """
        self._desk.publish(histories)
        self._start()
        return self._serve(tuple(histories), wait_s)

    def propose(self, task: Task, history: Sequence[Judged]) -> Candidate | None:
        """The submission that ``choose`` told of; None: no session will propose any more."""
        while (candidate := self._desk.take(task.name)) is None:
            if not self._has_work(task.name):
                return None
            self._serve((task.name,), WAIT_S, only=task.name)
        return candidate

    def standing(self) -> str:
        """Sessions under way and begun, and what was spent."""
        begun, running = self._population.sessions, self._crew.running
        rest = ", budget spent" if self._budget.spent else ""
        calls = self._budget.spend.calls
        return (
            f"agent: {running} of {begun} sessions under way, {calls} calls, "
            f"{self._budget.standing()}{rest}"
        )

    def queued(self) -> int:
        """How many sessions wait for the gate."""
        return self._desk.queued()

    def close(self, histories: Mapping[str, Sequence[Judged]] | None = None) -> None:
        """Passes on the last verdicts, then cancels every session; calls in flight are cut off.
        They go on when the run does.

        Raises:
            InfrastructureError: the sessions do not end.
        """
        if self._thread is None or self._loop is None or self._main is None:
            return
        if histories and self._thread.is_alive():
            self._desk.last_words(histories, LAST_WORDS_S)
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            raise InfrastructureError(f"the agent's sessions do not end in {CLOSE_TIMEOUT_S:.0f} s")
        self._loop.close()
        self._thread = None

    def _start(self) -> None:
        if self._loop is not None:
            return
        self._loop = asyncio.new_event_loop()
        self._main = self._loop.create_task(self._crew.run())
        self._thread = threading.Thread(target=self._talk, name="agent", daemon=True)
        self._thread.start()

    def _talk(self) -> None:
        assert self._loop is not None
        assert self._main is not None
        try:
            self._loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            pass  # closed
        except BaseException as error:  # raised again on the main thread
            self._failure = error
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._desk.wake()

    def _serve(self, tasks: Sequence[str], wait_s: float, only: str = "") -> str | None:
        until_s = time.monotonic() + wait_s
        for served in range(1 << 30):
            if self._failure is not None:
                raise self._failure
            late = time.monotonic() >= until_s
            if late and served >= (SWEEP if wait_s == 0 else 1):
                return None
            waiting = self._desk.next(until_s, lambda: self._is_over(tasks), only)
            if waiting is None:
                break
            if waiting.kind is None:
                return waiting.task
            self._look(waiting)
        if self._failure is not None:
            raise self._failure
        return next((task for task in tasks if not self._has_work(task)), None)

    def _is_over(self, tasks: Sequence[str]) -> bool:
        return self._failure is not None or not all(map(self._has_work, tasks))

    def _has_work(self, task: str) -> bool:
        alive = self._thread is not None and self._thread.is_alive()
        return alive and self._crew.has_work(task)

    def _look(self, waiting: Waiting) -> None:
        """A look that is cut short by a signal is not answered: its session goes on on resume. A
        candidate on which the machine fails twice is not looked at again in this life of the run.
        """
        name = waiting.candidate.id
        if name not in self._set_aside:
            for last in [False] * (LOOK_TRIES - 1) + [True]:
                try:
                    self._desk.answer(waiting, self._looked(waiting))
                    self._set_aside_in_a_row = 0
                    return
                except StorageError:
                    raise
                except InfrastructureError as error:
                    facts = {"task": waiting.task, "candidate": name}
                    said = {"event": "look_failed", "facts": facts}
                    _LOG.warning(error.message, exc_info=error, extra=said)
                    if not last:
                        continue
                    self._set_aside_in_a_row += 1
                    if self._set_aside_in_a_row >= MAX_SET_ASIDE_IN_A_ROW:
                        raise
                    self._set_aside[name] = error
        self._desk.answer(waiting, self._set_aside[name])

    def _looked(self, waiting: Waiting) -> Look:
        assert waiting.kind is not None
        incumbent = self._desk.view(waiting.task).incumbent
        return self._judges[waiting.task].look(waiting.candidate, incumbent, waiting.kind)
