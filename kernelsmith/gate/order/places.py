"""Where a reduction is probed: on which declared cases, along which argument.

Probes are calls of the task's own cases, through the plans and objects that parity judged: no
shape, stride or address tells them apart. Each distinct set of compiled objects that may serve a
reduction is probed node by node where its sum is longest; every other case gets one launch.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kernelsmith import cases as forms
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.order.serving import served_by, serving_code, shifts
from kernelsmith.gate.subject import Subject, draw_seed
from kernelsmith.model import ArgSpec, Case, Reduction, Task
from kernelsmith.numerics.recipes_float import generator

LAUNCHES_MAX = 32
QUERIES_A_UNIT = 5
"""Verifying a tree takes about so many queries for each of its units. Where they would fill more
launches than LAUNCHES_MAX, some of the units are drawn, and the tree among them is found."""
UNITS_MAX = {"values": 1024, "squares": 128, "exps": 128, "weighted_exps": 48}
"""Most units of a sum, by kind; of longer ones so many are drawn too."""
GROUPS_EVERY_WAY = 4
"""Where more sets of objects than that serve a reduction, each is verified along one carrier."""
GROUPS_MAX = 24
"""And of so many none is verified further: those left are glanced at, and named in evidence."""
UNITS_MIN = 8
"""A case with lanes for fewer is probed by one launch of telling rows only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A reduction at one case. ``carrier`` holds the terms, ``lane_dim`` is the other dimension of
    it, along which independent queries lie. ``columns`` are the places along ``over`` that are
    probed, ascending; with ``carry`` there is one more unit, the last.

    ``spare`` is a place along ``over`` that is not probed, or -1: the largest of weighted
    exponentials lies there, which adds nothing; or an output is read there that has ``over``.
    ``big``, ``ground`` and ``held`` are then what shows a step of the sum: the largest input,
    what lies where nothing is to be added, and what arguments are held at instead of one."""

    reduction: Reduction
    case: Case
    carrier: str
    lane_dim: str
    columns: tuple[int, ...]
    carry: bool
    misalign_bytes: int = 0
    spare: int = -1
    big: float = 0.0
    ground: float = 0.0
    held: float = 1.0

    @property
    def units(self) -> int:
        """Terms of the sum whose tree is found."""
        return len(self.columns) + self.carry

    @property
    def lanes(self) -> int:
        """Queries of one launch."""
        return self.case.dim(self.lane_dim)

    @property
    def length(self) -> int:
        """Terms of the sum but for the carry."""
        return self.case.dim(self.reduction.over)

    @property
    def partly(self) -> bool:
        """Whether some terms were left out."""
        return len(self.columns) < self.length

    @property
    def terms(self) -> tuple[int, ...] | None:
        """Which terms of the sum the units are, where some were left out; a carry comes last."""
        if not self.partly:
            return None
        return (*self.columns, self.length) if self.carry else self.columns

    @property
    def read_aside(self) -> bool:
        """Whether the sum is seen in other elements of its row alone."""
        return self.spare >= 0 and self.reduction.terms == "squares"

    @property
    def output(self) -> str:
        """The output that the sum is read from."""
        return self.reduction.output

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Names the place; equal places of seed and candidate have equal trees."""
        return (self.reduction.name, self.case.id, self.carrier, self.misalign_bytes)

    @property
    def launches(self) -> int:
        """About how many launches verify a tree."""
        return math.ceil(QUERIES_A_UNIT * self.units / max(self.lanes, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What of a candidate is probed. ``whole``: node by node. ``glanced``: one launch.
    ``same_code``: cases that run the seed's own machine code with the seed's arguments.
    ``left``: objects that may serve a reduction and are probed by no place of ``whole``, as
    (reduction, kernel symbol)."""

    whole: tuple[Place, ...]
    glanced: tuple[Place, ...]
    same_code: int
    left: tuple[tuple[str, str], ...]


def choose(bench: Bench, seed: Subject, subject: Subject, secret: int) -> Chosen:
    """Chooses places for every declared reduction.

    Both subjects have plans and objects of the task's cases. Deterministic in them and the secret.
    """
    whole: list[Place] = []
    glanced: list[Place] = []
    left: set[tuple[str, str]] = set()
    same_code = 0
    for reduction in bench.task.reductions or ():
        cases: dict[str, Case] = {}
        for case in _cases(bench.task, reduction):
            code = serving_code(bench, subject, case, reduction)
            if code == serving_code(bench, seed, case, reduction):
                same_code += 1
            else:
                cases.setdefault(code, case)
        served: set[str] = set()
        probed: set[str] = set()
        found = groups(bench.task, subject, reduction, list(cases.values()), secret)
        for number, group in enumerate(found):
            best = _best(reduction, group.places)
            if len(found) > GROUPS_EVERY_WAY:
                best = sorted(best, key=_rank)[:1]
            if number >= GROUPS_MAX:
                best = []
            whole += best
            known = {place.case.id for place in best}
            rest = {one.case.id: one for one in group.places if one.case.id not in known}
            glanced += rest.values()
            served |= group.objects
            probed |= group.objects if best else set()
        left |= {(reduction.name, bench.objects[oid][0].symbol) for oid in served - probed}
    return Chosen(
        whole=tuple(whole), glanced=tuple(glanced), same_code=same_code, left=tuple(sorted(left))
    )


def shown(
    task: Task, subject: Subject, reductions: Sequence[Reduction], secret: int
) -> list[Place]:
    """A place for each distinct set of objects that may serve a reduction, where its sum is
    longest: what people are shown."""
    found = []
    for reduction in reductions:
        for group in groups(task, subject, reduction, list(_cases(task, reduction)), secret):
            found += sorted(_best(reduction, group.places), key=lambda place: place.launches)[:1]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Places that the same compiled objects serve."""

    objects: frozenset[str]
    places: list[Place]


def groups(
    task: Task, subject: Subject, reduction: Reduction, cases: Sequence[Case], secret: int
) -> list[Group]:
    """The places of cases by the objects that may have a part in the reduction there."""
    found: dict[tuple[frozenset[str], int], Group] = {}
    for case in cases:
        for shift in shifts(task, subject, case, reduction):
            objects = served_by(task, subject, case, reduction, shift)
            group = found.setdefault((objects, shift), Group(objects=objects, places=[]))
            for place in at(task, reduction, case, secret):
                group.places.append(replace(place, misalign_bytes=shift))
    return list(found.values())


def at(task: Task, reduction: Reduction, case: Case, secret: int) -> Iterator[Place]:
    """The places of one case: one for each argument that can carry the terms there."""
    tensors = {arg.name: arg for arg in task.call(case.call).args if arg.kind == "tensor"}
    for name in reduction.carriers:
        arg = tensors.get(name)
        if arg is None:
            continue
        spare = _spare(task, reduction, case, secret)
        yield Place(
            reduction=reduction,
            case=case,
            carrier=name,
            lane_dim=lane_dim(arg, reduction),
            columns=_columns(reduction, case, secret, spare, case.dim(lane_dim(arg, reduction))),
            spare=spare,
            carry=reduction.carry in tensors,
        )


def lane_dim(arg: ArgSpec, reduction: Reduction) -> str:
    """The dimension of a carrier along which independent queries lie."""
    return next(str(dim) for dim in arg.shape if dim != reduction.over)


def _cases(task: Task, reduction: Reduction) -> Iterator[Case]:
    """Declared cases that have something to sum, cheapest first."""
    found = [case for case in task.cases if case.call in reduction.calls]
    for case in sorted(found, key=lambda case: (forms.cost(task, case), case.id)):
        if case.dim(task.token_dim) > 0 and case.dim(reduction.over) > 1:
            yield case


def _spare(task: Task, reduction: Reduction, case: Case, secret: int) -> int:
    """The place along the sum that is left out, drawn; -1 where none need be."""
    outputs = task.call(case.call).outputs
    shape = next(one.shape for one in outputs if one.name == reduction.output)
    aside = reduction.terms == "squares" and reduction.over in shape
    length = case.dim(reduction.over)
    if length < 3 or not (aside or reduction.terms == "weighted_exps"):
        return -1
    return draw_seed(secret, "order spare", reduction.name, length) % length


def _columns(
    reduction: Reduction, case: Case, secret: int, spare: int, lanes: int
) -> tuple[int, ...]:
    """All places along the sum, or as many as are probed, drawn from the run's secret."""
    length = case.dim(reduction.over)
    most = min(UNITS_MAX[reduction.terms], lanes * LAUNCHES_MAX // QUERIES_A_UNIT)
    columns = [column for column in range(length) if column != spare]
    if len(columns) <= most:
        return tuple(columns)
    rng = generator(draw_seed(secret, "order columns", reduction.name, length))
    return tuple(sorted(int(one) for one in rng.permutation(columns)[: max(most, 2)]))


def _best(reduction: Reduction, places: list[Place]) -> list[Place]:
    """For each carrier the place with the most units, of several the one with the longest sum and
    then the smallest inputs; only sizes that the task wants verified."""
    best: dict[str, Place] = {}
    for place in places:
        wanted = not reduction.sizes or place.length in reduction.sizes
        if wanted and (place.units >= UNITS_MIN or not place.partly):
            held = best.get(place.carrier)
            if held is None or _rank(place) < _rank(held):
                best[place.carrier] = place
    return list(best.values())


def _rank(place: Place) -> tuple[int, int, int]:
    return (-place.units, -place.length, place.launches * place.lanes)
