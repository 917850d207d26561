"""Several winners as one module: each entry takes, by shape, the winner that was fastest there.

Sources and gains in, a source out; nothing is read, run or timed here. Every winner has the
seed's bits on every shape, so any dispatch between them has: which is fastest where is the
record's, and whether the whole is faster is for the gate to say.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.errors import InputError
from kernelsmith.library import merge_choice, merge_parts, merge_text
from kernelsmith.library.merge_choice import Point, Split, Tree
from kernelsmith.library.merge_parts import Parts
from kernelsmith.model import Case, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """An accepted candidate. ``gains``: timed case -> gain over the seed; ``overall``: of all."""

    id: str
    source: str
    gains: Mapping[str, float]
    overall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """``same_as``: the one winner that this is the program of (``source`` is then its own);
    ``used``: winners whose code is in it; ``fastest``: (timed case, winner whose code it takes)."""

    source: str
    used: tuple[str, ...]
    same_as: str | None
    fastest: tuple[tuple[str, str], ...]


def merge(task: Task, winners: Sequence[Winner], prefer: str | None = None) -> Merge:
    """One module from two or more winners of a task.

    Args:
        prefer: a winner's id, by default of the one that gains most overall. It takes each case
            where no other is faster by the task's ``min_gain`` (less than that is noise, and no
            reason for a dispatch), and the entries that no case times.

    Raises:
        InputError: no case was timed for all of them, or one lacks an entry.
    """
    if prefer is None and winners:
        prefer = max(winners, key=lambda each: each.overall).id
    timed = [
        case
        for case in task.cases
        if case.weight > 0 and all(case.id in each.gains for each in winners)
    ]
    if not timed:
        raise InputError(
            "no case of the task was timed for all of them",
            hint="judge the older ones again: `kernelsmith run TASK --from ID`",
        )
    read = {each.id: merge_parts.read(each.source) for each in winners}
    for entry in task.entries:
        for name, parts in read.items():
            if entry not in parts.parts:
                raise InputError(f"candidate {name} has no `{entry}`")
    trees = {entry: _tree(task, entry, winners, read, timed, prefer) for entry in task.entries}
    by_id = {each.id: each for each in winners}
    for name, parts in read.items():
        if all(_is(trees[entry], read, parts, entry) for entry in task.entries):
            return Merge(source=by_id[name].source, used=(name,), same_as=name, fastest=())
    taken = {leaf for found in trees.values() for leaf in merge_choice.leaves(found)}
    used = tuple(each.id for each in winners if each.id in taken)
    return Merge(
        source=merge_text.source(task, {name: read[name] for name in used}, trees),
        used=used,
        same_as=None,
        fastest=tuple(
            (
                case.id,
                _holder(read, task.call(case.call).entry, _fastest([case], winners, prefer, task)),
            )
            for case in timed
        ),
    )


def _holder(read: Mapping[str, Parts], entry: str, winner: str) -> str:
    """The first winner whose entry is the same program as this one's: its code stands for all."""
    program = read[winner].parts[entry].program
    return next(name for name, parts in read.items() if parts.parts[entry].program == program)


def _is(found: Tree, read: Mapping[str, Parts], parts: Parts, entry: str) -> bool:
    """Whether an entry is one winner's alone, and that the same program as in ``parts``."""
    if isinstance(found, Split):
        return False
    return read[found].parts[entry].program == parts.parts[entry].program


def _tree(
    task: Task,
    entry: str,
    winners: Sequence[Winner],
    read: Mapping[str, Parts],
    timed: Sequence[Case],
    prefer: str | None,
) -> Tree:
    """Leaves are winners; of those whose entry is the same program, the first."""
    node = merge_parts.function(read[winners[0].id], entry)
    parameters = [each.arg for each in merge_parts.parameters(node)]
    reads = merge_choice.seen(task, entry, parameters)
    groups: dict[tuple[tuple[str, int | bool | str], ...], list[Case]] = {}
    for case in timed:
        if task.call(case.call).entry == entry:
            key = merge_choice.sight(task, case, parameters, reads)
            groups.setdefault(tuple(key.items()), []).append(case)
    if not groups:
        best = max(winners, key=lambda each: (each.id == prefer, each.overall)).id
        return _holder(read, entry, best)
    points = [
        Point(sees=dict(key), winner=_holder(read, entry, _fastest(own, winners, prefer, task)))
        for key, own in groups.items()
    ]
    return merge_choice.tree(points, reads.get(task.token_dim, ""))


def _fastest(
    cases: Sequence[Case], winners: Sequence[Winner], prefer: str | None, task: Task
) -> str:
    """The winner with the greatest weighted gain on these cases; of equal ones the first."""
    weight = sum(case.weight for case in cases)
    logs = {
        each.id: sum(case.weight * math.log(each.gains[case.id]) for case in cases) / weight
        for each in winners
    }
    best = max(logs, key=lambda name: logs[name])
    if prefer is not None and logs[prefer] + math.log1p(task.min_gain) >= logs[best]:
        return prefer
    return best
