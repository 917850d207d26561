"""Asks a subject for the sums of queries, and finds the trees of many places at once.

A job costs more than the launches in it, so all places are asked in step: each job holds the next
round of every place whose tree is not known yet.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kernelsmith.gate import plans
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.order import laying, onesided
from kernelsmith.gate.order.places import Place
from kernelsmith.gate.subject import Execution, Outcome, Subject, draw_seed
from kernelsmith.model import SIGNED, Case, Task
from kernelsmith.numerics import bits, order
from kernelsmith.numerics.order import Rows, Steps, Tree

Float64s = npt.NDArray[np.float64]
LAUNCHES_A_JOB = 128
JOB_BYTES = 1 << 28
_INFINITY = {
    "bfloat16": 2 * 0x7F80,
    "float16": 2 * 0x7C00,
    "float32": 2 * 0x7F800000,
    "float64": 2 * 0x7FF0000000000000,
}
"""Twice the pattern of infinity: what is above it, doubled without its sign, is a NaN."""


@dataclass(slots=True, kw_only=True)
class Search:
    """One place under probing, and what came of it. Not frozen: it grows round by round.

    ``outcome`` once it is known; ``uneven`` whether elements that hold the same sum ever
    differed; ``laid`` and ``digests`` are the launches and hashes of all their outputs.
    """

    place: Place
    steps: Steps
    rows: Rows | None = None
    outcome: order.Outcome | None = None
    uneven: bool = False
    queries: int = 0
    rounds: int = 0
    laid: list[laying.Laid] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)


def search(task: Task, place: Place, secret: int, expected: Tree | None) -> Search:
    """A search that has not begun. ``expected``: the seed's tree there, asked for before any
    search."""
    draw = draw_seed(secret, "order draw", *place.key)
    if place.reduction.terms in SIGNED:
        steps = order.signed_steps(
            place.units, laying.reading(task, place), expected=expected, draw=draw
        )
    else:
        steps = order.nonnegative_steps(
            place.units, onesided.terms(task, place), expected=expected, draw=draw
        )
    return Search(place=place, steps=steps)


def run(bench: Bench, subject: Subject, searches: Sequence[Search], secret: int) -> Outcome:
    """Runs searches to their ends, in step; an outcome with a status is a failed run."""
    live = [one for one in searches if one.outcome is None]
    for one in live:
        _advance(one, None)
    while live := [one for one in live if one.rows is not None]:
        launches: list[laying.Laid] = []
        counts: list[int] = []
        for one in live:
            assert one.rows is not None
            queries = one.rows.dense(0, len(one.rows))
            laid = list(laying.lay(bench.task, one.place, queries, secret, len(one.laid)))
            one.laid += laid
            launches += laid
            counts.append(len(laid))
        done = execute(bench, subject, launches)
        if isinstance(done, Outcome):
            return done
        begin = 0
        for one, count in zip(live, counts, strict=True):
            part = done[begin : begin + count]
            _advance(one, _sums(bench.task, one, part))
            begin += count
    return Outcome()


def execute(
    bench: Bench, subject: Subject, launches: Sequence[laying.Laid]
) -> list[Execution] | Outcome:
    """Runs launches, many in a job; one that writes where it must not is a failure."""
    found: list[Execution] = []
    for part in _jobs(launches):
        done = bench.execute(subject, [laid.ask for laid in part])
        if isinstance(done, Outcome):
            return done
        for one in done:
            if one.canaries or one.changed_inputs:
                touched = ", ".join((*one.canaries, *one.changed_inputs))
                return Outcome(
                    status="MEMORY", message=f"case {one.key}: writes outside outputs: {touched}"
                )
        found += done
    return found


def _jobs(launches: Sequence[laying.Laid]) -> Iterator[list[laying.Laid]]:
    """Launches in jobs of bounded size."""
    part: list[laying.Laid] = []
    held = 0
    for laid in launches:
        size = sum(len(data) for _, data in laid.ask.files)
        if part and (len(part) == LAUNCHES_A_JOB or held + size > JOB_BYTES):
            yield part
            part, held = [], 0
        part.append(laid)
        held += size
    if part:
        yield part


def digest(task: Task, case: Case, done: Execution) -> bytes:
    """A hash of all outputs of a run, NaNs taken for one another: probes overflow where the task's
    own cases do not, and parity has compared NaNs there."""
    found = hashlib.blake2b(digest_size=16)
    for spec, data in zip(task.call(case.call).outputs, done.outputs, strict=True):
        dtype = plans.output_meta(spec, case).dtype
        words = bits.words(data, dtype)
        if dtype in _INFINITY:
            nan = words << 1 > _INFINITY[dtype]
            words = np.where(nan, np.zeros_like(words), words) if nan.any() else words
        found.update(words.tobytes())
    return found.digest()


def _sums(task: Task, one: Search, done: Sequence[Execution]) -> Float64s:
    """The answers of one round."""
    found = []
    for laid, execution in zip(one.laid[-len(done) :], done, strict=True):
        sums, even = laying.sums(task, laid, one.place, execution)
        one.uneven |= not even
        one.digests.append(digest(task, one.place.case, execution))
        found.append(sums)
    return np.concatenate(found)


def _advance(one: Search, answer: Float64s | None) -> None:
    """Hands the answers over and takes the next round, or the outcome."""
    try:
        rows = next(one.steps) if answer is None else one.steps.send(answer)
    except StopIteration as ended:
        outcome: order.Outcome = ended.value
        one.rows = None
        one.outcome = replace(outcome, queries=one.queries, rounds=one.rounds)
        return
    most = one.place.reduction.probes_max
    if one.queries + len(rows) > most:
        one.rows = None
        one.outcome = order.Exhausted(
            sentence=f"{one.queries} of {most} queries are spent and the next round needs "
            f"{len(rows)}: the order is not known",
            queries=one.queries,
            rounds=one.rounds,
        )
        return
    one.rows = rows
    one.queries += len(rows)
    one.rounds += 1
