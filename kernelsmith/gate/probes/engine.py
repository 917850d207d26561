"""The engine of planted bugs: one-spot mutants of any source within the language of candidates.

Every operator looks at one function of the module and names spots: a piece of the source and what
stands there instead. A mutant is the source with one spot changed, nothing else. Whether it can be
told from its parent is not known beforehand: a change may change nothing.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from kernelsmith.gate import policy
from kernelsmith.gate.probes import spots_host, spots_numeric, spots_order, spots_place
from kernelsmith.gate.probes.spot import KINDS, Spot, functions, line_starts, span

OPERATORS = (
    spots_order.order,
    spots_place.mask,
    spots_numeric.numeric,
    spots_numeric.constants,
    spots_host.constants,
    spots_place.index,
    spots_order.dtype,
    spots_place.boundary,
    spots_host.grid,
    spots_host.host,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A mutant: ``line`` of its parent holds ``old`` where the mutant has ``new``."""

    kind: str
    operator: str
    line: int
    old: str
    new: str
    source: str

    @property
    def name(self) -> str:
        return f"line {self.line}: {self.old} → {self.new}"


def planted(source: str, operators: Collection[str] = ()) -> tuple[Planted, ...]:
    """Every mutant of a source, no two alike, in order of KINDS, then of the source; only of these
    operators, if any are named.

    Not all are within the language of candidates: see :func:`within`.
    """
    data = source.encode()
    starts = line_starts(data)
    seen = {source}
    found = []
    for spot in sorted(_spots(source), key=lambda spot: KINDS.index(spot.kind)):
        if operators and spot.operator not in operators:
            continue
        begin, end = span(starts, spot.node)
        changed = (data[:begin] + spot.new.encode() + data[end:]).decode()
        if changed in seen:
            continue
        seen.add(changed)
        old = " ".join(data[begin:end].decode().split())
        found.append(
            Planted(
                kind=spot.kind,
                operator=spot.operator,
                line=spot.node.lineno,
                old=old,
                new=spot.new,
                source=changed,
            )
        )
    return tuple(found)


def within(mutant: Planted, entries: Sequence[str]) -> bool:
    """Whether the policy lets a mutant through, as it does its parent."""
    return not policy.check(mutant.source, tuple(entries))


def _spots(source: str) -> Iterator[Spot]:
    for function in functions(source):
        for operator in OPERATORS:
            yield from operator(function)


def draw(
    pool: Sequence[Planted], entries: Sequence[str], seed: str, per_kind: int
) -> tuple[Planted, ...]:
    """``per_kind`` mutants of each kind within the language, spread over its operators: each has
    its turn before one has a second. Deterministic in the arguments."""
    chosen: list[Planted] = []
    for kind in KINDS:
        turns = random.Random(f"{seed} {kind}")
        by_operator: dict[str, list[Planted]] = {}
        for each in pool:
            if each.kind == kind:
                by_operator.setdefault(each.operator, []).append(each)
        lists = [by_operator[name] for name in sorted(by_operator)]
        for own_list in lists:
            turns.shuffle(own_list)
        turns.shuffle(lists)
        own = 0
        while lists and own < per_kind:
            found = lists[0].pop()
            lists = [*lists[1:], lists[0]] if lists[0] else lists[1:]
            if within(found, entries):
                chosen.append(found)
                own += 1
    return tuple(chosen)
