"""Where conversations meet the gate: looks and submissions go in, verdicts come out.

Sessions live on an event loop of their own thread; the gate runs on the main thread only. Sessions
await ``look`` and ``submit``; the main thread calls ``publish``, ``next``, ``take``, ``answer``
and ``refuse``. Everything between them is under one lock.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kernelsmith.errors import KernelsmithError
from kernelsmith.model import Candidate, Gain, Look, LookKind, Task
from kernelsmith.ports import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A task as a session may see it now."""

    task: Task
    seed: Candidate
    incumbent: Candidate
    history: tuple[Judged, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A submission that is the same program as an earlier candidate; nothing was spent on it."""

    candidate: Candidate
    message: str
    status: str = "DUPLICATE"
    gain_vs_seed: float | None = None
    check: str = ""
    gain: Gain | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waiting:
    """A session waits for the gate. ``kind`` None: for a verdict, else for a look."""

    candidate: Candidate
    kind: LookKind | None
    normal_hash: str
    future: "asyncio.Future[Any]"

    @property
    def task(self) -> str:
        """The candidate's task."""
        return self.candidate.task


class Desk:
    """One desk for all tasks and sessions of a run.

    A task that a ``publish`` leaves out is withdrawn: who waits for it is cancelled, which ends
    no conversation; a resumed run goes on with it.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        seeds: Mapping[str, Candidate],
        normal_hash: Callable[[str], str],
        told: Callable[[str, Judged], None] = lambda session_id, judged: None,
    ) -> None:
        """``told``: hears on the sessions' loop of each answer to a submission."""
        self._changed = threading.Condition()
        self._told = told
        self._normal_hash = normal_hash
        self._views = {
            task.name: View(
                task=task, seed=seeds[task.name], incumbent=seeds[task.name], history=()
            )
            for task in tasks
        }
        self._seen = {
            name: {normal_hash(view.seed.source): view.seed.id}
            for name, view in self._views.items()
        }
        self._offered: tuple[str, ...] = ()
        self._queue: list[Waiting] = []
        self._taken: list[Waiting] = []
        self._sent_away = 0

    # What sessions call, on their event loop.

    async def look(self, candidate: Candidate, kind: LookKind) -> Look:
        """A quick look of the gate; waits for its turn.

        Raises:
            InfrastructureError: the machine failed on looks at this candidate.
        """
        look: Look = await self._wait(self._enqueue(candidate, kind, ""))
        return look

    async def submit(self, candidate: Candidate) -> Judged:
        """The verdict on a candidate; waits for it. One that is the same program as an earlier
        candidate comes back at once with status DUPLICATE. One that is on record with this very
        origin was submitted before the run was cut off: its verdict is given again."""
        normal_hash = self._normal_hash(candidate.source)
        with self._changed:
            known = self._known(candidate, normal_hash)
            answer = known or self._enqueue(candidate, None, normal_hash)
        judged: Judged = await self._wait(answer) if isinstance(answer, Waiting) else answer
        self._told(candidate.origin.partition("/")[0], judged)
        return judged

    def view(self, task: str) -> View:
        """The task as it stands now. Any thread."""
        with self._changed:
            return self._views[task]

    def offered(self) -> dict[str, View]:
        """The tasks that may be worked on now. Any thread."""
        with self._changed:
            return {name: self._views[name] for name in self._offered}

    def seen(self, task: str, normal_hash: str) -> str | None:
        """The id of the candidate that is the same program, queued ones included. Any thread."""
        with self._changed:
            return self._seen[task].get(normal_hash)

    # What the main thread calls.

    def publish(self, histories: Mapping[str, Sequence[Judged]]) -> None:
        """The histories of all offered tasks, in order of preference; they only ever grow.
        Whoever waits for a verdict that is among them gets it."""
        with self._changed:
            self._offered = tuple(histories)
            for name, history in histories.items():
                view = self._views[name]
                fresh = history[len(view.history) :]
                if fresh:
                    self._views[name] = _grown(view, fresh)
                for judged in fresh:
                    self._deliver(judged)
            for waiting in self._all():
                if waiting.task not in histories:
                    self._withdraw(waiting)

    def last_words(self, histories: Mapping[str, Sequence[Judged]], wait_s: float) -> None:
        """The last verdicts to whoever waits for one; then no task is on offer. Returns when those
        who were told are done with it, or after ``wait_s`` seconds."""
        with self._changed:
            waited = [each for each in self._taken if not each.future.done()]
            self.publish(histories)
            told = sum(each not in self._taken for each in waited)
            self.publish({})
            goal, until_s = self._sent_away + told, time.monotonic() + wait_s
            while self._sent_away < goal and (left_s := until_s - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def admits(self, task: str) -> bool:
        """Whether a session about this task may go on to its next call. Any thread."""
        with self._changed:
            if task in self._offered:
                return True
            self._sent_away += 1
            self._changed.notify_all()
            return False

    def next(self, until_s: float, idle: Callable[[], bool], only: str = "") -> Waiting | None:
        """Who has waited longest; waits for one until the monotonic clock shows ``until_s`` or
        ``idle`` says there is no use. It stays in the queue. ``only``: leaves out submissions for
        other tasks."""
        with self._changed:
            while True:
                for waiting in self._queue:
                    of_others = waiting.kind is None and only not in ("", waiting.task)
                    if not waiting.future.done() and not of_others:
                        return waiting
                left_s = until_s - time.monotonic()
                if left_s <= 0 or idle():
                    return None
                self._changed.wait(left_s)

    def take(self, task: str) -> Candidate | None:
        """The next submission for a task, from now on in the gate's hands; None: none."""
        with self._changed:
            for waiting in self._queue:
                if waiting.task == task and waiting.kind is None and not waiting.future.done():
                    self._queue.remove(waiting)
                    self._taken.append(waiting)
                    return waiting.candidate
        return None

    def answer(self, waiting: Waiting, result: Look | KernelsmithError) -> None:
        """A look's result, or what went wrong with it."""
        with self._changed:
            self._settle(waiting, result)

    def queued(self) -> int:
        """How many wait for a look or for their submission to be taken."""
        with self._changed:
            return sum(not waiting.future.done() for waiting in self._queue)

    def wake(self) -> None:
        """Makes ``next`` ask its ``idle`` again. Any thread."""
        with self._changed:
            self._changed.notify_all()

    def _known(self, candidate: Candidate, normal_hash: str) -> Judged | None:
        for judged in self._views[candidate.task].history:
            if judged.candidate.id == candidate.id and _same_origin(judged, candidate):
                return judged
        known = self._seen[candidate.task].get(normal_hash)
        return None if known is None else _repeat(candidate, known)

    def _enqueue(self, candidate: Candidate, kind: LookKind | None, normal_hash: str) -> Waiting:
        future = asyncio.get_running_loop().create_future()
        waiting = Waiting(candidate=candidate, kind=kind, normal_hash=normal_hash, future=future)
        with self._changed:
            if candidate.task not in self._offered:
                future.cancel()
                return waiting
            self._queue.append(waiting)
            if kind is None:
                self._seen[candidate.task][normal_hash] = candidate.id
            self._changed.notify_all()
        return waiting

    async def _wait(self, waiting: Waiting) -> Any:
        try:
            return await waiting.future
        finally:
            with self._changed:
                self._forget(waiting)

    def _deliver(self, judged: Judged) -> None:
        """Its verdict to whoever submitted it; what is queued and is the same program has become
        a repeat."""
        candidate = judged.candidate
        normal_hash = self._normal_hash(candidate.source)
        self._seen[candidate.task].setdefault(normal_hash, candidate.id)
        for waiting in self._all():
            if waiting.task != candidate.task or waiting.kind is not None:
                continue
            if waiting.candidate.id == candidate.id and (
                not candidate.origin or _same_origin(judged, waiting.candidate)
            ):
                self._settle(waiting, judged)
            elif waiting in self._queue and waiting.normal_hash == normal_hash:
                self._settle(waiting, _repeat(waiting.candidate, candidate.id))

    def _all(self) -> Iterator[Waiting]:
        yield from (*self._queue, *self._taken)

    def _settle(self, waiting: Waiting, result: Any) -> None:
        self._drop(waiting)
        _on_its_loop(waiting.future, _set, waiting.future, result)

    def _withdraw(self, waiting: Waiting) -> None:
        self._forget(waiting)
        _on_its_loop(waiting.future, waiting.future.cancel)

    def _forget(self, waiting: Waiting) -> None:
        """A submission that never reached the gate may be made again."""
        if waiting in self._queue and waiting.kind is None:
            self._seen[waiting.task].pop(waiting.normal_hash, None)
        self._drop(waiting)

    def _drop(self, waiting: Waiting) -> None:
        for waiters in (self._queue, self._taken):
            if waiting in waiters:
                waiters.remove(waiting)


def _grown(view: View, fresh: Sequence[Judged]) -> View:
    accepted = [judged.candidate for judged in fresh if judged.status == "ACCEPTED"]
    return View(
        task=view.task,
        seed=view.seed,
        incumbent=accepted[-1] if accepted else view.incumbent,
        history=(*view.history, *fresh),
    )


def _repeat(candidate: Candidate, known: str) -> Repeat:
    return Repeat(candidate=candidate, message=f"the same program as {known}")


def _same_origin(judged: Judged, candidate: Candidate) -> bool:
    return bool(candidate.origin) and judged.candidate.origin == candidate.origin


def _set(future: "asyncio.Future[Any]", result: Any) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


def _on_its_loop(future: "asyncio.Future[Any]", call: Callable[..., Any], *args: Any) -> None:
    # A loop that has ended has no one left who waits.
    with suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(call, *args)
