"""From calls that were seen to cases: which are timed, with which weights. Pure functions.

The rules, which every import prints: equal calls are added up; of one call form, dtype and other
sizes, token counts within a quarter of the heaviest join it; the heaviest 12 groups are timed in
proportion, at least a thousandth each; the next are bits only; empty batches are never timed.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kernelsmith.authoring.blocks import shares
from kernelsmith.authoring.trace import Seen
from kernelsmith.catalog_build import MAX_TIMED_CASES
from kernelsmith.model import ITEMSIZE_BYTES, Call, Task

NEAR = 1.25
MOST_BITS_ONLY = 24
LEAST_SHARE_STEPS = 10  # of 10,000
Basis = Literal["time", "counts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Calls that one case stands for: the heaviest of them and how many kinds joined it."""

    seen: Seen
    weight: float
    kinds: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an import makes of a trace. ``timed``: (group, share of the whole); ``left_out``: how
    many groups are neither timed nor compared at their own size."""

    timed: tuple[tuple[Group, float], ...]
    bits_only: tuple[Group, ...]
    left_out: int
    rules: tuple[str, ...]


def plan(seen: Sequence[Seen], task: Task, basis: Basis) -> Plan:
    """The cases that stand for what was seen.

    Args:
        seen: calls and their counts.
        task: names the calls.
        basis: "time": weights are counts times a size estimate; "counts": counts alone.
    """
    groups = _joined(seen, task, basis)
    filled = [group for group in groups if dict(group.seen.dims)[task.token_dim] > 0]
    empty = [group for group in groups if group not in filled]
    timed, rest = filled[:MAX_TIMED_CASES], [*filled[MAX_TIMED_CASES:], *empty]
    weights = [group.weight for group in timed]
    parts = shares(weights, LEAST_SHARE_STEPS) if timed else []
    kept, left = rest[:MOST_BITS_ONLY], max(0, len(rest) - MOST_BITS_ONLY)
    total = math.fsum(group.weight for group in filled)
    covered = math.fsum(weights) / total if total else 0.0
    return Plan(
        timed=tuple(zip(timed, parts, strict=True)),
        bits_only=tuple(kept),
        left_out=left,
        rules=_rules(seen, groups, basis, (len(timed), covered), (len(kept), left)),
    )


def _rules(
    seen: Sequence[Seen],
    groups: Sequence[Group],
    basis: Basis,
    timed: tuple[int, float],
    bits: tuple[int, int],
) -> tuple[str, ...]:
    calls = sum(one.count for one in seen)
    words = {
        "time": "count x the larger of bytes read and written and the operations it declares, an "
        "estimate of time (--weights counts takes counts alone)",
        "counts": "the count alone, whatever a call costs (--weights time weighs by size too)",
    }
    kinds = len({(one.call, one.dtype, one.dims) for one in seen})
    said = [
        f"{_counted(calls, 'call')} of {_counted(kinds, 'kind')}; weight of a kind: {words[basis]}",
        f"kinds of one call, dtype and other sizes whose token counts lie within {NEAR - 1:.0%} "
        f"of a heavier kind's join it: {_counted(len(groups), 'group')}",
        f"the heaviest {timed[0]} {_is(timed[0])} timed (at most {MAX_TIMED_CASES}, no empty "
        f"batch): {timed[1]:.1%} of the weight",
        f"{bits[0]} more {_is(bits[0])} bits only (at most {MOST_BITS_ONLY})",
    ]
    if bits[1]:
        said.append(
            f"{bits[1]} {_is(bits[1])} left out: token_range and ranges still cover their sizes"
        )
    return tuple(said)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _joined(seen: Iterable[Seen], task: Task, basis: Basis) -> list[Group]:
    """Groups, the heaviest first; ties in the order of their names."""
    token_dim = task.token_dim
    counts: Counter[Seen] = Counter()
    for one in seen:
        counts[replace(one, count=0)] += one.count
    kinds = [replace(one, count=count) for one, count in counts.items()]
    weighed = [
        Group(seen=one, weight=one.count * (cost(task, one) if basis == "time" else 1))
        for one in kinds
    ]
    weighed.sort(key=lambda group: (-group.weight, repr(group.seen)))
    # Token counts join only within one call form, dtype and other sizes: a list of groups each.
    buckets: dict[object, list[Group]] = {}
    for group in weighed:
        tokens, rest = _parted(group.seen, token_dim)
        kept = buckets.setdefault(rest, [])
        for place, heavier in enumerate(kept):
            if _near(_parted(heavier.seen, token_dim)[0], tokens):
                kept[place] = _with(heavier, group)
                break
        else:
            kept.append(group)
    groups = [group for kept in buckets.values() for group in kept]
    return sorted(groups, key=lambda group: (-group.weight, repr(group.seen)))


def _parted(seen: Seen, token_dim: str) -> tuple[int, object]:
    """(tokens, everything else that makes a kind of call)."""
    others = tuple((name, size) for name, size in seen.dims if name != token_dim)
    return dict(seen.dims)[token_dim], (seen.call, seen.dtype, others)


def _near(one: int, other: int) -> bool:
    few, many = sorted((one, other))
    return many == few or 0 < many <= few * NEAR


def _with(heavier: Group, lighter: Group) -> Group:
    seen = replace(heavier.seen, count=heavier.seen.count + lighter.seen.count)
    return Group(
        seen=seen, weight=heavier.weight + lighter.weight, kinds=heavier.kinds + lighter.kinds
    )


def cost(task: Task, seen: Seen) -> int:
    """What a call costs, roughly: the larger of bytes moved and of the operations it declares."""
    call, dims = task.call(seen.call), dict(seen.dims)
    operations = sum(f * math.prod(dims[dim] for dim in names) for f, names in call.flops)
    return max(bytes_of(call, dims, seen.dtype), operations, 1)


def bytes_of(call: Call, dims: Mapping[str, int], dtype: str) -> int:
    """Bytes of a call's tensors, inputs and outputs."""
    tensors = [(arg.shape, arg.dtype) for arg in call.args if arg.kind == "tensor"]
    tensors += [(output.shape, output.dtype) for output in call.outputs]
    return sum(
        ITEMSIZE_BYTES[dtype if name == "T" else name]
        * math.prod(dims[size] if isinstance(size, str) else size for size in shape)
        for shape, name in tensors
    )
