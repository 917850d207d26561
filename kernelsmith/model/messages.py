"""The jobs and results that cross the sandbox wall.

Strides are in elements, offsets and sizes ``*_bytes`` in bytes. Dtypes are the strings in
``ITEMSIZE_BYTES``.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from kernelsmith.model.findings import Finding

ASSEMBLY_MAX_BYTES = 1 << 19
FailureStatus = Literal["TRACE", "SIGNATURE", "COMPILE", "MEMORY", "TIMEOUT", "CRASH"]
"""What a process behind the wall may say of a candidate. The gate alone says the rest: above all
ACCEPTED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMeta:
    """A tensor argument without data. ``strides`` in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCall:
    """One call to trace. ``args`` in the order of the entry's parameters: (name, value)."""

    key: str
    entry: str
    args: tuple[tuple[str, TensorMeta | int | float | None], ...]
    num_programs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """Trace a module's entries on meta tensors. ``emit`` asks for TTIR text of each class met
    (classes whose id is in ``known`` are not emitted again). ``real`` runs the entries on real
    CPU tensors instead (launches still only recorded), for the confirm check."""

    source: str
    entries: tuple[str, ...]
    calls: tuple[TraceCall, ...]
    device: str
    emit: bool = True
    known: tuple[str, ...] = ()
    real: bool = False
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A storage a plan touches: ``arg`` names the input it belongs to, "" for one that the
    host code allocated (an output or scratch)."""

    nbytes: int
    arg: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchArg:
    """A bound run-time argument (constexprs and ==1 specialised values are in the TTIR).

    ``kind`` "ptr": ``buffer`` indexes ``Plan.buffers``, ``offset_bytes`` into it.
    Otherwise a scalar type as in TTIR ("i1", "i32", "i64", "f32", ...) and ``value``."""

    kind: str
    buffer: int = -1
    offset_bytes: int = 0
    value: float | int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch: the plan class to run when every pointer is 16-byte aligned, the one to run
    when they are not, the grid and the arguments in the order of the TTIR function."""

    plan_class: str
    plan_class_unaligned: str
    grid: tuple[int, int, int]
    args: tuple[LaunchArg, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRef:
    """Where an output of the entry lies."""

    buffer: int
    offset_bytes: int
    meta: TensorMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The launches that one call makes, in order."""

    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]
    outputs: tuple[OutputRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanClass:
    """Launches that share kernel, options and specialisation key; ``ttir`` is the text after the
    backend's ``ttir`` stage ("" when not asked for). ``id`` is a hash of
    kernel text, constexprs, options and specialisation key, stable across processes."""

    id: str
    kernel: str
    options: dict[str, Any]
    specialisation: str
    ttir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFailure:
    """A candidate's failure inside the wall: ``status`` and one line; ``where`` is the key of the
    call, class or run. A failure of the machine is an exception, never this."""

    status: FailureStatus
    message: str
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceResult:
    """Plans by call key and the classes they use; or the first failure."""

    plans: dict[str, Plan]
    classes: dict[str, PlanClass]
    failure: WorkerFailure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileJob:
    """Compile TTIR texts. ``ttirs`` maps an object id (``devices.object_id`` of the text) to it.
    Objects come back as files ``<object id>.obj`` beside the result; with ``assembly`` also what
    the compiler made of it, as text of at most ``ASSEMBLY_MAX_BYTES`` in ``<object id>.s``.
    ``observed`` makes the observing builds instead; ids are then the job's own."""

    ttirs: dict[str, str]
    device: str
    timeout_s: float = 60.0
    assembly: bool = False
    observed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """A compiled kernel without its code. ``params`` are the scalar types of the TTIR function's
    parameters ("ptr", "i32", ...); ``arena_bytes`` the scratch one program needs;
    ``code_hash`` a hash of machine code and constants; ``stats`` registers, spills (cuda)."""

    id: str
    symbol: str
    params: tuple[str, ...]
    arena_bytes: int
    code_hash: str
    stats: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileResult:
    """Object infos by object id, or the first failure."""

    objects: dict[str, ObjectInfo]
    failure: WorkerFailure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """How to draw a tensor argument: recipe and regime of ``numerics.recipes``, the base shape it
    is drawn at, then ``rows`` (None: all) gathered along dimension 0 of token tensors; -1 in
    ``rows`` is a padding row (drawn from another stream). ``file`` overrides: raw bytes beside
    the job. ``strides`` as laid out in memory."""

    name: str
    meta: TensorMeta
    recipe: str
    base_shape: tuple[int, ...]
    token_axis: int | None
    rows: tuple[int, ...] | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All arguments of one call: tensors to draw, scalars by value (None for absent ones).
    ``seed`` and ``regime`` decide the bits; the same ``Inputs`` gives the same bytes anywhere."""

    tensors: tuple[InputSpec, ...]
    scalars: tuple[tuple[str, int | float | None], ...]
    regime: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a plan. ``order``: "ascending", "descending", "shuffled:<seed>" or
    "threads:<n>"; on a GPU "ascending" or "beside:<n>", among n launches of the same plan in
    another stream. ``misalign_bytes`` is added to every buffer's 64-byte aligned base.
    ``poison`` seeds the pattern that fills outputs, scratch and red zones; 0 fills with zeros and
    ends every buffer at a page that cannot be touched, 255 fills with 0xFF and starts it at one.
    ``stale`` runs the plan once before on inputs of another seed and leaves its scratch as it is
    (outputs re-poisoned)."""

    key: str
    plan: Plan
    inputs: Inputs
    order: str = "ascending"
    misalign_bytes: int = 0
    poison: int = 1
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """Run plans. ``objects``: object id -> info; their code lies in files ``<object id>.obj``
    beside the job. ``object_of``: plan class id -> object id. ``observed``: the objects are
    observing builds; programs run in ascending order, one at a time, and what they touch is
    reported."""

    runs: tuple[Run, ...]
    objects: dict[str, ObjectInfo]
    object_of: dict[str, str]
    device: str
    timeout_s: float = 60.0
    observed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputBytes:
    """Where an output's contiguous bytes lie in the result's ``out.bin``."""

    offset_bytes: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Outputs in the entry's order; ``canaries`` names buffers whose red zone was written
    ("scratch 2 after", "x before"); ``changed_inputs`` names inputs whose bytes changed;
    ``findings`` are an observed run's."""

    key: str
    outputs: tuple[OutputBytes, ...]
    canaries: tuple[str, ...]
    changed_inputs: tuple[str, ...]
    seconds: float
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsResult:
    """Results in job order, up to the first failure (a crash or time-out names its run's key)."""

    runs: tuple[RunResult, ...]
    failure: WorkerFailure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCase:
    """One case of a timing session: side A (incumbent) and side B (candidate)."""

    key: str
    a: Plan
    b: Plan
    inputs: Inputs
    floor_us: float
    cold: bool
    octets: int = 3
    window_ms: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeJob:
    """One timing session, run in a newly exec'ed process. ``placement`` seeds load order, padding
    and buffer addresses; ``verify`` seeds the choice of timed replays whose outputs come back.
    Objects as in :class:`RunJob`; class ids of both sides share ``object_of`` keyed "a:<class>"
    and "b:<class>"."""

    cases: tuple[TimedCase, ...]
    objects: dict[str, ObjectInfo]
    object_of: dict[str, str]
    device: str
    placement: int
    verify: int
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedReplay:
    """Outputs of one timed replay of side ``side``, in ``out.bin``."""

    side: Literal["a", "b"]
    outputs: tuple[OutputBytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTimes:
    """``warm`` and ``cold``: one log(time A / time B) an octet. ``windows_ns``: raw windows as
    [octet][8] in ABBA BAAB order, per launch sequence, warm then cold. ``replays_per_window``
    (A, B)."""

    key: str
    warm: tuple[float, ...]
    cold: tuple[float, ...]
    windows_ns: tuple[tuple[float, ...], ...]
    replays_per_window: tuple[int, int]
    below_floor: bool
    replays: tuple[TimedReplay, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeResult:
    """One session's cases, or the failure (a crash names side and case). ``facts`` says how the
    session ran: core, cache size, pools, preemptions."""

    cases: tuple[CaseTimes, ...]
    seconds: float
    failure: WorkerFailure | None = None
    facts: dict[str, Any] = field(default_factory=dict)


Job = TraceJob | CompileJob | RunJob | TimeJob
JobResult = TraceResult | CompileResult | RunsResult | TimeResult


def failed_job(job: Job, failure: WorkerFailure, seconds: float = 0.0) -> JobResult:
    """The result of a job of which nothing is known but how it failed."""
    if isinstance(job, TraceJob):
        return TraceResult(plans={}, classes={}, failure=failure)
    if isinstance(job, CompileJob):
        return CompileResult(objects={}, failure=failure)
    if isinstance(job, RunJob):
        return RunsResult(runs=(), failure=failure)
    return TimeResult(cases=(), seconds=seconds, failure=failure)
