"""Kernels to probe: trees of float32 sums written out here, apart from the code under test."""

import math
import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kernelsmith.numerics.order import Tree

Nested = int | tuple["Nested", ...]
Rows = npt.NDArray[np.float64]
Kernel = Callable[[Rows], Rows]


def random_nested(units: int, widest: int, source: random.Random) -> Nested:
    """A tree of any form over all units, with sums of up to ``widest`` terms."""
    items: list[Nested] = list(range(units))
    source.shuffle(items)
    while len(items) > 1:
        count = min(len(items), source.choice([2, 2, 2, widest]))
        # Taking from the end makes deep trees, from anywhere bushy ones.
        deep = source.random() < 0.5
        taken = [items.pop(-1 if deep else source.randrange(len(items))) for _ in range(count)]
        items.append(tuple(taken))
    return items[0]


@st.composite
def nested_trees(draw: st.DrawFn, most: int = 64, widest: int = 4) -> Nested:
    """Trees of 2 to ``most`` units."""
    source = draw(st.randoms(use_true_random=False))
    return random_nested(draw(st.integers(2, most)), widest, source)


def float32_sum(nested: Nested, rows: Rows, fused: str = "exact") -> npt.NDArray[np.float32]:
    """Sums rows as a kernel would: float32, and fused sums exact or cut as on a tensor core."""
    if isinstance(nested, int):
        return rows[:, nested].astype(np.float32)
    parts = [float32_sum(child, rows, fused) for child in nested]
    if len(parts) == 2:
        return np.asarray(parts[0] + parts[1])
    wide = np.stack(parts).astype(np.float64)
    if fused == "exact":
        return np.array([math.fsum(column) for column in wide.T]).astype(np.float32)
    top = np.frexp(np.abs(wide).max(axis=0))[1]
    grid = np.ldexp(1.0, np.maximum(top, -900) - 25)
    total = (np.trunc(wide / grid) * grid).sum(axis=0)
    down = total.astype(np.float32)
    over = np.abs(down.astype(np.float64)) > np.abs(total)
    return np.where(over, np.nextafter(down, np.float32(0)), down)


def written(dtype: str) -> Callable[[npt.NDArray[np.floating]], Rows]:
    """Rounds sums to an output dtype and reads them back."""

    def write(sums: npt.NDArray[np.floating]) -> Rows:
        with np.errstate(over="ignore"):
            if dtype != "bfloat16":
                return sums.astype(dtype).astype(np.float64)
            words = sums.astype(np.float32).view(np.uint32).astype(np.uint64)
            nearest = (words + 0x7FFF + ((words >> 16) & 1)) >> 16 << 16
            back = nearest.astype(np.uint32).view(np.float32)
            return np.where(np.isnan(sums), np.nan, back).astype(np.float64)

    return write


def kernel(nested: Nested, output: str = "float32", fused: str = "exact") -> Kernel:
    """A kernel that sums in a tree and writes the sums in a dtype."""
    write = written(output)

    def ask(rows: Rows) -> Rows:
        with np.errstate(over="ignore", invalid="ignore"):
            return write(float32_sum(nested, rows, fused))

    return ask


def chain(first: int, stop: int) -> Nested:
    """first .. stop-1, one after another."""
    total: Nested = first
    for unit in range(first + 1, stop):
        total = (total, unit)
    return total


def balanced(units: list[Nested]) -> Nested:
    """Adjacent pairs, level by level; a power of two of them."""
    while len(units) > 1:
        units = [(a, b) for a, b in zip(units[::2], units[1::2], strict=True)]
    return units[0]


def tree(nested: Nested) -> Tree:
    """The tree under test's notion of a nested one."""
    return Tree.of(nested)
