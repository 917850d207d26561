"""What limits each timed case on this device: bytes, floating-point operations or launches.

A roofline for whoever writes a kernel: it says where time can be won, and decides nothing. The
peaks are plausible ones of the kind of machine, not measured here, unlike the gate's floor, whose
peaks are generous so that it only catches the impossible.
"""

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernelsmith import cases as forms
from kernelsmith import devices
from kernelsmith.errors import InputError, MissingError
from kernelsmith.model import ITEMSIZE_BYTES, Case, Task

Limit = Literal["bytes", "flops", "launch"]
UNDECLARED = "flops not declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """``bytes_per_us``, ``flops_per_us`` by width of the case's dtype in bytes, ``launch_us``
    what one launch costs before any work; ``says``: where they come from, for people."""

    bytes_per_us: float
    flops_per_us: Mapping[int, float]
    launch_us: float
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseLimit:
    """One timed case. ``moved_bytes``: every input read and every output written once; ``flops``
    0 where the task declares none; ``launches`` of the seed's host code; ``seed_us`` where a look
    measured it."""

    case: str
    path: str
    weight: float
    moved_bytes: int
    flops: int
    launches: int
    bytes_us: float
    flops_us: float
    limit: Limit
    seed_us: float | None

    @property
    def intensity(self) -> float:
        """Declared flops a byte moved."""
        return self.flops / max(self.moved_bytes, 1)


_CPU_FLOPS_PER_US = {"x86-64-v4": 1.9e5, "x86-64-v3": 9.6e4, "x86-64-v2": 2.4e4}
_CUDA = {
    80: (2.0e6, {1: 6.2e8, 2: 3.1e8, 4: 1.9e7}, "A100"),
    90: (3.3e6, {1: 2.0e9, 2: 9.9e8, 4: 6.7e7}, "H100"),
    100: (8.0e6, {1: 4.5e9, 2: 2.2e9, 4: 7.5e7}, "B200"),
}


def peaks(device: str, facts: Mapping[str, Any]) -> Peaks:
    """Plausible peaks of a device from its facts (``Device.describe``)."""
    if device == "cpu":
        level = str(facts.get("level", "x86-64-v3"))
        flops = _CPU_FLOPS_PER_US.get(level, _CPU_FLOPS_PER_US["x86-64-v2"])
        return Peaks(
            bytes_per_us=3.0e4,
            flops_per_us=dict.fromkeys((1, 2, 4, 8), flops),
            launch_us=0.5,
            says=f"one core of {level} at 3 GHz: {flops / 1e3:g} GFLOP/s in float32 (16-bit inputs "
            "too), 30 GB/s beyond its caches, 0.5 us a launch",
        )
    said = re.search(r"sm_(\d+)", str(facts.get("arch", "sm_90")))
    number = int(said[1]) if said else 90
    arch = max((known for known in _CUDA if known <= number), default=min(_CUDA))
    bytes_per_us, flops_per_us, name = _CUDA[arch]
    return Peaks(
        bytes_per_us=bytes_per_us,
        flops_per_us=flops_per_us,
        launch_us=3.0,
        says=f"the data sheet of an {name}, dense, and 3 us a launch",
    )


def facts_of(device: str) -> Mapping[str, Any]:
    """What the device says of itself; nothing where this machine lacks it."""
    try:
        return devices.get(device).describe()
    except (InputError, MissingError):
        return {}


def limits_of(
    task: Task, facts: Mapping[str, Any], seed_us: Mapping[str, float] | None = None
) -> tuple[CaseLimit, ...]:
    """The task's timed cases and what limits each.

    Args:
        facts: of the device, see :func:`facts_of`.
        seed_us: microseconds of the seed by case, as far as they were measured.
    """
    top = peaks(task.device, facts)
    launches = _launches(task.seed_source)
    found = []
    for case in task.cases:
        if case.weight <= 0:
            continue
        call = task.call(case.call)
        moved, flops = _moved_bytes(task, case), _flops(task, case)
        bytes_us = moved / top.bytes_per_us
        flops_us = flops / top.flops_per_us.get(ITEMSIZE_BYTES[case.dtype], math.inf)
        count = launches.get(call.entry, 1)
        worst: dict[Limit, float] = {
            "bytes": bytes_us,
            "flops": flops_us,
            "launch": count * top.launch_us,
        }
        found.append(
            CaseLimit(
                case=case.id,
                path=call.path,
                weight=case.weight,
                moved_bytes=moved,
                flops=flops,
                launches=count,
                bytes_us=bytes_us,
                flops_us=flops_us,
                limit=max(worst, key=lambda name: worst[name]),
                seed_us=(seed_us or {}).get(case.id),
            )
        )
    return tuple(found)


def table(limits: Sequence[CaseLimit], says: str) -> str:
    """The limits as lines for a model to read."""
    lines = [
        "case | path | weight | bytes moved | flops | flops/byte | launches of the seed | "
        "us by bytes | us by flops | limited by | seed measured"
    ]
    for one in limits:
        flops = f"{one.flops:.3g}" if one.flops else UNDECLARED
        measured = "not yet" if one.seed_us is None else f"{one.seed_us:.1f} us"
        lines.append(
            f"{one.case} | {one.path} | {one.weight:g} | {_size(one.moved_bytes)} | {flops} | "
            f"{one.intensity:.2g} | {one.launches} | {one.bytes_us:.2f} | {one.flops_us:.2f} | "
            f"{one.limit} | {measured}"
        )
    return "\n".join([*lines, f"(floors by {says}; a small case lies in the caches)"])


def _size(nbytes: int) -> str:
    return f"{nbytes / 1024:.1f} KiB" if nbytes < 1 << 20 else f"{nbytes / 2**20:.1f} MiB"


def _moved_bytes(task: Task, case: Case) -> int:
    metas = [
        forms.tensor_meta(arg, case) for arg in task.call(case.call).args if arg.kind == "tensor"
    ]
    metas += forms.output_meta(task, case)
    return sum(math.prod(meta.shape) * ITEMSIZE_BYTES[meta.dtype] for meta in metas)


def _flops(task: Task, case: Case) -> int:
    terms = task.call(case.call).flops
    return sum(factor * math.prod(case.dim(dim) for dim in dims) for factor, dims in terms)


def _launches(source: str) -> dict[str, int]:
    """Launches written in each host function, those of the functions it calls included; a loop
    counts once. Nothing of a source that does not parse."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return {}
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}

    def count(name: str, above: frozenset[str]) -> int:
        calls = [node.func for node in ast.walk(functions[name]) if isinstance(node, ast.Call)]
        called = [f.id for f in calls if isinstance(f, ast.Name) and f.id in functions]
        inside = [count(each, above | {each}) for each in called if each not in above]
        return sum(isinstance(f, ast.Subscript) for f in calls) + sum(inside)

    hosts = [name for name, node in functions.items() if not node.decorator_list]
    return {name: count(name, frozenset({name})) for name in hosts}
