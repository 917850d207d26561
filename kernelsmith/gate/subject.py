"""What the checks share: the candidate under judgement, and what one check found."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.gate.irregular import Numbers
from kernelsmith.model import (
    Candidate,
    Case,
    CheckResult,
    CheckStatus,
    Finding,
    Inputs,
    Plan,
    PlanClass,
    Status,
    Task,
    WorkerFailure,
)
from kernelsmith.ports import Role

CO_RUNNERS = 8
"""Launches of the same plan that a GPU is given beside a run's, in place of a program order."""

Form = tuple[str, str, tuple[tuple[str, int], ...]]
"""Call form, dtype, dims other than the row count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much the gate does. The defaults are the latency rule as written; only tests, which time
    nothing, may use fewer sessions, and then nothing is accepted. ``candidate_s``: what one
    candidate may take over all its checks; an accepted one takes about a minute."""

    sessions_max: int = 60
    give_up_lead: int = 8
    octets: int = 3
    window_ms: float = 5.0
    hidden_per_call: int = 2
    range_chunk: int = 2000
    run_timeout_s: float = 30.0
    trace_timeout_s: float = 60.0
    compile_timeout_s: float = 120.0
    session_timeout_s: float = 60.0
    candidate_s: float = 1800.0


def limits_on(device: str) -> Limits:
    """What a device's jobs get. On a GPU one kernel compiles for up to 40 s (two trees over rows
    that are not aligned), cases are large to draw, and a process needs a second for its context."""
    if device != "cuda":
        return Limits()
    return Limits(
        run_timeout_s=120.0,
        trace_timeout_s=120.0,
        compile_timeout_s=600.0,
        session_timeout_s=180.0,
        candidate_s=7200.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a check found: ``status`` None means pass. ``evidence`` is JSON-able. ``unchecked``
    names parts that it could not look at; not ``made``: it could look at nothing."""

    status: Status | None = None
    message: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()
    made: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of a case: contiguous output bytes in the entry's order, and what the launcher saw
    around the buffers."""

    key: str
    outputs: tuple[bytes, ...]
    canaries: tuple[str, ...]
    changed_inputs: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One observed run of a case."""

    case: Case
    findings: tuple[Finding, ...]
    outputs: tuple[bytes, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One run to ask a launcher for. ``case`` has the dims as executed; the other fields are those
    of :class:`kernelsmith.model.Run`; ``files`` are input overrides laid beside the job."""

    key: str
    case: Case
    inputs: Inputs
    order: str = "ascending"
    misalign_bytes: int = 0
    poison: int = 1
    stale: bool = False
    files: tuple[tuple[str, bytes], ...] = ()


@dataclass(slots=True, kw_only=True)
class Subject:
    """A module under judgement and what is known of it so far.

    Not frozen: each check adds what it learned (plans by case id, classes, objects) for the
    next. ``role`` is the worker that runs it; only the seed's is "seed". ``marks`` are writes
    outside outputs and scratch that any run of any check showed. ``beyond``: plan classes that no
    planned case takes, with the cases of the declared range that do. ``steps``: for each form of
    the declared range, its cases by row count with the numbers of their launches. ``observed``:
    what its observed runs showed, once there were any. ``cases``: those of its plans, by id;
    ``witnessed``: how many plans and classes there were when its IR was last read.
    """

    candidate: Candidate
    role: Role
    plans: dict[str, Plan] = field(default_factory=dict)
    classes: dict[str, PlanClass] = field(default_factory=dict)
    object_of: dict[str, str] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)
    beyond: dict[str, list[Case]] = field(default_factory=dict)
    steps: dict[Form, list[tuple[Case, Numbers]]] = field(default_factory=dict)
    timing: list[dict[str, Any]] = field(default_factory=list)
    observed: list[Observed] | None = None
    cases: dict[str, Case] = field(default_factory=dict)
    witnessed: tuple[int, int] | None = None


def failed(failure: WorkerFailure) -> Outcome:
    """The outcome of a candidate's failure inside the wall."""
    where = f"{failure.where}: " if failure.where else ""
    return Outcome(
        status=failure.status,
        message=f"{where}{failure.message}",
        evidence={"where": failure.where},
    )


def undeclared(task: Task, name: str) -> CheckResult:
    """A check that the task gives nothing to do."""
    nothing = "the task says that nothing is summed" if task.reductions == () else None
    message = nothing or "the task declares no [[reductions]]"
    return CheckResult(name=name, status="unchecked", seconds=0.0, message=message)


def check_result(name: str, found: Outcome, seconds: float) -> CheckResult:
    """What a check found, for the record."""
    status: CheckStatus = "fail"
    if found.status is None:
        status = "pass" if found.made else "unchecked"
    return CheckResult(
        name=name, status=status, seconds=seconds, message=found.message, evidence=found.evidence
    )


def draw_seed(secret: int, *labels: object) -> int:
    """A 63-bit seed that nobody can foretell without ``secret``: a keyed hash of the labels."""
    key = secret.to_bytes(32, "little", signed=False)
    text = "\x1f".join(str(label) for label in labels).encode()
    return int.from_bytes(hashlib.blake2b(text, key=key, digest_size=8).digest(), "little") >> 1
