"""order: every declared sum is made in the seed's order."""

from collections.abc import Iterable, Sequence

from kernelsmith.gate.bench import Bench
from kernelsmith.gate.order import finding, glance, onesided, told
from kernelsmith.gate.order.finding import Search
from kernelsmith.gate.order.places import Place, choose
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.numerics import order


def check(bench: Bench, reference: Reference, subject: Subject) -> Outcome:
    """Probes every declared reduction through the plans that parity judged.

    At each chosen place the seed's tree is verified on the candidate, and every output byte of
    those launches must be the seed's; only where the tree does not hold is the candidate's own
    searched, to say where the two part. What cannot be seen on the seed is named, and not passed.
    """
    chosen = choose(bench, reference.seed, subject, reference.secret)
    verified: list[Search] = []
    whole, hidden = tune(bench, reference, chosen.whole)
    for wave in waves(whole):
        seen = seed_trees(bench, reference, wave)
        dark = {place: one for place, one in seen.items() if not isinstance(one, order.Revealed)}
        hidden |= dark
        known = {place: one for place, one in seen.items() if isinstance(one, order.Revealed)}
        found = _hold(bench, reference, subject, known, verified)
        if found.status is not None:
            return found
    found = glance.compare(bench, reference, subject, [*hidden, *chosen.glanced])
    if found.status is not None:
        return found
    return told.passed(chosen, verified, hidden)


def tune(
    bench: Bench, reference: Reference, places: Sequence[Place]
) -> tuple[list[Place], dict[Place, order.Outcome]]:
    """The places with inputs that show a step of their sums, and those without."""
    whole: list[Place] = []
    hidden: dict[Place, order.Outcome] = {}
    for place in places:
        tuned = onesided.tuned(bench, reference, place)
        if tuned is None:
            hidden[place] = order.Unreachable(
                sentence="under no input that was tried does the last bit of the sum show"
            )
        else:
            whole.append(tuned)
    return whole, hidden


def waves(places: Sequence[Place]) -> list[list[Place]]:
    """The cheapest place of each reduction first, then the rest: most that differ differ there."""
    cheapest: dict[str, Place] = {}
    for place in places:
        held = cheapest.get(place.reduction.name)
        if held is None or place.launches < held.launches:
            cheapest[place.reduction.name] = place
    first = list(cheapest.values())
    return [wave for wave in (first, [each for each in places if each not in first]) if wave]


def seed_trees(
    bench: Bench, reference: Reference, places: Iterable[Place]
) -> dict[Place, order.Outcome]:
    """What is known of the seed at each place; what is not known yet is found.

    A place where the seed sums in no tree, or where a run of it fails, is a place of which
    nothing can be said: never a pass.
    """
    wanted = list(places)
    found = reference.trees.found
    todo = [place for place in wanted if place.key not in found]
    searches = [finding.search(bench.task, place, reference.secret, None) for place in todo]
    failed = finding.run(bench, reference.seed, searches, reference.secret)
    for one in searches:
        outcome = one.outcome
        if outcome is None:
            outcome = order.Unexplained(sentence=f"the seed fails under probing: {failed.message}")
        elif one.uneven:
            outcome = order.Unexplained(sentence="elements of one sum differ in the seed")
        found[one.place.key] = outcome
    return {place: found[place.key] for place in wanted}


def _hold(
    bench: Bench,
    reference: Reference,
    subject: Subject,
    known: dict[Place, order.Revealed],
    verified: list[Search],
) -> Outcome:
    """Holds the candidate to the seed's trees at these places."""
    searches = [
        finding.search(bench.task, place, reference.secret, seed.tree)
        for place, seed in known.items()
    ]
    found = finding.run(bench, subject, searches, reference.secret)
    if found.status is not None:
        return found
    for one in searches:
        found = told.differing(one, known[one.place])
        if found.status is not None:
            return found
    for one in searches:
        found = glance.hold(bench, reference, one)
        if found.status is not None:
            return found
    verified += searches
    return Outcome()
