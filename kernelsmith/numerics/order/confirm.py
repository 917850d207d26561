"""Holding a revealed tree against numbers that no probe is made of, and naming what is no tree.

A tree is believed when it predicts, bit for bit, what the kernel makes of random and adversarial
numbers. What probes cannot see (compensation, terms rounded before they are added, a sum that
changes from call to call) fails here.
"""

from collections.abc import Callable, Generator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kernelsmith.numerics.order.arithmetic import Arithmetic, arithmetics, exact_sum, simulate
from kernelsmith.numerics.order.asking import (
    Failure,
    Revealed,
    Rows,
    Steps,
    Unexplained,
    whole,
)
from kernelsmith.numerics.order.formats import Float32s, Float64s, Format, Reading, kept
from kernelsmith.numerics.order.tree import FLOAT32_BITS, Tree, chain

ROWS = 128
_WORDS = {8: "bfloat16", 11: "float16", 24: "float32", 53: "float64"}


def confirm(tree: Tree, reading: Reading, draw: int) -> Steps:
    """Asks for the sums of ``ROWS`` rows, each twice, and compares them with the tree's."""
    first = leaves_in_order(tree)[0]
    terms, sums, failure = yield from _twice(tree.units, reading, draw, first)
    if failure is not None:
        return failure
    for how in arithmetics(tree):
        if _same(reading.read(simulate(tree, terms, how)), sums).all():
            return Revealed(tree=tree, arithmetic=_in_words(tree, how), confirmed=ROWS)
    predicted = reading.read(simulate(tree, terms))
    row = int(np.argmin(_same(predicted, sums)))
    return Unexplained(
        sentence=_named(tree, terms, reading, sums)
        or "the tree that the probes show does not give the kernel's sums of other numbers: terms "
        "are changed before they are added, sums are corrected, or the order depends on the data "
        "or on the rows beside it",
        inputs=tuple(terms[row].tolist()),
        expected=float(predicted[row]),
        actual=float(sums[row]),
    )


def diagnose(found: Failure, units: int, reading: Reading, draw: int) -> Steps:
    """A better name for a sum whose probes contradict one another, if there is one."""
    if not isinstance(found, Unexplained):
        return found
    terms, sums, failure = yield from _twice(units, reading, draw)
    if failure is not None:
        return failure
    name = _named(chain(range(units)), terms, reading, sums)
    return found if name is None else replace(found, sentence=name)


def _twice(
    units: int, reading: Reading, draw: int, begin: int = 0
) -> Generator[Rows, Float64s, tuple[Float64s, Float64s, Unexplained | None]]:
    """Asks for all confirming rows, and again in the other order: the same sums must come."""
    terms = confirming_rows(units, reading.unit, draw, begin)
    answer = yield whole(np.concatenate([terms, terms[::-1]]))
    first, second = answer[:ROWS], answer[ROWS:][::-1]
    changed = np.flatnonzero(~_same(first, second))
    if not len(changed):
        return terms, first, None
    row = int(changed[0])
    failure = Unexplained(
        sentence="the same numbers gave two sums: the order changes as the kernel runs, as with "
        "atomic additions, or depends on where a row stands",
        inputs=tuple(terms[row].tolist()),
        expected=float(first[row]),
        actual=float(second[row]),
    )
    return terms, first, failure


def _same(a: Float64s, b: Float64s) -> npt.NDArray[np.bool_]:
    """Equal as numbers, NaN equal to NaN: a sum's zero may have either sign."""
    same: npt.NDArray[np.bool_] = (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def confirming_rows(units: int, unit: Format, draw: int, first: int = 0) -> Float64s:
    """Terms whose sum depends on the order as much as it can.

    Magnitudes are spread so far that nearly every float32 addition rounds, and then a few units
    are set to take the exact sum away: what is left is rounding alone, which differs from tree to
    tree in its first bits, so that even a bfloat16 output shows it. By turns a row has

    0. magnitudes over 24 powers of two, and nothing taken away;
    1. the same, taken away;
    2. a few large numbers, and others of which only the first bits count beside them;
    3. three magnitudes 24 powers of two apart, where ties are common.

    Args:
        units: terms of a row.
        unit: what a term can be.
        draw: seeds the numbers.
        first: the unit that the sum begins with, as far as is known: often a large number.

    Returns:
        float64 [ROWS, units], each a number of ``unit``.
    """
    random = np.random.default_rng([draw, units])
    shape = (ROWS, units)
    half = min(12, unit.top - 3)
    significand = random.integers(2 ** (unit.bits - 1), 2**unit.bits, shape) / 2 ** (unit.bits - 1)
    terms = random.choice([-1.0, 1.0], shape) * significand
    wide = random.integers(-half, half + 1, shape)
    grains = random.integers(half - FLOAT32_BITS + 1, half - FLOAT32_BITS + 8, shape)
    large = random.random(shape) < random.choice([3 / units, 1 / 8, 1 / 3], (ROWS, 1))
    large[2::8, first] = True
    by_turns = np.arange(ROWS)[:, None] % 4 == 2
    terms *= 2.0 ** np.where(by_turns, np.where(large, half, grains), wide)
    ties = random.choice([-3.0, -1.0, -0.5, 0.5, 1.0, 3.0], (ROWS // 4, units))
    terms[3::4] = ties * random.choice([2.0**-half, 1.0, 2.0**half], ties.shape)
    lowest, highest = 2.0 ** max(unit.normal, -40), 2.0 ** min(unit.top, 60)
    for row in range(ROWS):
        count = min(-(-32 // unit.bits), units - 2) if row % 4 else 0
        for place in random.permutation(units)[: max(count, 0)]:
            terms[row, place] = 0.0
            wanted = kept(np.array([-exact_sum(terms[row])]), unit.bits)[0]
            terms[row, place] = 0.0 if abs(wanted) < lowest else np.clip(wanted, -highest, highest)
    return np.asarray(terms, dtype=np.float64)


def _in_words(tree: Tree, how: Arithmetic) -> str:
    widths = sorted(set(tree.bits), reverse=True)
    named = ", some sums ".join(_WORDS.get(width, f"{width} bits") for width in widths)
    return f"{named or 'float32'}, {how}"


def _named(tree: Tree, terms: Float64s, reading: Reading, sums: Float64s) -> str | None:
    """What sums as the kernel does, if it is among the known ways that are no tree of terms."""
    first = leaves_in_order(tree)
    # A tree does not say which of its first two units came first; to a correction it matters.
    for order in (first, [*first[1::-1], *first[2:]]):
        for name, total in _others(tree, order):
            with np.errstate(all="ignore"):
                if _same(reading.read(total(terms)), sums).all():
                    return name
    return None


def _others(tree: Tree, order: list[int]) -> list[tuple[str, Callable[[Float64s], Float64s]]]:
    def early(bits: int) -> Callable[[Float64s], Float64s]:
        return lambda terms: simulate(tree, kept(terms, bits))

    def end(bits: int) -> Callable[[Float64s], Float64s]:
        return lambda terms: kept(simulate(tree, terms), bits)

    wide = tree.with_bits([53] * len(tree.nodes))
    found: list[tuple[str, Callable[[Float64s], Float64s]]] = [
        ("the sum is compensated (Kahan): no tree of additions", lambda t: _kahan(t[:, order])),
        ("the sum is exact, or compensated until nothing is lost: no order is seen", _exact),
        (
            "the sum is compensated (Neumaier): no tree of additions",
            lambda t: _neumaier(t[:, order]),
        ),
        ("the sum is kept in float64", lambda t: simulate(wide, t)),
    ]
    for bits, name in ((8, "bfloat16"), (11, "11 bits, as in tf32 or float16")):
        found.append((f"terms are rounded to {name} before they are added", early(bits)))
        found.append((f"the sum is rounded to {name} before it is written", end(bits)))
    return found


def leaves_in_order(tree: Tree) -> list[int]:
    """The units in the order in which a walk of the tree adds them, deepest sums first."""
    size, least = tree.sizes(), tree.least()
    order: list[int] = []
    stack = [tree.root]
    while stack:
        node = stack.pop()
        if node < tree.units:
            order.append(node)
        # The last one is walked first: the largest, of equals the one with the least unit.
        stack.extend(sorted(tree.children(node), key=lambda child: (size[child], -least[child])))
    return order


def _exact(terms_QN: Float64s) -> Float64s:
    return np.array([exact_sum(row) for row in terms_QN])


def _kahan(terms_QN: Float64s) -> Float64s:
    """Kahan's compensated sum in float32."""
    terms: Float32s = terms_QN.astype(np.float32)
    total = np.zeros(len(terms), dtype=np.float32)
    lost = np.zeros_like(total)
    for column in terms.T:
        corrected = column - lost
        grown = total + corrected
        lost = (grown - total) - corrected
        total = grown
    return total.astype(np.float64)


def _neumaier(terms_QN: Float64s) -> Float64s:
    """Neumaier's variant: the correction is added at the end."""
    terms: Float32s = terms_QN.astype(np.float32)
    total = np.zeros(len(terms), dtype=np.float32)
    lost = np.zeros_like(total)
    for column in terms.T:
        grown = total + column
        larger = np.abs(total) >= np.abs(column)
        lost += np.where(larger, (total - grown) + column, (column - grown) + total)
        total = grown
    return (total + lost).astype(np.float64)


def reaches(
    units: int, one: float, pack: int, reading: Reading
) -> Generator[Rows, Float64s, Unexplained | None]:
    """Whether every unit is in the sum once: rows with 1, 2, 4, ... at ``pack`` units each."""
    dense = np.zeros((-(-units // pack), units))
    for unit in range(units):
        dense[unit // pack, unit] = one * 2.0 ** (unit % pack)
    sums = yield whole(dense)
    wanted = reading.read(dense.sum(axis=1))
    wrong = np.flatnonzero(~_same(sums, wanted))
    if not len(wrong):
        return None
    row = int(wrong[0])
    expected, actual = float(wanted[row]), float(sums[row])
    first, last = row * pack, min((row + 1) * pack, units) - 1
    return Unexplained(
        sentence=f"units {first} to {last} alone sum to {actual:g}, not {expected:g}: a unit is "
        "left out, counted twice or scaled",
        inputs=tuple(dense[row].tolist()),
        expected=expected,
        actual=actual,
    )
