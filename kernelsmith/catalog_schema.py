"""What a task file may say: the shape of the TOML, checked at the disk boundary.

Unknown keys are errors. Nothing here touches the disk or runs anything.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
Dim = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=16)]
Size = Annotated[int, Field(ge=0, le=1 << 24)]
Factor = Annotated[int, Field(ge=1, le=1 << 16)]
FloatDtype = Literal["bfloat16", "float16", "float32"]
Dtype = Literal["T", "bfloat16", "float16", "float32", "int8", "int32", "int64", "uint8", "bool"]
DeviceName = Literal["cpu", "cuda"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ArgFile(_Strict):
    """An argument of a call form."""

    name: Name
    kind: Literal["tensor", "int", "float", "none"]
    shape: list[Dim | Size] | None = None
    dtype: Dtype | None = None
    recipe: str | None = None
    value: float | int | None = None
    dim: Dim | None = None


class OutputFile(_Strict):
    """An output of a call form."""

    name: Name
    cls: Literal["row", "sequence", "batch"] = Field(alias="class")
    shape: list[Dim | Size]
    dtype: Dtype
    block: Annotated[int, Field(ge=1)] | None = None
    carry: Name | None = None
    carry_call: Name | None = None


class CallFile(_Strict):
    """A call form. ``flops``: terms such as ``[2, "M", "N", "K"]``, a factor and dimensions."""

    name: Name
    variant: Name
    entry: Name
    path: Literal["train", "infer"]
    args: Annotated[list[ArgFile], Field(min_length=1)]
    outputs: Annotated[list[OutputFile], Field(min_length=1)]
    flops: list[Annotated[list[Dim | Factor], Field(min_length=1)]] = []


class CasesFile(_Strict):
    """A block of cases: every combination of calls, dtypes, sizes and regimes is one case."""

    calls: Annotated[list[Name], Field(min_length=1)]
    dtypes: Annotated[list[FloatDtype], Field(min_length=1)]
    dims: dict[Dim, Size | list[Size]]
    regimes: Annotated[list[str], Field(min_length=1)]
    weight: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    row_stride_pad: Size = 0
    scalars: dict[Name, float] = {}
    role: str = ""


class DeviceFile(_Strict):
    """Cases and ranges on one device."""

    num_programs: Annotated[int, Field(ge=1)]
    token_range: Annotated[list[Size], Field(min_length=2, max_length=2)]
    ranges: dict[Dim, Annotated[list[Size], Field(min_length=1)]] = {}
    cases: Annotated[list[CasesFile], Field(min_length=1)]


class LimitsFile(_Strict):
    """What counts as faster, and how much slower a single case may get (fractions)."""

    min_gain: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.01
    max_regress: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.03


class ReductionFile(_Strict):
    """A sum whose order is found by probing; see ``model.Reduction``."""

    name: Name
    calls: Annotated[list[Name], Field(min_length=1)]
    output: Name
    over: Dim
    terms: Literal["values", "squares", "exps", "weighted_exps"]
    carriers: Annotated[list[Name], Field(min_length=1)]
    ones: list[Name] = []
    zeros: list[Name] = []
    carry: Name | Literal[""] = ""
    index: Name | Literal[""] = ""
    then: Literal["sum", "centred"] = "sum"
    beside: Name | Literal[""] = ""
    sizes: dict[DeviceName, list[Size]] = {}
    probes_max: Annotated[int, Field(ge=1, le=1 << 20)] = 1 << 16


class TaskFile(_Strict):
    """A whole task file. ``reductions``: None if it says nothing of sums, [] if nothing is
    summed."""

    name: Name
    summary: str
    seed: str
    entries: Annotated[list[Name], Field(min_length=1)]
    token_dim: Dim
    limits: LimitsFile = LimitsFile()
    calls: Annotated[list[CallFile], Field(min_length=1)]
    reductions: list[ReductionFile] | None = None
    devices: Annotated[dict[DeviceName, DeviceFile], Field(min_length=1)]


def first_problem(errors: list[Any]) -> str:
    """One line for the first of pydantic's errors: where in the file, and what is wrong."""
    error = errors[0]
    where = ".".join(str(part) for part in error["loc"]) or "the file"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{where}: {error['msg'].lower()}{more}"
