"""Which winner an entry takes for which shapes: a small decision tree over its timed cases.

A split is a question that host code may ask: a size at most a bound, an argument that is None, a
dtype. A bound lies between two timed sizes, at their geometric mean. Rows of the token dimension
are asked first, then other sizes; sizes less than a factor of two apart only where nothing else
tells two cases apart.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.model import Call, Case, Task

NARROW = 2.0
Value = int | bool | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """``if test:`` one, else the other. A leaf is a winner's id."""

    test: str
    then: "Tree"
    other: "Tree"


Tree = Split | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What host code sees of timed cases, and the winner that is fastest on them."""

    sees: Mapping[str, Value]
    winner: str


def tree(points: Sequence[Point], token: str) -> Tree:
    """The questions that lead each point to its winner. ``token``: how rows are read."""
    winners = list(dict.fromkeys(point.winner for point in points))
    if len(winners) == 1:
        return winners[0]
    _, test, then, other = min(_splits(points, token), key=lambda split: split[0])
    return Split(test=test, then=tree(then, token), other=tree(other, token))


def leaves(found: Tree) -> list[str]:
    """The winners that a tree leads to, each once, in order."""
    if isinstance(found, str):
        return [found]
    return list(dict.fromkeys([*leaves(found.then), *leaves(found.other)]))


def boundary(low: int, high: int) -> int:
    """The largest size on the lower side of a split between two timed sizes."""
    return min(max(math.isqrt(low * high), low), high - 1)


def seen(task: Task, entry: str, parameters: Sequence[str]) -> dict[str, str]:
    """How an entry's host code reads what its call forms may differ in: dimension or
    ``dtype`` or ``none NAME`` -> expression. What not every call form has is left out."""
    calls = [call for call in task.calls if call.entry == entry]
    found: dict[str, str] = {}
    names = {dim for case in task.cases for dim, _ in case.dims}
    for dim in [task.token_dim, *sorted(names - {task.token_dim})]:
        for index, parameter in enumerate(parameters):
            where = {_place(call, index, dim) for call in calls}
            if len(where) == 1 and (place := where.pop()) is not None:
                found[dim] = parameter if place < 0 else f"{parameter}.shape[{place}]"
                break
    for index, parameter in enumerate(parameters):
        kinds = {call.args[index].kind for call in calls if index < len(call.args)}
        if "none" in kinds and len(kinds) > 1:
            found[f"none {parameter}"] = f"{parameter} is None"
        typed = kinds == {"tensor"} and {call.args[index].dtype for call in calls} == {"T"}
        if typed and "dtype" not in found:
            found["dtype"] = f"{parameter}.dtype"
    return found


def sight(
    task: Task, case: Case, parameters: Sequence[str], reads: Mapping[str, str]
) -> dict[str, Value]:
    """What host code sees of one case: expression -> value."""
    sizes, args = dict(case.dims), task.call(case.call).args
    values: dict[str, Value] = {}
    for what, text in reads.items():
        if what == "dtype":
            values[text] = case.dtype
        elif what.startswith("none "):
            values[text] = args[parameters.index(what.removeprefix("none "))].kind == "none"
        elif what in sizes:
            values[text] = sizes[what]
    return values


def _place(call: Call, index: int, dim: str) -> int | None:
    """Where an argument tells a dimension: an index of its shape, -1 for itself, None: nowhere."""
    if index >= len(call.args):
        return None
    arg = call.args[index]
    if arg.kind == "tensor" and dim in arg.shape:
        return arg.shape.index(dim)
    return -1 if arg.kind == "int" and arg.dim == dim else None


def _splits(
    points: Sequence[Point], token: str
) -> Iterator[tuple[tuple[int, int], str, list[Point], list[Point]]]:
    """((points that it leaves with another winner, rank), test, then, other) of every split."""
    shared = [each for each in points[0].sees if all(each in point.sees for point in points)]
    for text in shared:
        values = {point.sees[text] for point in points}
        sizes = sorted(each for each in values if type(each) is int)
        tests: list[tuple[int, str, frozenset[Value]]] = []
        for low, high in itertools.pairwise(sizes):
            wide = low == 0 or high / low >= NARROW
            rank = (0 if text == token else 1) if wide else 3
            below = frozenset(each for each in sizes if each <= low)
            tests.append((rank, f"{text} <= {boundary(low, high)}", below))
        if len(values) > 1 and all(isinstance(each, bool) for each in values):
            tests.append((2, text, frozenset({True})))
        for dtype in sorted(each for each in values if isinstance(each, str)):
            if len(values) > 1:
                tests.append((2, f"{text} == torch.{dtype}", frozenset({dtype})))
        for rank, test, inside in tests:
            then = [point for point in points if point.sees[text] in inside]
            other = [point for point in points if point.sees[text] not in inside]
            yield (_mixed(then) + _mixed(other), rank), test, then, other


def _mixed(points: Sequence[Point]) -> int:
    counts = [sum(point.winner == each for point in points) for each in {p.winner for p in points}]
    return len(points) - max(counts)
