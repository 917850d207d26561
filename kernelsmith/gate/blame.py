"""Whose fault it is that a worker died in the middle of a job: the candidate's or the machine's.

One death tells nothing: the system may have run out of memory, a driver may have hung. So the seed
goes the same way through the same workers, then the job is done once more. Where the seed passes
and the same job dies a second time, it is the candidate's doing, and its status is ``CRASH``. Where
the seed fails too, the machine is to blame, and no candidate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernelsmith.errors import InfrastructureError, WorkerDeathError
from kernelsmith.model import (
    Job,
    JobResult,
    TimeJob,
    TimeResult,
    TraceJob,
    WorkerFailure,
    failed_job,
)
from kernelsmith.ports import Reply, Role

if TYPE_CHECKING:
    from kernelsmith.gate.workers import Workers

CANDIDATES_SIDE = "b:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """A :class:`kernelsmith.ports.Reply` to a job that left nothing but how it failed."""

    result: JobResult

    def read(self, name: str, offset: int = 0, nbytes: int | None = None) -> bytes:
        """Raises InfrastructureError: there are no files."""
        raise InfrastructureError(f"a job that failed left no file {name}")

    def close(self) -> None:
        """Nothing is held."""


def settled(
    workers: "Workers",
    fault: Callable[[], str],
    role: Role,
    job: Job,
    files: Mapping[str, bytes] | None,
) -> Reply:
    """Does a job that holds a candidate; a death is tried again, then judged.

    A timing session that died has given no number, and a kernel has no clock, so that repeating it
    chooses nothing. In a session the incumbent runs too: it is timed against itself in between.

    Args:
        fault: what fails when the seed goes the same way; "" if nothing does.

    Raises:
        InfrastructureError: the machine is to blame: the seed, or the incumbent, died as well.
    """
    try:
        return _answered(workers, role, job, files)
    except WorkerDeathError as first:
        _require_machine(workers, fault, job, files, first)
        try:
            reply = _answered(workers, role, job, files)
        except WorkerDeathError as second:
            _require_machine(workers, fault, job, files, second)
            return Unanswered(result=failed_job(job, _crash(job, first, second)))
        workers.deaths.append(first.message)
        return reply


def _answered(workers: "Workers", role: Role, job: Job, files: Mapping[str, bytes] | None) -> Reply:
    """The reply; a session that failed outside the candidate counts as a death."""
    reply = workers.send(role, job, files)
    failure = reply.result.failure
    if not isinstance(reply.result, TimeResult) or failure is None:
        return reply
    if failure.where.startswith(CANDIDATES_SIDE):
        return reply
    reply.close()
    message = f"a timing session failed at {failure.where or 'its start'}: {failure.status}"
    raise WorkerDeathError(f"{message}: {failure.message}", where=failure.where)


def _require_machine(
    workers: "Workers",
    fault: Callable[[], str],
    job: Job,
    files: Mapping[str, bytes] | None,
    death: WorkerDeathError,
) -> None:
    with workers.uncounted():
        found = fault()
        if not found and isinstance(job, TimeJob):
            found = _fault_of_incumbent(workers, job, files)
    if found:
        raise InfrastructureError(
            f"{death.message}; the candidate is not to blame, since without it: {found}",
            hint=death.hint,
        ) from death


def _fault_of_incumbent(workers: "Workers", job: TimeJob, files: Mapping[str, bytes] | None) -> str:
    """What fails when the incumbent is timed against itself in the same cases."""
    own = {name: oid for name, oid in job.object_of.items() if name.startswith("a:")}
    alone = replace(
        job,
        cases=tuple(replace(case, b=case.a) for case in job.cases),
        object_of={**own, **{f"b:{name[2:]}": oid for name, oid in own.items()}},
        objects={oid: job.objects[oid] for oid in set(own.values())},
    )
    code = {name: data for name, data in (files or {}).items() if name[:-4] in alone.objects}
    try:
        reply = workers.send("launcher", alone, code)
    except InfrastructureError as error:
        return error.message
    reply.close()
    failure = reply.result.failure
    return "" if failure is None else f"the incumbent alone: {failure.status}: {failure.message}"


def _crash(job: Job, first: WorkerDeathError, second: WorkerDeathError) -> WorkerFailure:
    where = second.where or first.where
    if isinstance(job, TimeJob):
        where = where if where.startswith(CANDIDATES_SIDE) else f"{CANDIDATES_SIDE}session"
    what = "the process that traces it" if isinstance(job, TraceJob) else "its worker"
    message = f"killed {what} twice, while the seed passed in between and after: {second.message}"
    return WorkerFailure(status="CRASH", message=message, where=where)
