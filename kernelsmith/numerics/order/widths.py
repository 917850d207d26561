"""How many bits each sum keeps: an accumulator's format, and partial sums that were rounded.

2**p at unit i and 1 at unit j, which meet in v, then -2**p at k beside v: the 1 comes back exactly
if v keeps p + 1 bits. What surrounds v adds an exact 1 or 0.
"""

from collections.abc import Generator

import numpy as np

from kernelsmith.numerics.order.asking import Failure, Ints, Rows, Unexplained, placed
from kernelsmith.numerics.order.cancelling import Scale
from kernelsmith.numerics.order.formats import Float64s, Reading
from kernelsmith.numerics.order.tree import FLOAT32_BITS, Tree

_SWEEP = range(2, 60)
_USUAL = (7, 8, 10, 11, 52, 53)
"""Powers that tell 8 bits (bfloat16), 11 (float16) and 53 (float64) apart."""


def widths(
    tree: Tree, scale: Scale, reading: Reading
) -> Generator[Rows, Float64s, tuple[int, ...] | Failure]:
    """The significand bits that every inner sum of a revealed tree keeps.

    Two queries a sum where it is float32, six more where it is another usual format. The
    root's own rounding shows only in an output that holds as many bits; else it is taken to be as
    wide as its widest inner sum.
    """
    triples = _beside(tree)
    room = min(reading.unit.top - int(np.log2(scale.one)), int(np.log2(scale.big / scale.one)))
    found = np.zeros(len(triples), dtype=np.int64)
    for powers in ((FLOAT32_BITS - 1, FLOAT32_BITS), _USUAL, _SWEEP):
        left = np.flatnonzero(found == 0)
        asked = np.array([power for power in powers if power <= room], dtype=np.int64)
        if not len(left) or not len(asked):
            continue
        rows = _rows(tree, triples[np.repeat(left, len(asked))], np.tile(asked, len(left)), scale)
        sums = yield rows
        counts = scale.count(sums)
        if powers is _SWEEP and ((counts < 0) | (counts > 1)).any():
            row = int(np.argmax((counts < 0) | (counts > 1)))
            return Unexplained(
                sentence="a 1 that is added to a power of two comes back changed when that is "
                "taken away again: the sum does not round as one format does",
                inputs=tuple(rows.dense(row, row + 1)[0].tolist()),
                actual=float(sums[row]),
            )
        exact = counts.reshape(len(left), -1) == 1
        for place, kept in zip(left.tolist(), exact.tolist(), strict=True):
            found[place] = _width(kept, asked.tolist())
    if (found == 0).any():
        place = int(np.argmin(found))
        size = tree.sizes()[tree.units + place]
        return Unexplained(
            sentence=f"the sum of {size} units around unit {triples[place, 0]} keeps a 1 "
            "beside some powers of two and not beside smaller ones"
        )
    bits = [int(width) for width in found]
    root = yield from _root(tree, scale, reading, max(bits, default=FLOAT32_BITS))
    return (*bits, root)


def _width(kept: list[bool], powers: list[int]) -> int:
    """The bits that keep a 1 beside just these powers; 0 if that is not yet known, or no width."""
    first = kept.index(False) if False in kept else len(kept)
    if any(kept[first:]):
        return 0
    if first == len(kept):
        return powers[-1] + 1 if powers[-1] + 1 > 53 else 0
    exactly = first == 0 or powers[first - 1] == powers[first] - 1
    return powers[first] if exactly and (first or powers[0] == _SWEEP[0]) else 0


def _root(
    tree: Tree, scale: Scale, reading: Reading, widest: int
) -> Generator[Rows, Float64s, int]:
    """Bits of the outermost sum, where the output can show them."""
    if reading.after is not None or reading.output.bits < FLOAT32_BITS:
        return widest
    least = tree.least()
    first, second = (least[child] for child in tree.children(tree.root)[:2])
    powers = np.arange(2, reading.output.bits)
    powers = powers[powers + np.log2(scale.one) <= reading.unit.top]
    numbers = np.stack([2.0**powers * scale.one, np.full(len(powers), scale.one)], axis=1)
    places = np.tile(np.array([first, second]), (len(powers), 1))
    sums = yield placed(np.zeros(tree.units), places, numbers)
    exact = sums == numbers.sum(axis=1)
    kept = int(powers[0]) + int(np.argmin(exact)) if not exact.all() else reading.output.bits
    return kept if kept < reading.output.bits else max(widest, kept)


def _beside(tree: Tree) -> Ints:
    """For every sum but the root: two units that meet in it, and one in the sum around it."""
    least = tree.least()
    parents = tree.parents()
    triples = []
    for index, children in enumerate(tree.nodes[:-1]):
        node = tree.units + index
        beside = next(child for child in tree.children(parents[node]) if child != node)
        triples.append((least[children[0]], least[children[1]], least[beside]))
    return np.array(triples, dtype=np.int64).reshape(-1, 3)


def _rows(tree: Tree, triples: Ints, powers: Ints, scale: Scale) -> Rows:
    big = 2.0**powers * scale.one
    numbers = np.stack([big, np.full(len(powers), scale.one), -big], axis=1)
    return placed(np.zeros(tree.units), triples, numbers)
