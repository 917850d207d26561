"""The trees of one source beside the seed's or another source's, for people."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelsmith.errors import InputError, TaskError
from kernelsmith.gate import policy_check
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.order import finding, onesided, told
from kernelsmith.gate.order.places import Place, shown
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.model import Candidate, Reduction, Task
from kernelsmith.numerics import order


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """A reduction at a place: what was found of a source (``here``) and of what it is compared
    with (``there``). ``equal`` is None where nothing can be said; ``sentence`` says it."""

    place: Place
    here: order.Outcome
    there: order.Outcome
    equal: bool | None
    sentence: str


def sums(
    bench: Bench,
    seed: Subject,
    candidate: Candidate,
    against: Candidate | None,
    names: Sequence[str],
    secret: int,
) -> list[Sum]:
    """Finds the tree of every declared reduction in a source and in the seed, or in another source.

    Args:
        names: only these reductions; () for all.

    Raises:
        InputError: a source is outside the language, or does not trace, compile or run.
        TaskError: the task declares no reduction, or none of that name.
    """
    wanted = named(bench.task, names)
    reference = Reference(bench, seed, secret)
    reference.prepare(bench.task.cases)
    here = prepared(bench, candidate)
    there = seed if against is None else prepared(bench, against)
    places = [
        onesided.tuned(bench, reference, place) or place
        for place in shown(bench.task, here, wanted, secret)
    ]
    found = [found_in(bench, subject, places, secret) for subject in (here, there)]
    return [_compared(place, one, other) for place, one, other in zip(places, *found, strict=True)]


def named(task: Task, names: Sequence[str]) -> list[Reduction]:
    """The declared reductions of these names; all if none is named.

    Raises:
        TaskError: there are none, or none of such a name.
    """
    if not task.reductions:
        said = "says that nothing is summed" if task.reductions == () else "declares no reductions"
        raise TaskError(
            f"task {task.name} {said}: there is no order to find",
            hint="declare each sum as [[reductions]] in the task file, see tasks/linear.toml",
        )
    known = {one.name: one for one in task.reductions}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TaskError(
            f"task {task.name} declares no reduction {unknown[0]!r}",
            hint="reductions: " + ", ".join(known),
        )
    return [one for name, one in known.items() if name in names or not names]


def prepared(bench: Bench, candidate: Candidate) -> Subject:
    """A source with plans and objects of all cases.

    Raises:
        InputError: it is outside the language, or does not trace or compile.
    """
    subject = Subject(candidate=candidate, role="launcher")
    found = policy_check.check(bench.task, candidate)
    if found.status is None:
        found = bench.prepare(subject, bench.task.cases)
    return _required(candidate, found, subject)


def _required(candidate: Candidate, found: Outcome, subject: Subject) -> Subject:
    if found.status is not None:
        raise InputError(
            f"{candidate.note or candidate.id} cannot be probed: {found.status}: {found.message}",
            hint=f"`kernelsmith gate FILE --task {candidate.task}` says more",
        )
    return subject


def found_in(
    bench: Bench, subject: Subject, places: Sequence[Place], secret: int
) -> list[order.Outcome]:
    """What probing one subject finds at each place.

    Raises:
        InputError: a run of it fails.
    """
    searches = [finding.search(bench.task, place, secret, None) for place in places]
    _required(subject.candidate, finding.run(bench, subject, searches, secret), subject)
    outcomes = []
    for one in searches:
        assert one.outcome is not None
        uneven = order.Unexplained(sentence="elements that hold the same sum differ")
        outcomes.append(uneven if one.uneven else one.outcome)
    return outcomes


def _compared(place: Place, here: order.Outcome, there: order.Outcome) -> Sum:
    equal: bool | None = None
    sentence = there.sentence
    if isinstance(there, order.Revealed):
        found = told.compared(place, here, there)
        equal, sentence = found.equal, found.sentence
    return Sum(place=place, here=here, there=there, equal=equal, sentence=sentence)
