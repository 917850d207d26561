"""Winners to merge: the seed's program with other launch options, and the played winners."""

from kernelsmith.catalog import load_task
from kernelsmith.library.merge import Winner
from kernelsmith.model import Task, candidate_id
from kernelsmith.rehearsal import variants


def task(name: str) -> Task:
    return load_task(name, "cpu")


def played(name: str) -> str:
    return variants.winner(name)


def edited(source: str, old: str, new: str) -> str:
    assert old in source
    return source.replace(old, new)


def winner(of: Task, source: str, default: float = 1.0, **gains: float) -> Winner:
    """``gains``: of the timed cases of a call form; the others gain ``default``."""
    timed = [case for case in of.cases if case.weight > 0]
    return Winner(
        id=candidate_id(source),
        source=source,
        gains={case.id: gains.get(case.call, default) for case in timed},
        overall=default,
    )
