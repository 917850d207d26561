"""Launches of numbers that tell one order from another, compared with the seed's byte by byte.

Where a tree is verified node by node, this holds every other output element to the seed as well;
where it is not, one launch of random rows is all that a place gets.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelsmith.errors import TaskError
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.order import finding, laying
from kernelsmith.gate.order.finding import Search
from kernelsmith.gate.order.places import Place
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject, draw_seed
from kernelsmith.numerics.recipes_float import generator

Float64s = npt.NDArray[np.float64]
PAIRS = 3


def compare(
    bench: Bench, reference: Reference, subject: Subject, places: Sequence[Place]
) -> Outcome:
    """One launch at each place; the first whose bytes differ is the outcome."""
    launches = []
    for place in places:
        rows = telling_rows(place, reference.secret)
        launches += list(laying.lay(bench.task, place, rows, reference.secret, -1))
    done = finding.execute(bench, subject, launches)
    if isinstance(done, Outcome):
        return done
    seed = seed_digests(bench, reference, launches)
    for place, execution, expected in zip(places, done, seed, strict=True):
        if finding.digest(bench.task, place.case, execution) != expected:
            return _other(place, "numbers that tell one order from another")
    return Outcome()


def hold(bench: Bench, reference: Reference, one: Search) -> Outcome:
    """Every output byte of a search's launches is the seed's."""
    expected = seed_digests(bench, reference, one.laid)
    if list(one.digests) == expected and not one.uneven:
        return Outcome()
    return _other(one.place, "probes")


def seed_digests(
    bench: Bench, reference: Reference, launches: Sequence[laying.Laid]
) -> list[bytes]:
    """Hashes of what the seed gives in these launches, run once each.

    Raises:
        TaskError: the seed fails in one.
    """
    known = reference.trees.digests
    names = [_name(laid) for laid in launches]
    todo = {name: laid for name, laid in zip(names, launches, strict=True) if name not in known}
    done = finding.execute(bench, reference.seed, list(todo.values()))
    if isinstance(done, Outcome):
        raise TaskError(f"the seed of task {bench.task.name} fails under probing: {done.message}")
    for name, laid, execution in zip(todo, todo.values(), done, strict=True):
        known[name] = finding.digest(bench.task, laid.ask.case, execution)
    return [known[name] for name in names]


def telling_rows(place: Place, secret: int) -> Float64s:
    """One random row for each lane, of the kind that the terms of the place are.

    Signed: a few pairs of a large number and its negative among ones of either sign, so that the
    sum is what was lost on the way. Others: magnitudes over many powers of two.
    """
    rows: Float64s
    rng = generator(draw_seed(secret, "order glance", *place.key))
    shape = (place.lanes, place.units)
    match place.reduction.terms:
        case "values":
            rows = np.ldexp(rng.choice([-1.0, 1.0], shape), rng.integers(0, 4, shape))
            for _ in range(PAIRS if place.units > 2 * PAIRS else 1):
                large = np.ldexp(1.0, rng.integers(24, 60, place.lanes))
                ends = rng.random(shape).argsort(axis=1)[:, :2]
                np.put_along_axis(rows, ends[:, :1], large[:, None], axis=1)
                np.put_along_axis(rows, ends[:, 1:], -large[:, None], axis=1)
        case "squares":
            rows = np.ldexp(1 + rng.integers(0, 128, shape) / 128, rng.integers(-6, 7, shape))
        case _:
            rows = -rng.integers(0, 1 << 10, shape) / 64
    return rows


def _name(laid: laying.Laid) -> bytes:
    found = hashlib.blake2b(laid.ask.case.id.encode(), digest_size=16)
    found.update(str(laid.ask.misalign_bytes).encode())
    for name, data in laid.ask.files:
        found.update(name.encode())
        found.update(data)
    return found.digest()


def _other(place: Place, what: str) -> Outcome:
    return Outcome(
        status="ORDER_DIFFERS",
        message=f"{place.reduction.name} in case {place.case.id}: {what} along {place.carrier} "
        f"give other bits than the seed: some row, column or output is summed in another order",
        evidence={"reduction": place.reduction.name, "case": place.case.id},
    )
