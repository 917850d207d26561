"""A candidate of the search as settings of knobs, and the text that records them.

The text is what ``Candidate.changes`` holds, so a resumed run reads genomes back from history::

    _matmul(m_size,n_size,k_size) BLOCK_M 128→16 for m_size≤16
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_TEXT = re.compile(r"(\S+) (\S+) (\S+)→(\S+)(?: for (\w+)≤(\d+))?\Z")


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """Calls whose host integer ``dim`` is at most ``bound``."""

    dim: str
    bound: int


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing to set: ``name`` is a constexpr of the launch, a launch option or a form of the
    kernel; ``site`` the group of launches; ``bucket`` None for all calls."""

    site: str
    name: str
    bucket: Bucket | None = None

    def order(self) -> tuple[str, str, int, str]:
        bound = self.bucket.bound if self.bucket else 1 << 62
        return (self.site, self.bucket.dim if self.bucket else "", bound, self.name)


Genome = Mapping[Knob, str]


def merged(*genomes: Genome) -> dict[Knob, str]:
    """Settings of all, later ones first in force, in a canonical order."""
    union: dict[Knob, str] = {}
    for genome in genomes:
        union.update(genome)
    return {knob: union[knob] for knob in sorted(union, key=Knob.order)}


def key(genome: Genome) -> tuple[tuple[Knob, str], ...]:
    """A genome as a hashable value."""
    return tuple((knob, genome[knob]) for knob in sorted(genome, key=Knob.order))


def simplified(genome: Genome, default: Mapping[tuple[str, str], str]) -> dict[Knob, str]:
    """Without settings that say what holds anyway."""
    kept: dict[Knob, str] = {}
    for knob, value in merged(genome).items():
        usual = default.get((knob.site, knob.name), "off")
        if knob.bucket is not None:
            usual = genome.get(Knob(knob.site, knob.name), usual)
        if value != usual:
            kept[knob] = value
    return kept


def to_text(genome: Genome, default: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """One line a setting; ``default`` gives the seed's value by (site, knob name)."""
    lines = []
    for knob in sorted(genome, key=Knob.order):
        old = default.get((knob.site, knob.name), "off")
        line = f"{knob.site} {knob.name} {old}→{genome[knob]}"
        if knob.bucket:
            line += f" for {knob.bucket.dim}≤{knob.bucket.bound}"
        lines.append(line)
    return tuple(lines)


def from_text(lines: Iterable[str]) -> dict[Knob, str] | None:
    """The genome that ``to_text`` wrote; None if a line is not of its making."""
    genome: dict[Knob, str] = {}
    for line in lines:
        match = _TEXT.match(line)
        if match is None:
            return None
        site, name, _, value, dim, bound = match.groups()
        bucket = Bucket(dim, int(bound)) if dim else None
        genome[Knob(site, name, bucket)] = value
    return merged(genome)
