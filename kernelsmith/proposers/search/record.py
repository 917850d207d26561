"""What the history of a run says: genomes, gains, and settings that broke something."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelsmith.model import Task
from kernelsmith.ports import Judged
from kernelsmith.proposers.search.genome import Genome, Knob, from_text
from kernelsmith.proposers.search.identity import candidate_id

_SOUND = ("ACCEPTED", "NOT_FASTER", "REGRESSES")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One known candidate: ``base`` is the id of the source its genome applies to."""

    id: str
    base: str
    genome: Genome
    parents: tuple[str, ...]
    status: str
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The run so far, in order of judgement; the seed first, as accepted with gain 1.

    ``bases`` maps ids of sources that the search did not write (seed, agent, person) to them.
    ``banned`` holds settings that broke a candidate on their own, ``suspect`` how often a setting
    was among several new ones of a candidate that broke.
    """

    entries: tuple[Entry, ...]
    bases: dict[str, str]
    banned: frozenset[tuple[str, str, str]]
    suspect: dict[tuple[str, str, str], int] = field(default_factory=dict)

    @property
    def best(self) -> Entry:
        accepted = [e for e in self.entries if e.status == "ACCEPTED"]
        return max(accepted, key=lambda e: e.gain)

    def children(self, id_: str) -> int:
        return sum(id_ in e.parents for e in self.entries)

    def tried(self, base: str, settings: Genome) -> bool:
        """Whether a judged candidate of ``base`` was one of its parents plus ``settings``."""
        wanted = settings.items()
        by_id = {e.id: e for e in self.entries}
        for entry in self.entries[1:]:
            if entry.base == base and wanted <= entry.genome.items():
                rest = entry.genome.items() - wanted
                parents = [by_id[p] for p in entry.parents if p in by_id]
                if any(rest <= parent.genome.items() for parent in parents):
                    return True
        return False


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
    banned, suspect = _blame(entries, known)
    return Record(entries=tuple(entries), bases=bases, banned=banned, suspect=suspect)


def _blame(
    entries: list[Entry], known: dict[str, Entry]
) -> tuple[frozenset[tuple[str, str, str]], dict[tuple[str, str, str], int]]:
    sound = {setting_key(k, v) for e in entries if e.status in _SOUND for k, v in e.genome.items()}
    banned: set[tuple[str, str, str]] = set()
    suspect: dict[tuple[str, str, str], int] = {}
    for entry in entries:
        if entry.status in _SOUND:
            continue
        keys = {setting_key(k, v) for k, v in entry.genome.items()} - sound
        if len(keys) == 1:
            banned |= keys
        for one in keys:
            suspect[one] = suspect.get(one, 0) + 1
    return frozenset(banned), suspect
