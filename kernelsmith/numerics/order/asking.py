"""Questions to a kernel, in rounds, under a budget; and what may come of them.

Whatever probes here is a generator: it yields ``Rows``, gets the kernel's sums of them, and in the
end returns an outcome. ``drive`` runs one: it is the only place that calls the kernel, counts and
stops.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kernelsmith.errors import InfrastructureError, InputError
from kernelsmith.numerics.order.formats import Float64s
from kernelsmith.numerics.order.tree import Tree

Ints = npt.NDArray[np.int64]


class Ask(Protocol):
    """A kernel that sums rows of numbers, independently of one another."""

    def __call__(self, queries_QN: Float64s, /) -> Float64s:
        """The sums [Q] of rows [Q, units] as the kernel wrote them, widened to float64."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may be asked.

    Attributes:
        queries: rows in all.
        batch: rows of one call.
    """

    queries: int = 65536
    batch: int = 4096


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of numbers, sparse: a background each, and a few numbers placed on it.

    Attributes:
        grounds_GN: the backgrounds.
        which_Q: the background of each row.
        places_QK: units that hold another number.
        numbers_QK: those numbers; of a unit named twice the last one counts.
    """

    grounds_GN: Float64s
    which_Q: Ints
    places_QK: Ints
    numbers_QK: Float64s

    def __len__(self) -> int:
        return len(self.which_Q)

    def dense(self, start: int, stop: int) -> Float64s:
        """The rows from ``start`` to ``stop`` written out, float64 [rows, units]."""
        part = slice(start, stop)
        dense = self.grounds_GN[self.which_Q[part]]
        for places, numbers in zip(self.places_QK[part].T, self.numbers_QK[part].T, strict=True):
            dense[np.arange(len(dense)), places] = numbers
        return dense


def placed(ground_N: Float64s, places_QK: Ints, numbers_QK: Float64s) -> Rows:
    """Rows over one background."""
    which = np.zeros(len(places_QK), dtype=np.int64)
    return Rows(ground_N[None, :], which, places_QK, numbers_QK)


def whole(rows_QN: Float64s) -> Rows:
    """Rows that are written out already."""
    count = len(rows_QN)
    nothing = np.zeros((count, 0))
    return Rows(rows_QN, np.arange(count), nothing.astype(np.int64), nothing)


def together(parts: list[Rows]) -> Rows:
    """Several sets of rows as one round; each part places equally many numbers, or none."""
    width = max(part.places_QK.shape[1] for part in parts)
    grounds = np.concatenate([part.grounds_GN for part in parts])
    starts = np.cumsum([0, *(len(part.grounds_GN) for part in parts[:-1])])
    which = np.concatenate(
        [part.which_Q + start for part, start in zip(parts, starts, strict=True)]
    )
    places = []
    numbers = []
    for part in parts:
        missing = width - part.places_QK.shape[1]
        if missing == width:
            places.append(np.zeros((len(part), width), dtype=np.int64))
            numbers.append(np.repeat(part.grounds_GN[part.which_Q][:, :1], width, axis=1))
        else:
            places.append(np.pad(part.places_QK, ((0, 0), (0, missing)), mode="edge"))
            numbers.append(np.pad(part.numbers_QK, ((0, 0), (0, missing)), mode="edge"))
    return Rows(grounds, which, np.concatenate(places), np.concatenate(numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revealed:
    """A tree, found and then confirmed.

    Attributes:
        tree: the order.
        arithmetic: how its sums round, in words.
        confirmed: rows of random and adversarial numbers whose sums the tree predicted, each
            asked twice.
        queries, rounds: what it took.
    """

    tree: Tree
    arithmetic: str
    confirmed: int
    queries: int = 0
    rounds: int = 0

    @property
    def sentence(self) -> str:
        """One line for people."""
        widest = f", up to {self.tree.widest} terms at once" if self.tree.widest > 2 else ""
        took = f"{self.queries} queries in {self.rounds} rounds"
        return (
            f"a tree of {self.tree.units} units{widest}, {self.arithmetic}; it gave "
            f"{self.confirmed} further sums exactly ({took})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """No tree gives the kernel's sums.

    Attributes:
        sentence: why, for people.
        inputs: a row that shows it, where one does.
        expected, actual: its sum under the nearest tree, and as read.
    """

    sentence: str
    inputs: tuple[float, ...] | None = None
    expected: float | None = None
    actual: float | None = None
    queries: int = 0
    rounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """The sum cannot be seen through what follows it: nothing is known of its order."""

    sentence: str
    queries: int = 0
    rounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """The budget ended before the tree was known."""

    sentence: str
    queries: int = 0
    rounds: int = 0


Outcome = Revealed | Unexplained | Unreachable | Exhausted
Failure = Unexplained | Unreachable
Steps = Generator[Rows, Float64s, Outcome]


def drive(steps: Steps, ask: Ask, budget: Budget) -> Outcome:
    """Runs a probing to its end, or to the end of its budget.

    Raises:
        InputError: the budget allows no query.
        InfrastructureError: the kernel's answer is not one number a row.
    """
    if budget.queries < 1 or budget.batch < 1:
        raise InputError("a budget of no queries", hint="allow at least one query, one a batch")
    queries = rounds = 0
    answer: Float64s | None = None
    while True:
        try:
            rows = next(steps) if answer is None else steps.send(answer)
        except StopIteration as ended:
            outcome: Outcome = ended.value
            return replace(outcome, queries=queries, rounds=rounds)
        if queries + len(rows) > budget.queries:
            return Exhausted(
                sentence=f"{queries} of {budget.queries} queries are spent and the next round "
                f"needs {len(rows)}: the order is not known",
                queries=queries,
                rounds=rounds,
            )
        answer = _answers(ask, rows, budget.batch)
        queries += len(rows)
        rounds += 1


def _answers(ask: Ask, rows: Rows, batch: int) -> Float64s:
    sums = []
    for start in range(0, len(rows), batch):
        dense = rows.dense(start, start + batch)
        part = np.asarray(ask(dense), dtype=np.float64)
        if part.shape != (len(dense),):
            raise InfrastructureError(
                f"{len(dense)} rows were asked and an answer of shape {part.shape} came back",
                hint="this is a fault of the probing, not of the kernel",
            )
        sums.append(part)
    return np.concatenate(sums)
