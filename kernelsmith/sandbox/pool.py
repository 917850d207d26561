"""Warm templates for all that use a sandbox: several gates share them."""

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from kernelsmith.active_clock import ActiveClock
from kernelsmith.errors import SandboxError
from kernelsmith.model import Job
from kernelsmith.sandbox import freezing
from kernelsmith.sandbox.client import Line, SpoolReply, SpoolWorker
from kernelsmith.sandbox.pipes import Pipes
from kernelsmith.sandbox.spool import Spool

AT_ONCE = {"launcher": 2}
"""Templates of a role if jobs wait for one, at most a core each; of other roles there is one. Gates
that prove themselves side by side spend most of their time on launchers."""

Starts = Callable[[Path], Callable[[], Line]]
"""Gives what starts a template whose spool is this folder."""


@dataclass(slots=True, kw_only=True)
class Pool:
    """The templates of a sandbox. A template costs seconds and hundreds of megabytes, so it lives
    until the sandbox is closed, whoever stops using it. ``clock`` counts the seconds that jobs and
    starts may take; ``owner`` is the user inside the wall, where that is not the host's; ``thawed``
    are those that nobody has asked after a pause."""

    spool: Spool
    owner: int | None = None
    clock: ActiveClock = field(default_factory=ActiveClock)
    starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    workers: dict[str, SpoolWorker] = field(default_factory=dict)
    turn: threading.Lock = field(default_factory=threading.Lock)
    stopped: list[freezing.Seen] = field(default_factory=list)
    thawed: set[str] = field(default_factory=set)
    closed: bool = False

    def lease(self, role: str, starts: Starts) -> "Leased":
        """The use of this role's templates; its first is started if there is none yet.

        Args:
            role: see :data:`kernelsmith.ports.Role`.
        """
        return Leased(pool=self, role=role, starts=starts, worker=self._worker(role, role, starts))

    def free(self, role: str, starts: Starts) -> SpoolWorker:
        """A worker of this role without a job, if there is or may be one; else one that has."""
        for number in range(min(AT_ONCE.get(role, 1), len(os.sched_getaffinity(0)))):
            name = f"{role}-{number}" if number else role
            worker = self._worker(name, role, starts)
            if not worker.turn.locked():
                if name in self.thawed:
                    self.thawed.discard(name)
                    worker.renew()
                break
        return worker

    def _worker(self, name: str, role: str, starts: Starts) -> SpoolWorker:
        with self.turn:
            if self.closed:
                raise SandboxError("this sandbox is closed")
            if name not in self.workers:
                folder = self.spool.folder(name, self.owner)
                worker = SpoolWorker(
                    role=role,
                    folder=folder,
                    start=starts(folder),
                    clock=self.clock,
                    owner=self.owner,
                )
                worker.launch()
                self.workers[name] = worker
            return self.workers[name]

    def pause(self) -> None:
        """Stops the templates that are children of the host, with all that they started; again:
        whatever has been started since, too.

        Raises:
            SandboxError: some do not stop; those that did, go on.
        """
        self.clock.stop()
        lines = [worker.line for worker in list(self.workers.values())]
        try:
            self.stopped = freezing.stop(line.root() for line in lines if isinstance(line, Pipes))
        except SandboxError:
            self.resume()
            raise

    def resume(self) -> None:
        """Lets go on what :meth:`pause` stopped; harmless if nothing is."""
        stopped, self.stopped = self.stopped, []
        freezing.go_on(stopped)
        self.go()

    def go(self) -> None:
        """Time counts again. After a pause the first template of each role is asked whether it is
        what it was; any other is started anew."""
        self.thawed = {name for name, worker in list(self.workers.items()) if name != worker.role}
        self.clock.go()

    def close(self) -> None:
        """Ends all templates and removes the spool. Closing twice is harmless."""
        with self.turn:
            self.closed = True
            for worker in self.workers.values():
                worker.close()
        self.starter.shutdown()
        self.spool.close()


@dataclass(slots=True, kw_only=True)
class Leased:
    """A :class:`kernelsmith.ports.Worker`: the use of templates that others may use too. Each runs
    its jobs one at a time. ``worker`` is the first of them."""

    pool: Pool
    role: str
    starts: Starts
    worker: SpoolWorker
    closed: bool = False

    def submit(self, job: Job, files: Mapping[str, bytes] | None = None) -> SpoolReply:
        """See :meth:`SpoolWorker.submit`."""
        if self.closed:
            raise SandboxError(f"this {self.role} worker is closed")
        return self.pool.free(self.role, self.starts).submit(job, files)

    def renew(self) -> None:
        """See :meth:`SpoolWorker.renew`: for all uses of them."""
        for worker in list(self.pool.workers.values()):
            if worker.role == self.role:
                worker.renew()

    def close(self) -> None:
        """Ends this use; the templates stay warm for the next."""
        self.closed = True
