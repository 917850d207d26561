"""Row counts at which a candidate's launches do not go on as they did: dispatch boundaries, and a
grid or an argument that is wrong at one count alone.

Host code is arithmetic on shapes, so the numbers of a launch (grid, integer arguments, offsets) go
from one row count to the next by one of a few steps: a grid of ``cdiv(M, 16)`` by 0 or 1. A step
that is hardly ever taken is a boundary between branches, or a mistake that no class and no case
shows. Bits are compared on both sides of each.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kernelsmith.model import Case, Plan

RARE = 2
"""A step seen at most so often over the declared range is looked at where it occurs."""

Numbers = tuple[int, ...]


def numbers(plan: Plan) -> Numbers:
    """Grid, integer arguments and pointer offsets of every launch, in order; floats are left out,
    they come from the call's own arguments."""
    found: list[int] = [len(plan.launches)]
    for launch in plan.launches:
        found += launch.grid
        for arg in launch.args:
            if arg.kind == "ptr":
                found.append(arg.offset_bytes)
            elif isinstance(arg.value, int):
                found.append(arg.value)
    return tuple(found)


def boundaries(
    steps: Sequence[tuple[Case, Numbers]], draw: np.random.Generator | None = None
) -> list[Case]:
    """The cases on both sides of each rare step, and of one step of each other kind.

    A mistake that comes back every 16 rows is no rare step; its kind shows wherever it is taken.

    Args:
        steps: one form's cases at consecutive row counts, with the numbers of their plans.
        draw: picks which occurrence of each kind is looked at; None: the first.

    Returns:
        Cases in order, without repeats.
    """
    taken = [_step(before, after) for (_, before), (_, after) in itertools.pairwise(steps)]
    counts = Counter(part for step in taken for part in step)
    looked_at = {i for i, step in enumerate(taken) if any(counts[part] <= RARE for part in step)}
    kinds: dict[tuple[tuple[int, int, int], ...], list[int]] = {}
    for index, step in enumerate(taken):
        kinds.setdefault(step, []).append(index)
    for found in kinds.values():
        looked_at.add(found[0 if draw is None else int(draw.integers(len(found)))])
    sides = sorted({side for index in looked_at for side in (index, index + 1)})
    return [steps[side][0] for side in sides]


def _step(before: Numbers, after: Numbers) -> tuple[tuple[int, int, int], ...]:
    """How each number moves: (how many numbers there are, which one, difference). Plans with
    another count of numbers are another form of launch: one step from that form to this."""
    if len(before) != len(after):
        return ((len(before), -1, len(after)),)
    size = len(after)
    return tuple((size, at, b - a) for at, (a, b) in enumerate(zip(before, after, strict=True)))
