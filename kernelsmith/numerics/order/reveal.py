"""From a kernel that answers rows of numbers to its summation tree."""

from collections.abc import Generator
from typing import Literal

import numpy as np

from kernelsmith.errors import InputError
from kernelsmith.numerics.order.asking import (
    Ask,
    Budget,
    Failure,
    Outcome,
    Rows,
    Steps,
    Unexplained,
    Unreachable,
    drive,
    placed,
)
from kernelsmith.numerics.order.cancelling import Scale, SignedTriples, scales
from kernelsmith.numerics.order.confirm import confirm, diagnose, reaches
from kernelsmith.numerics.order.formats import Float64s, Reading
from kernelsmith.numerics.order.proof import proven
from kernelsmith.numerics.order.signed import basic, refined
from kernelsmith.numerics.order.tree import FLOAT32_BITS, Tree
from kernelsmith.numerics.order.triples import split
from kernelsmith.numerics.order.widths import widths

Method = Literal["refined", "basic", "triples"]


def reveal_signed(
    ask: Ask,
    units: int,
    reading: Reading,
    *,
    budget: Budget | None = None,
    method: Method = "refined",
    expected: Tree | None = None,
    draw: int = 0,
) -> Outcome:
    """The tree in which a kernel sums terms of either sign.

    Args:
        ask: the kernel: rows of terms to sums.
        units: terms of a row.
        reading: what terms can be, and how a sum is written.
        budget: how much may be asked.
        method: ``refined`` and ``basic`` count ones (FPRev) and fall back to ``triples``, which
            also sees fused sums that lose nothing inside.
        expected: a tree to try first, in one round; the search runs only if it does not hold.
        draw: seeds the numbers that confirm the tree.

    Returns:
        ``Revealed`` only if the tree also predicts the sums of numbers that are no probes.

    Raises:
        InputError: no units, or an expected tree of another number of units.
    """
    steps = signed_steps(units, reading, method=method, expected=expected, draw=draw)
    return drive(steps, ask, budget or Budget())


def signed_steps(
    units: int,
    reading: Reading,
    *,
    method: Method = "refined",
    expected: Tree | None = None,
    draw: int = 0,
) -> Steps:
    """What :func:`reveal_signed` does, round by round, for whoever asks many kernels at once.

    Raises:
        InputError: no units, or an expected tree of another number of units.
    """
    checked_units(units, expected)
    return _signed(units, reading, method, expected, draw)


def checked_units(units: int, expected: Tree | None) -> None:
    """Raises InputError if there are no units, or not as many as the expected tree has."""
    if units < 1:
        raise InputError(f"a sum of {units} units", hint="give at least one unit")
    if expected is not None and expected.units != units:
        raise InputError(
            f"the expected tree has {expected.units} units, the sum {units}",
            hint="reveal both sums over the same number of units",
        )


def _signed(
    units: int, reading: Reading, method: Method, expected: Tree | None, draw: int
) -> Steps:
    scale = yield from _scale(units, reading)
    if not isinstance(scale, Scale):
        return scale
    failure = yield from _reach(units, scale, reading)
    if failure is not None:
        return failure
    found = yield from _tree(units, scale, method, expected)
    if not isinstance(found, Tree):
        return (yield from diagnose(found, units, reading, draw))
    if found.nodes:
        bits = yield from widths(found, scale, reading)
        if not isinstance(bits, tuple):
            return (yield from diagnose(bits, units, reading, draw))
        found = found.with_bits(bits)
    return (yield from confirm(found, reading, draw))


def _scale(units: int, reading: Reading) -> Generator[Rows, Float64s, Scale | Failure]:
    """The first M and one under which M and -M, far from one another, cancel."""
    options = scales(units, reading)
    if not options:
        return Unreachable(
            sentence=f"no two numbers of {reading.unit.name} are far enough apart to probe a sum "
            f"of {units} terms through a {reading.output.name} output"
        )
    if units < 2:
        return options[0]
    # The first row is zeros throughout.
    ends = np.array([[0, units - 1]] * (1 + len(options)))
    numbers = np.array([[0.0, 0.0], *([scale.big, -scale.big] for scale in options)])
    rows = placed(np.zeros(units), ends, numbers)
    sums = yield rows
    zero = float(options[0].counts[0])
    if sums[0] != zero:
        return Unexplained(
            sentence=f"zeros sum to {sums[0]:g}: another term takes part; make it a unit or zero",
            inputs=(0.0,) * units,
            expected=zero,
            actual=float(sums[0]),
        )
    for scale, total in zip(options, sums[1:].tolist(), strict=True):
        if total == zero:
            return scale
    failure = yield from _reach(units, options[-1], reading)
    return failure or Unexplained(
        sentence=f"a number and its negative sum to {sums[-1]:g}, not to {zero:g}",
        inputs=tuple(rows.dense(len(ends) - 1, len(ends))[0].tolist()),
        expected=zero,
        actual=float(sums[-1]),
    )


def _reach(
    units: int, scale: Scale, reading: Reading
) -> Generator[Rows, Float64s, Unexplained | None]:
    """Whether all units are in the sum, seven a row or as many as the output can tell apart."""
    pack = max(1, min(7, int(np.log2(scale.most + 1))))
    return (yield from reaches(units, scale.one, pack, reading))


def _tree(
    units: int, scale: Scale, method: Method, expected: Tree | None
) -> Generator[Rows, Float64s, Tree | Failure]:
    oracle = SignedTriples(units, scale)
    if units == 1:
        return Tree(1, (), ())
    if expected is not None and (yield from proven(scale, expected)):
        return Tree(units, expected.nodes, (FLOAT32_BITS,) * len(expected.nodes))
    if method == "refined" and units > scale.most:
        guess = yield from refined(units, scale, hasty=True)
        if isinstance(guess, Tree) and (yield from proven(scale, guess)):
            return guess
    if method == "triples":
        return (yield from split(oracle, units))
    found = yield from (basic if method == "basic" else refined)(units, scale)
    if isinstance(found, Tree):
        return found
    # Counting takes a fused sum to lose what is small beside M; one that is exact inside does not.
    again = yield from split(oracle, units)
    return again if isinstance(again, Tree) else found
