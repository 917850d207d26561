"""What a summation tree gives for given terms: the oracle that a revealed tree is held against."""

import math
from dataclasses import dataclass

import numpy as np

from kernelsmith.numerics.order.formats import FORMATS, Float64s, cut, kept, rounded
from kernelsmith.numerics.order.tree import FLOAT32_BITS, Tree

GUARD_BITS_MOST = 3
"""Tensor cores have been measured to keep 0 to 3 bits below a float32 (Fasi et al. 2021)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """How single sums round, beside the bits that each of them keeps.

    Attributes:
        toward_zero: sums of two are cut instead of rounded to nearest even.
        fused_toward_zero: so are fused sums.
        guard_bits: None if a fused sum is exact until its one rounding. Otherwise its terms are
            first aligned to the largest of them and cut so many bits below a float32, as the
            tensor cores of GPUs do.
    """

    toward_zero: bool = False
    fused_toward_zero: bool = False
    guard_bits: int | None = None

    def __str__(self) -> str:
        text = "rounded toward zero" if self.toward_zero else "rounded to nearest"
        if self.guard_bits is None and not self.fused_toward_zero:
            return text
        inside = (
            "exact inside"
            if self.guard_bits is None
            else f"terms aligned to the largest with {self.guard_bits} guard bits"
        )
        end = "cut" if self.fused_toward_zero else "rounded to nearest"
        return f"{text}; fused sums: {inside}, {end}"


def arithmetics(tree: Tree) -> list[Arithmetic]:
    """All the ways of rounding that a kernel may have, the plainest first."""
    if tree.widest <= 2:
        return [Arithmetic(), Arithmetic(toward_zero=True)]
    guards: list[int | None] = [None, *range(GUARD_BITS_MOST + 1)]
    return [
        Arithmetic(toward_zero=zero, fused_toward_zero=fused_zero, guard_bits=guard)
        for zero in (False, True)
        for fused_zero in (False, True)
        for guard in guards
    ]


def simulate(tree: Tree, terms_QN: Float64s, arithmetic: Arithmetic | None = None) -> Float64s:
    """Sums rows of terms in a tree.

    Args:
        tree: the order, and how many bits each sum keeps.
        terms_QN: float64 [Q, units], finite.
        arithmetic: how sums round; to nearest even if None.

    Returns:
        float64 [Q]: the sums, each a number of the root's width.
    """
    how = arithmetic or Arithmetic()
    done: dict[int, Float64s] = {}

    def take(node: int) -> Float64s:
        return terms_QN[:, node] if node < tree.units else done.pop(node)

    if not tree.nodes:
        return terms_QN[:, 0].copy()
    with np.errstate(all="ignore"):
        for index, children in enumerate(tree.nodes):
            parts = [take(child) for child in children]
            bits = tree.bits[index]
            done[tree.units + index] = (
                _sum_of_two(parts[0], parts[1], bits, how.toward_zero)
                if len(parts) == 2
                else _fused(np.stack(parts), bits, how)
            )
    return done[tree.root]


def _sum_of_two(a: Float64s, b: Float64s, bits: int, toward_zero: bool) -> Float64s:
    """a + b in ``bits`` bits. Rounding twice is harmless: 53 >= 2 * 24 + 2 (Figueroa 1995)."""
    total = a + b
    if bits == FORMATS["float16"].bits and not toward_zero:
        return rounded(total, FORMATS["float16"])
    if not toward_zero:
        return total.astype(np.float32).astype(np.float64) if bits == 24 else kept(total, bits)
    back = total - a
    lost = (a - (total - back)) + (b - back)
    result = cut(total, bits)
    over = (result == total) & (lost != 0) & (np.sign(lost) == -np.sign(total))
    return np.where(over, cut(np.nextafter(total, 0.0), bits), result)


def _fused(parts_KQ: Float64s, bits: int, how: Arithmetic) -> Float64s:
    """All the parts at once, one rounding at the end."""
    final = cut if how.fused_toward_zero else kept
    if how.guard_bits is None:
        return final(np.array([exact_sum(column) for column in parts_KQ.T]), bits)
    top = np.frexp(np.abs(parts_KQ).max(axis=0))[1] - 1
    places = top - (FLOAT32_BITS - 1) - how.guard_bits
    aligned = np.trunc(np.ldexp(parts_KQ, -places)).sum(axis=0)
    return final(np.ldexp(aligned, places), bits)


def exact_sum(terms: Float64s) -> float:
    """The exact sum, rounded to odd: rounding it again to fewer bits equals rounding once."""
    values = terms.tolist()
    total = math.fsum(values)
    if not math.isfinite(total):
        return total
    lost = math.fsum([*values, -total])
    if lost == 0 or math.frexp(total)[0] * 2**53 % 2 == 1:
        return total
    return math.nextafter(total, math.inf if lost > 0 else -math.inf)
