"""What the history of a run says: genomes, gains, and settings that broke something."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelsmith.model import Task, candidate_id
from kernelsmith.ports import Judged
from kernelsmith.proposers.search.genome import Genome, Knob, from_text

_SOUND = ("ACCEPTED", "NOT_FASTER", "REGRESSES")
_UNTOLD = ("DUPLICATE", "UNJUDGED")  # no verdict: nothing is learned of the settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One known candidate: ``base`` is the id of the source its genome applies to."""

    id: str
    base: str
    genome: Genome
    parents: tuple[str, ...]
    status: str
    gain: float


Settings = frozenset[tuple[Knob, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a candidate has, and what of it one of its parents did not have."""

    base: str
    genome: Settings
    added: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The run so far, in order of judgement; the seed first, as accepted with gain 1.

    ``bases`` maps ids of sources that the search did not write (seed, agent, person) to them.
    ``banned`` holds settings that broke a candidate on their own, ``suspect`` how often a setting
    was among several new ones of a candidate that broke; ``children`` counts by id.
    """

    entries: tuple[Entry, ...]
    bases: dict[str, str]
    banned: frozenset[tuple[str, str, str]]
    suspect: dict[tuple[str, str, str], int] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()

    @property
    def best_by_base(self) -> list[Entry]:
        """The best accepted candidate of each base, the best of all first."""
        best: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.status == "ACCEPTED" and (
                entry.base not in best or entry.gain > best[entry.base].gain
            ):
                best[entry.base] = entry
        return sorted(best.values(), key=lambda entry: -entry.gain)

    def tried(self, base: str, settings: Genome) -> bool:
        """Whether a judged candidate of ``base`` was one of its parents plus ``settings``."""
        wanted = set(settings.items())
        return any(
            step.base == base and step.added <= wanted and wanted <= step.genome
            for step in self.steps
        )

    def has(self, base: str, genome: Genome) -> bool:
        """Whether this very genome was judged."""
        wanted = set(genome.items())
        return any(step.base == base and step.genome == wanted for step in self.steps)


def setting_key(knob: Knob, value: str) -> tuple[str, str, str]:
    """What is learned about a setting holds for all its buckets."""
    return (knob.site, knob.name, value)


def read_history(task: Task, history: Sequence[Judged]) -> Record:
    """Digests ``history``; unknown authors' accepted candidates become bases of their own."""
    seed = candidate_id(task.seed_source)
    entries = [
        Entry(id=seed, base=seed, genome={}, parents=(), status="ACCEPTED", gain=1.0),
    ]
    bases = {seed: task.seed_source}
    known = {seed: entries[0]}
    for judged in history:
        candidate = judged.candidate
        genome = from_text(candidate.changes) if candidate.author == "search" else None
        parents = [known[p] for p in candidate.parents if p in known]
        if genome is None:
            bases[candidate.id], base, genome = candidate.source, candidate.id, {}
        else:
            base = parents[0].base if parents else seed
        entry = Entry(
            id=candidate.id,
            base=base,
            genome=genome,
            parents=candidate.parents,
            status=judged.status,
            gain=judged.gain_vs_seed or 0.0,
        )
        known[candidate.id] = entry
        entries.append(entry)
    banned, suspect = _blame(entries)
    return Record(
        entries=tuple(entries),
        bases=bases,
        banned=banned,
        suspect=suspect,
        children=Counter(parent for entry in entries for parent in entry.parents),
        steps=tuple(step for entry in entries[1:] for step in _steps(entry, known)),
    )


def _steps(entry: Entry, known: dict[str, Entry]) -> list[Step]:
    items = frozenset(entry.genome.items())
    parents = [known[p] for p in entry.parents if p in known]
    return [
        Step(base=entry.base, genome=items, added=items - frozenset(parent.genome.items()))
        for parent in parents
    ]


def _blame(
    entries: list[Entry],
) -> tuple[frozenset[tuple[str, str, str]], dict[tuple[str, str, str], int]]:
    sound = {setting_key(k, v) for e in entries if e.status in _SOUND for k, v in e.genome.items()}
    banned: set[tuple[str, str, str]] = set()
    suspect: dict[tuple[str, str, str], int] = {}
    for entry in entries:
        if entry.status in _SOUND or entry.status in _UNTOLD:
            continue
        keys = {setting_key(k, v) for k, v in entry.genome.items()} - sound
        if len(keys) == 1:
            banned |= keys
        for one in keys:
            suspect[one] = suspect.get(one, 0) + 1
    return frozenset(banned), suspect
