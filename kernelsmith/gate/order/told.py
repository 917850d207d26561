"""What the order check says: the sentence of a difference, and the evidence of what was seen."""

from collections.abc import Mapping, Sequence
from typing import Any

from kernelsmith.gate.order.finding import Search
from kernelsmith.gate.order.places import Chosen, Place
from kernelsmith.gate.subject import Outcome
from kernelsmith.numerics import order

TREE_CHARACTERS = 400
"""Of a tree's text so much is kept as evidence; ``kernelsmith order`` prints all of it."""


def differing(one: Search, seed: order.Revealed) -> Outcome:
    """ORDER_DIFFERS if what a search found on a candidate is not the seed's tree."""
    place, found = one.place, one.outcome
    assert found is not None
    parted = compared(place, found, seed)
    if parted.equal:
        return Outcome()
    evidence: dict[str, Any] = {
        **where(place),
        "seed": about(place, seed),
        "candidate": about(place, found),
    }
    return Outcome(
        status="ORDER_DIFFERS",
        message=f"{place.reduction.name} in case {place.case.id}, terms in {place.carrier}"
        f"{partly(place)}: {parted.sentence}",
        evidence=evidence,
    )


def compared(place: Place, found: order.Outcome, seed: order.Revealed) -> order.Comparison:
    """Whether what was found is the seed's tree, and the sentence that says so or where not."""
    if isinstance(found, order.Revealed):
        return order.compare(found, seed, place.terms)
    return order.Comparison(
        equal=False, sentence=f"no summation tree, where the seed has one: {found.sentence}"
    )


def passed(
    chosen: Chosen, verified: Sequence[Search], hidden: Mapping[Place, order.Outcome]
) -> Outcome:
    """The outcome of a candidate that was not told from the seed."""
    trees: dict[str, dict[str, Any]] = {}
    for one in verified:
        assert isinstance(one.outcome, order.Revealed)
        seen = trees.setdefault(
            f"{one.place.reduction.name} ({one.place.case.dtype})",
            {"trees": [], "places": 0, "queries": 0},
        )
        words = order.describe(one.outcome.tree, one.place.terms)
        seen["trees"] += [] if words in seen["trees"] else [words]
        seen["places"] += 1
        seen["queries"] += one.queries
    unreachable = {name_of(place): found.sentence for place, found in hidden.items()}
    unchecked = tuple(dict.fromkeys(f"order of {name}" for name in unreachable))
    evidence = {
        "verified": trees,
        "unreachable": unreachable,
        "glanced_cases": len(chosen.glanced),
        "cases_of_seed_code": chosen.same_code,
        "not_verified_kernels": [" of ".join(reversed(pair)) for pair in chosen.left],
    }
    return Outcome(evidence=evidence, unchecked=unchecked, made=bool(verified or chosen.same_code))


def name_of(place: Place) -> str:
    """A reduction in a dtype, for people."""
    return f"{place.reduction.name} ({place.case.dtype})"


def where(place: Place) -> dict[str, Any]:
    """Where a reduction was probed, as evidence."""
    return {
        "reduction": place.reduction.name,
        "case": place.case.id,
        "carrier": place.carrier,
        "units": place.units,
    }


def about(place: Place, found: order.Outcome) -> dict[str, Any]:
    """What probing found, as evidence."""
    if not isinstance(found, order.Revealed):
        return {"tree": None, "reason": found.sentence}
    text = str(found.tree)
    return {
        "tree": text if len(text) <= TREE_CHARACTERS else f"{text[:TREE_CHARACTERS]} …",
        "shape": order.describe(found.tree, place.terms),
        "arithmetic": found.arithmetic,
        "digest": found.tree.digest,
    }


def partly(place: Place) -> str:
    """Says which terms a tree is about, where it is not about all of them."""
    words = f" ({len(place.columns)} of {place.length} terms, drawn)" if place.partly else ""
    carry = f", unit {place.units - 1} is {place.reduction.carry}" if place.carry else ""
    return words + carry
