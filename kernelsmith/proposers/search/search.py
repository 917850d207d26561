"""The proposer: opening first, then exploration, never the same program twice."""

import random
from collections.abc import Iterator, Mapping, Sequence

from kernelsmith.model import Candidate, Task, candidate_id
from kernelsmith.ports import Judged
from kernelsmith.proposers.search import explore, opening
from kernelsmith.proposers.search.genome import Genome, merged, simplified, to_text
from kernelsmith.proposers.search.identity import normalised_hash
from kernelsmith.proposers.search.program import Program, read
from kernelsmith.proposers.search.record import Entry, Record, read_history, setting_key
from kernelsmith.proposers.search.render import render
from kernelsmith.proposers.search.space import Site, sites

_EXPLORATIONS = 300

Proposal = tuple[str, tuple[Entry, ...], Genome]


class Search:
    """Rewrites without a model.

    Pure: what is proposed depends on the seed, the task and the history alone; what is kept
    between calls only saves work.
    """

    name = "search"

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._hashes: dict[str, str] = {}
        self._read: dict[str, tuple[Program, tuple[Site, ...]] | None] = {}

    def choose(self, histories: Mapping[str, Sequence[Judged]], wait_s: float) -> str | None:
        """The first that is offered; it never waits."""
        return next(iter(histories), None)

    def standing(self) -> str:
        """Nothing is spent and nothing is under way between two proposals."""
        return ""

    def close(self, histories: Mapping[str, Sequence[Judged]] | None = None) -> None:
        """Nothing is held."""

    def propose(self, task: Task, history: Sequence[Judged]) -> Candidate | None:
        """The next candidate, or None when nothing new comes up.

        Args:
            task: what to rewrite; only its source, names, shapes and device are used.
            history: all judged candidates of this run and task, oldest first.
        """
        record = read_history(task, history)
        seen = {self._hash(task.seed_source)}
        seen |= {self._hash(judged.candidate.source) for judged in history}
        for best in record.best_by_base:
            candidate = self._of_base(task, record, best, seen)
            if candidate is not None:
                return candidate
        return None

    def _of_base(self, task: Task, record: Record, best: Entry, seen: set[str]) -> Candidate | None:
        """A new candidate of the source that ``best`` is a rewrite of."""
        base = best.base
        found = self._sites(task, record.bases[base])
        if found is None:
            return None
        program, all_sites = found
        default = {(s.name, k): v for s in all_sites for k, v in s.default.items()}
        for note, parents, raw in self._proposals(task, record, best, all_sites):
            genome = simplified(raw, default)
            if record.has(base, genome):
                continue
            source = render(program, genome, task.entries)
            if source is None or self._hash(source) in seen:
                continue
            return Candidate(
                id=candidate_id(source),
                task=task.name,
                source=source,
                parents=tuple(p.id for p in parents),
                author=self.name,
                changes=to_text(genome, default),
                note=note,
            )
        return None

    def _proposals(
        self, task: Task, record: Record, best: Entry, all_sites: tuple[Site, ...]
    ) -> Iterator[Proposal]:
        base = best.base
        counts = _row_counts(task)
        for note, settings in opening.items(all_sites, counts, task.device, task.entries):
            keys = {setting_key(k, v) for k, v in settings.items()}
            if not record.tried(base, settings) and not keys & record.banned:
                yield f"opening, {note}", (best,), merged(best.genome, settings)
        rng = random.Random(f"{self._seed}:{task.name}:{len(record.entries)}")
        for _ in range(_EXPLORATIONS if all_sites else 0):
            yield explore.child(record, all_sites, base, task.device, rng)

    def _hash(self, source: str) -> str:
        id_ = candidate_id(source)
        if id_ not in self._hashes:
            self._hashes[id_] = normalised_hash(source)
        return self._hashes[id_]

    def _sites(self, task: Task, source: str) -> tuple[Program, tuple[Site, ...]] | None:
        id_ = candidate_id(source)
        if id_ not in self._read:
            program = read(source, _token_arguments(task))
            self._read[id_] = None if program is None else (program, sites(program))
        return self._read[id_]


def _token_arguments(task: Task) -> frozenset[str]:
    """Entry arguments whose first dimension is the task's token dimension."""
    return frozenset(
        argument.name
        for call in task.calls
        for argument in call.args
        if argument.kind == "tensor" and argument.shape and argument.shape[0] == task.token_dim
    )


def _row_counts(task: Task) -> opening.RowCounts:
    """For a site, the row counts of the timed cases that reach it, ascending."""
    counts: dict[str, set[int]] = {call.entry: set() for call in task.calls}
    for case in task.cases:
        dims = dict(case.dims)
        if case.weight > 0 and task.token_dim in dims:
            counts[task.call(case.call).entry].add(dims[task.token_dim])
    everything = {number for numbers in counts.values() for number in numbers}

    def of(site: Site) -> tuple[int, ...]:
        found = [counts.get(function, everything) for function in site.functions]
        return tuple(sorted(set().union(*found)))

    return of
