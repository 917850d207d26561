"""Tasks, candidates and verdicts. Shapes are tuples of element counts; units are in the names."""

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from kernelsmith.model.reductions import Reduction

PathName = Literal["train", "infer"]
OutputClass = Literal["row", "sequence", "batch"]
CheckStatus = Literal["pass", "fail", "unchecked"]
Status = Literal[
    "ACCEPTED",
    "POLICY",
    "TRACE",
    "SIGNATURE",
    "COMPILE",
    "BITS_DIFFER",
    "PATHS_DIFFER",
    "NONDETERMINISTIC",
    "MEMORY",
    "ORDER_DIFFERS",
    "NOT_FASTER",
    "REGRESSES",
    "UNCONFIRMED",
    "TIMEOUT",
    "CRASH",
]

ITEMSIZE_BYTES: dict[str, int] = {
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "bool": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgSpec:
    """One argument of a call form, as a task declares it.

    ``kind`` "tensor": ``shape`` holds dimension names or integers, ``dtype`` a dtype name or
    "T" (the case's dtype), ``recipe`` names an input recipe of ``numerics.recipes``.
    ``kind`` "int"/"float": ``value``, or ``dim`` = the dimension whose size is passed.
    ``kind`` "none": Python ``None`` is passed.
    """

    name: str
    kind: Literal["tensor", "int", "float", "none"]
    shape: tuple[str | int, ...] = ()
    dtype: str = ""
    recipe: str = ""
    value: float | int | None = None
    dim: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """One element of the tuple an entry returns.

    For class "batch", ``block`` is the token block at whose multiples a batch may be split, and
    ``carry`` names the argument of the call form ``carry_call`` that takes this output of the
    batch's earlier part.
    """

    name: str
    cls: OutputClass
    shape: tuple[str | int, ...]
    dtype: str
    block: int | None = None
    carry: str | None = None
    carry_call: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call form: how an entry is called on a path. Calls of one ``variant`` belong together:
    their ``row`` outputs of equal name must agree for the same token.

    ``flops``: floating-point operations that no implementation with the seed's bits can leave out,
    as terms (factor, dims): ``((2, ("M", "N", "K")),)`` is 2*M*N*K. Empty: not declared."""

    name: str
    variant: str
    entry: str
    path: PathName
    args: tuple[ArgSpec, ...]
    outputs: tuple[OutputSpec, ...]
    flops: tuple[tuple[int, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One concrete call. ``weight`` 0 means bits only, never timed.

    ``regime`` names how inputs are drawn (see ``numerics.recipes``). ``row_stride_pad`` > 0 gives
    every tensor whose last dimension is contiguous that many extra elements a row.
    ``padded_arg`` != "": only this argument is padded; else each argument has another padding (see
    ``cases.tensor_meta``). ``scalars``: values of int and float arguments of this case alone.
    ``role`` says where the case comes from in a serving or training step, for people.
    """

    id: str
    call: str
    dtype: str
    dims: tuple[tuple[str, int], ...]
    regime: str
    weight: float
    row_stride_pad: int = 0
    role: str = ""
    padded_arg: str = ""
    scalars: tuple[tuple[str, float], ...] = ()

    def dim(self, name: str) -> int:
        return dict(self.dims)[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be made faster, on one device. ``token_dim`` is the dimension whose index is a
    token; ``token_range`` (lo, hi inclusive) the row counts a rewrite must handle; ``ranges``
    further dimensions that hidden shapes are drawn from, as (dim, allowed values). ``reductions``:
    the sums whose order is found by probing; () if nothing is summed, None if nothing is said."""

    name: str
    device: str
    seed_name: str
    seed_source: str
    summary: str
    entries: tuple[str, ...]
    calls: tuple[Call, ...]
    cases: tuple[Case, ...]
    token_dim: str
    token_range: tuple[int, int]
    ranges: tuple[tuple[str, tuple[int, ...]], ...]
    num_programs: int
    min_gain: float
    max_regress: float
    shipped: bool
    reductions: tuple[Reduction, ...] | None = None

    def call(self, name: str) -> Call:
        for call in self.calls:
            if call.name == name:
                return call
        raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One proposed rewrite. ``id`` is the first 16 hex digits of the SHA-256 of the source;
    ``parents`` are candidate ids (the seed's own id for a first generation); ``author`` is
    "search", "agent", "seed" or a person; ``changes`` names the knobs that were changed;
    ``origin``: of an agent's, "SESSION/TOOL_USE_ID" of the call that submitted it."""

    id: str
    task: str
    source: str
    parents: tuple[str, ...]
    author: str
    changes: tuple[str, ...] = ()
    note: str = ""
    origin: str = ""


def candidate_id(source: str) -> str:
    """First 16 hex digits of the SHA-256 of a source text."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def new_candidate(
    source: str,
    task: str,
    *,
    author: str,
    parents: tuple[str, ...] = (),
    changes: tuple[str, ...] = (),
    note: str = "",
    origin: str = "",
) -> Candidate:
    """A candidate of this source, by whoever wrote it."""
    return Candidate(
        id=candidate_id(source),
        task=task,
        source=source,
        parents=parents,
        author=author,
        changes=changes,
        note=note,
        origin=origin,
    )


def seed_candidate(task: Task) -> Candidate:
    """A task's seed as the first of its candidates."""
    return new_candidate(task.seed_source, task.name, author="seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One step of the gate. ``evidence`` is JSON-able; a failing check carries ``message``, one
    line that says which case, element and bits, or which construct and what to use instead."""

    name: str
    status: CheckStatus
    seconds: float
    message: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGain:
    """Gain of one timed case: time of the reference / time of the candidate (1.05 = 5 % faster)."""

    case: str
    path: PathName
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """``geomean`` is the weighted geometric mean gain, median over sessions; ``low``/``high`` are
    order statistics of the session gains (96 %). ``against`` is the id it was timed against."""

    geomean: float
    low: float
    high: float
    sessions: int
    cases: tuple[CaseGain, ...]
    against: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate decided about one candidate, with all it saw. ``samples`` are raw timing
    sessions (JSON-able) to be kept in the lineage."""

    candidate: str
    task: str
    status: Status
    checks: tuple[CheckResult, ...]
    gain: Gain | None
    unchecked: tuple[str, ...]
    epoch: str
    device: dict[str, Any]
    samples: tuple[dict[str, Any], ...] = ()

    @property
    def accepted(self) -> bool:
        return self.status == "ACCEPTED"

    @property
    def session_s(self) -> float | None:
        """Seconds of a timing session: the mean its processes saw and a quarter for the host."""
        seconds = [float(one["seconds"]) for one in self.samples if "seconds" in one]
        return 1.25 * sum(seconds) / len(seconds) if seconds else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A task's share of what gates prove themselves with. Of the cheats that cost runs it has part
    ``number`` of ``of``; of its mutants it has ``mutants``, None for all. ``draw`` decides which;
    nobody knows it before."""

    draw: int
    number: int
    of: int
    mutants: int | None = None
