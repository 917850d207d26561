"""What a gate keeps from one candidate to the next. A night's memory does not grow with its
candidates: what only the last one needed goes when it is judged."""

from collections.abc import Iterable

from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Subject

ACCEPTED_KEPT = 4
"""Accepted candidates that stay ready, the newest; an older one is traced again if it is asked for
(at the end of a run, where the newest does not hold)."""
OBJECTS_KEPT_BYTES = 8 << 20
"""Machine code of candidates that are gone, the newest: proposals share kernels with their like."""
CLEAN_KEPT = 4096
PLANS_KEPT = 512
"""The seed's plans of cases that are not declared, the newest: compositions come again with each
candidate, drawn shapes never."""


def keep(
    bench: Bench, reference: Reference, known: dict[str, Subject], looked_at: Iterable[Subject]
) -> None:
    """Drops what neither the seed, nor the newest of the accepted, nor the looked at need.

    Args:
        known: the seed and accepted candidates by id, oldest first; the oldest are dropped.
    """
    while len(known) > ACCEPTED_KEPT + 1:
        del known[next(name for name in known if name != reference.seed.candidate.id)]
    declared = {case.id for case in bench.task.cases}
    others = [name for name in reference.seed.plans if name not in declared]
    for name in others[: max(0, len(others) - PLANS_KEPT)]:
        del reference.seed.plans[name]
        reference.seed.cases.pop(name, None)
    kept = [reference.seed, *known.values(), *looked_at]
    bench.said.keep({one.ttir for subject in kept for one in subject.classes.values()})
    _keep_objects(bench, {name for subject in kept for name in subject.object_of.values()})
    while len(bench.clean) > CLEAN_KEPT:
        del bench.clean[next(iter(bench.clean))]


def _keep_objects(bench: Bench, needed: set[str]) -> None:
    free = [name for name in bench.objects if name not in needed]
    nbytes = sum(len(bench.objects[name][1]) for name in free)
    for name in free:
        if nbytes <= OBJECTS_KEPT_BYTES:
            return
        nbytes -= len(bench.objects.pop(name)[1])
