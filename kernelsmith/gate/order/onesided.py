"""Sums of terms of one sign: what their inputs are, and how a step of them is made to show.

Of such a sum a kernel may write nothing but a function, rounded to few bits. Where that is an
element of the same row (y of an RMS norm), a step of one float32 ulp shows only in elements that
lie at a tie; which input, factor and largest term make one is tried out on the seed.
"""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kernelsmith.gate import plans
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.order import laying
from kernelsmith.gate.order.places import Place
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import draw_seed
from kernelsmith.model import Task
from kernelsmith.numerics import bits, order
from kernelsmith.numerics.order import FORMATS, Format, Terms
from kernelsmith.numerics.recipes_float import generator

Float64s = npt.NDArray[np.float64]
GROUND = -44
"""Binary exponent of inputs whose squares are lost beside any that is probed."""
SIGNIFICANDS = 128
ROUNDS = 6
COLUMNS = 64
DOUBLE_ULPS = 0.74
LAUNCHES_MAX = 48


def terms(task: Task, place: Place) -> Terms:
    """What the terms of a sum are that are never negative."""
    form = FORMATS[laying.carrier_dtype(task, place)]
    match place.reduction.terms:
        case "squares":
            squares = order.squares(form)
            return replace(squares, bigs=np.array([place.big])) if place.big else squares
        case "weighted_exps":
            return weighted(form)
        case _:
            return order.exponentials(form)


def weighted(form: Format) -> Terms:
    """x * exp(x) for x <= 0, the sign left out; the largest input of the row lies elsewhere.

    Between -2.5 and -1.5 terms and the sums that they stand in are such that a step shows. What
    also follows is the sum of exp(x), 1 and a little; such x are taken that small terms do not
    move it.
    """
    bigs = -np.arange(1.5, 2.5, 2.0 ** (2 - min(form.bits, 11)))
    over = np.exp(bigs) * 2.0**23 % 0.5
    bigs = bigs[(over > 0.05) & (over < 0.17)]
    grid = -np.arange(12.0, 30.0, 2.0 ** (6 - min(form.bits, 12)))
    sizes = _weighted(grid)

    def input_for(terms: Float64s) -> Float64s:
        at = np.searchsorted(-sizes, -np.atleast_1d(terms)).clip(0, len(grid) - 1)
        return np.asarray(grid[at], np.float64)

    return Terms(
        name="weighted exponentials",
        value=_weighted,
        input_for=input_for,
        bigs=bigs,
        none=-(2.0 ** min(form.top, 13)),
    )


def _weighted(x: Float64s) -> Float64s:
    """As float32 numbers, which a kernel's terms are: sums are told in ulps of the largest."""
    return (-x * np.exp(x)).astype(np.float32).astype(np.float64)


def tuned(bench: Bench, reference: Reference, place: Place) -> Place | None:
    """The place with inputs under which a step of its sum shows in the seed; None if none was
    found. A place that needs none is returned as it is.
    """
    if not place.read_aside:
        return place
    known = reference.trees.tuned
    if place.key not in known:
        known[place.key] = _tune(bench, reference, place)
    found = known[place.key]
    return None if found is None else replace(place, big=found[0], ground=found[1], held=found[2])


def _tune(bench: Bench, reference: Reference, place: Place) -> tuple[float, float, float] | None:
    rng = generator(draw_seed(reference.secret, "order tuning", *place.key))
    form = FORMATS[laying.carrier_dtype(bench.task, place)]
    squares = order.squares(form)
    bigs = squares.bigs[: place.lanes // 2 * LAUNCHES_MAX]
    ulp = np.exp2(np.floor(np.log2(squares.value(bigs))) - 23)
    doubles = squares.input_for(DOUBLE_ULPS * ulp)
    at = rng.permutation(place.length)[:COLUMNS]
    significands = 1 + np.arange(SIGNIFICANDS) / SIGNIFICANDS
    stored = plans.output_meta(laying.output_of(bench.task, place), place.case).dtype
    for number in range(ROUNDS):
        held_N = rng.choice(significands, place.length)
        near_OC = _near_ties(np.abs(bigs) / np.sqrt(place.length), held_N[at], FORMATS[stored].bits)
        ground_ON = np.full((len(bigs), place.length), math.ldexp(1.0, GROUND))
        ground_ON[:, at] = np.ldexp(significands[near_OC], GROUND)
        words_OPN = _shown(bench, reference, place, (bigs, doubles), (ground_ON, held_N), number)
        moved = words_OPN[:, 0] != words_OPN[:, 1]
        moved[:, [place.columns[0], place.columns[-1]]] = False
        hits = np.argwhere(moved)
        if len(hits):
            option, column = hits[0]
            return float(bigs[option]), float(ground_ON[option, column]), float(held_N[column])
    return None


def _near_ties(root_O: Float64s, held_C: Float64s, bits_kept: int) -> npt.NDArray[np.int64]:
    """Which significand of an input comes nearest to a tie of the output, if that is the input
    over the root of the mean of squares, times what is held. A guess, tried out on the seed."""
    significands = 1 + np.arange(SIGNIFICANDS) / SIGNIFICANDS
    values = significands * (held_C[None, :] / root_O[:, None])[..., None]
    apart = np.abs(np.ldexp(np.frexp(values)[0], bits_kept) % 1.0 - 0.5)
    return np.asarray(apart.argmin(axis=-1), np.int64)


def _shown(
    bench: Bench,
    reference: Reference,
    place: Place,
    terms: tuple[Float64s, Float64s],
    around: tuple[Float64s, Float64s],
    number: int,
) -> bits.Words:
    """Output rows [options, 2, N] of the seed: each B alone, and with a term that moves the sum.

    Raises:
        TaskError: the seed fails.
    """
    (bigs, doubles), (ground_ON, held_N) = terms, around
    rows = np.repeat(ground_ON, 2, axis=0)
    rows[:, place.columns[0]] = np.repeat(bigs, 2)
    rows[1::2, place.columns[-1]] = doubles
    task, launches = bench.task, []
    held = laying.held_of(task, place, held_N)
    for begin in range(0, len(rows), place.lanes):
        part = rows[begin : begin + place.lanes]
        whole = np.concatenate([part, np.tile(part[:1], (place.lanes - len(part), 1))])
        zeros = np.zeros(place.lanes, np.int64)
        moving = laying.moving_of(task, place, whole, np.zeros(place.lanes), zeros)
        launches.append(laying.asking(task, place, moving, held, f"tune-{number}-{begin}", 1))
    done = bench.execute_seed(reference.seed, launches)
    spec = laying.output_of(task, place)
    at = [one.name for one in task.call(place.case.call).outputs].index(spec.name)
    meta = plans.output_meta(spec, place.case)
    words = [bits.words(one.outputs[at], meta.dtype).reshape(meta.shape) for one in done]
    return np.concatenate(words)[: len(rows)].reshape(len(bigs), 2, -1)
