"""What one candidate may cost a night: seconds over all its checks together.

Each job has a time limit of its own; how many jobs there are hangs on the candidate. So their sum
has a limit too. What the seed takes in between is not the candidate's and does not count.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kernelsmith.gate.blame import CANDIDATES_SIDE, Unanswered
from kernelsmith.model import Job, TimeJob, WorkerFailure, failed_job

SHORTEST_S = 1.0
"""Less is not worth starting a job for."""


@dataclass(slots=True, kw_only=True)
class Allowance:
    """Seconds that one candidate's checks may still take; ``limit_s`` None: as long as each job's
    own limit lets them. Not frozen: it counts."""

    limit_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_s = self.clock()

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """What the block takes is not the candidate's."""
        begun_s = self.clock()
        try:
            yield
        finally:
            self.began_s += self.clock() - begun_s

    def within(self, job: Job) -> Job | Unanswered:
        """The job, with no more time than is left; or, where none is left, what comes of it. A
        timing session is not cut short, since it would not be told whose side was slow."""
        if self.limit_s is None:
            return job
        left_s = self.limit_s - (self.clock() - self.began_s)
        least_s = job.timeout_s if isinstance(job, TimeJob) else SHORTEST_S
        if left_s >= min(least_s, self.limit_s):
            return replace(job, timeout_s=min(job.timeout_s, left_s))
        message = f"its checks have used up the {self.limit_s:g} s that one candidate may take"
        where = f"{CANDIDATES_SIDE}all checks" if isinstance(job, TimeJob) else ""
        failure = WorkerFailure(status="TIMEOUT", message=message, where=where)
        return Unanswered(result=failed_job(job, failure))
