"""What is on record of compiled code, and what a candidate's does that its seed's does not."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelsmith.devices.cuda import lint
from kernelsmith.model import ObjectInfo


def evidence(
    used: Sequence[ObjectInfo], seed: Callable[[], Sequence[ObjectInfo]]
) -> dict[str, Any]:
    """Evidence of the compile check.

    On a GPU ``stats`` has registers, stack, occupancy and the lint of each kernel, and
    ``beyond_seed`` says what none of the seed's kernels does: approximations, contraction,
    flushing, atomics, spills. It rejects nothing: bits decide. Float atomics are rejected by the
    determinism check.
    """
    found: dict[str, Any] = {
        "objects": len(used),
        "arena_bytes_max": max((info.arena_bytes for info in used), default=0),
        "stats": {info.symbol: info.stats for info in used if info.stats},
    }
    if any("lint" in info.stats for info in used):
        known = [counts(info.stats) for info in seed()]
        found["beyond_seed"] = {
            info.symbol: told for info in used if (told := lint.beyond(counts(info.stats), known))
        }
    return found


def counts(stats: Mapping[str, Any]) -> dict[str, int]:
    """The counts that the lint weighs, of an object's ``stats``."""
    return {**stats.get("lint", {}), "stack_bytes": int(stats.get("stack_bytes", 0))}
