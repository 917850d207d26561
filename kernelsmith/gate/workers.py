"""The three workers of a gate: started when first needed, held to what a candidate may take, and
what is done when one dies."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from kernelsmith.errors import InfrastructureError, SandboxError
from kernelsmith.gate.allowance import Allowance
from kernelsmith.gate.blame import Unanswered, settled
from kernelsmith.model import Job, RunJob, TimeJob
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Device, Reply, Role, Sandbox, Worker

ROLES: tuple[Role, ...] = ("frontend", "launcher", "seed")


class Workers:
    """Workers by role.

    Args:
        device: what runs and times is in turn on it.
        sandbox: starts them.
        fault: what is wrong with this machine, "" if the seed still runs here; asked when a worker
            died. None: a death is raised, whoever is to blame.
        pauses: the run's.
    """

    def __init__(
        self,
        device: Device,
        sandbox: Sandbox,
        fault: Callable[[], str] | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        self.device = device
        self.fault = fault
        self.pauses = pauses or Pauses()
        # Deaths that were not the fault of the candidate at hand.
        self.deaths: list[str] = []
        self._allowance = Allowance()
        self.sandbox = sandbox
        self._workers: dict[Role, Worker] = {}
        self._closed = False

    def close(self) -> None:
        """Ends the workers. Whoever waits for one in another thread gets none in its stead."""
        self._closed = True
        while self._workers:
            _, worker = self._workers.popitem()
            worker.close()

    @contextmanager
    def allowed(self, limit_s: float | None) -> Iterator[None]:
        """Inside, candidates' jobs may take so many seconds together; None: no such limit. What the
        block takes does not count for one around it."""
        fresh = Allowance(limit_s=limit_s, clock=self.pauses.clock)
        before, self._allowance = self._allowance, fresh
        try:
            with before.uncounted():
                yield
        finally:
            self._allowance = before

    def uncounted(self) -> AbstractContextManager[None]:
        """What the block takes is not the candidate's."""
        return self._allowance.uncounted()

    def submit(self, role: Role, job: Job, files: Mapping[str, bytes] | None = None) -> Reply:
        """One job on the worker of this role; the caller closes the reply.

        Raises:
            InfrastructureError: the machine failed, or the workers are closed.
        """
        if role == "seed":
            with self.uncounted():
                return self.send(role, job, files)
        limited = self._allowance.within(job)
        if isinstance(limited, Unanswered):
            return limited
        if self.fault is None:
            return self.send(role, limited, files)
        return settled(self, self.fault, role, limited, files)

    def send(self, role: Role, job: Job, files: Mapping[str, bytes] | None = None) -> Reply:
        """As :meth:`submit`, without a judgement about a worker that dies.

        While the run is paused it waits. A job during which workers stood still is done again,
        whatever came of it: the answer is not looked at, so that what is thrown away never hangs
        on what it would have shown.

        Raises:
            WorkerDeathError: it died, and it is not known why.
        """
        while True:
            epoch = self.pauses.admit()
            try:
                with self.pauses.turn(partial(self._turn, job)) as mine:
                    if not mine:
                        continue
                    reply = self._worker(role).submit(job, files)
            except SandboxError:
                if not self.pauses.overlapped(epoch):
                    raise
            else:
                if not self.pauses.overlapped(epoch):
                    return reply
                reply.close()
            self.pauses.note("job_discarded", {"job": type(job).__name__, "worker": role})

    def renew(self) -> None:
        """Ends all workers' processes; others are started for the next job."""
        for worker in list(self._workers.values()):
            worker.renew()

    def _turn(self, job: Job) -> AbstractContextManager[None]:
        runs = isinstance(job, RunJob | TimeJob)
        return self.device.turn(alone=isinstance(job, TimeJob)) if runs else nullcontext()

    def _worker(self, role: Role) -> Worker:
        if self._closed:
            raise InfrastructureError("this gate is closed")
        if role not in self._workers:
            # They warm up side by side, and all are needed before long.
            self._workers = {each: self.sandbox.start(each) for each in ROLES}
        return self._workers[role]
