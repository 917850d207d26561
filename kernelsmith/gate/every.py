"""Every declared row count and every combination of declared sizes, run once and compared.

A kernel may hold a branch on a size that no launch shows: right everywhere but at one row count, or
at one pair of sizes. Drawn shapes meet it by luck; here each row count is run once for each call
form, and each combination of ``ranges`` for each call form and dtype.
"""

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from kernelsmith import cases as forms
from kernelsmith.gate import hidden
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference, chunks
from kernelsmith.gate.subject import Ask, Outcome, Subject
from kernelsmith.model import Case, Task

CHUNK = 400
"""Calls a job: its outputs, in one file, stay small."""
ROWS_MAX = 512
"""Wider ranges are covered over the candidates of a run, so many row counts each."""


def walk_cases(task: Task, seed: int) -> Iterator[Case]:
    """Row counts at the smallest sizes (dtypes take turns), then sizes at a drawn row count.

    Deterministic in ``seed``. A range of more than ROWS_MAX row counts is covered at that many
    drawn ones; every count of a smaller range is run once for each call form.
    """
    draw = np.random.default_rng((seed, 2))
    low, high = task.token_range
    found = forms.forms_of(task)
    dtypes = sorted({dtype for _, dtype in found})
    counts = np.arange(low, high + 1)
    for call in task.calls:
        turn = int(draw.integers(len(dtypes)))
        picked = counts
        if len(counts) > ROWS_MAX:
            picked = np.sort(draw.choice(counts, ROWS_MAX, replace=False))
        for number, count in enumerate(picked):
            own = found.get((call.name, dtypes[(number + turn) % len(dtypes)]))
            if own:
                yield _at(task, own[0], _smallest(task, own), int(count), seed)
    for own in found.values():
        names = [name for name, _ in task.ranges if name in dict(own[0].dims)]
        values = [dict(task.ranges)[name] for name in names]
        for sizes in itertools.product(*values):
            dims = {**dict(own[0].dims), **dict(zip(names, sizes, strict=True))}
            tokens = int(draw.integers(max(low, 1), min(high, low + 64) + 1))
            yield _at(task, own[int(draw.integers(len(own)))], dims, tokens, seed)


def check(bench: Bench, reference: Reference, subject: Subject, seed: int) -> Outcome:
    """Runs candidate and seed on :func:`walk_cases`; the plans are not kept."""
    done = 0
    for part in chunks(list(walk_cases(bench.task, seed)), CHUNK):
        try:
            found = _check(bench, reference, subject, part)
        finally:
            for case in part:
                subject.plans.pop(case.id, None)
                reference.seed.plans.pop(case.id, None)
        if found.status is not None:
            return found
        done += len(part)
    return Outcome(evidence={"walked": done})


def _check(bench: Bench, reference: Reference, subject: Subject, cases: Sequence[Case]) -> Outcome:
    found = bench.prepare(subject, cases)
    if found.status is not None:
        return replace(found, status="UNCONFIRMED", message=f"declared size: {found.message}")
    asks = [Ask(key=case.id, case=case, inputs=reference.inputs(case)) for case in cases]
    # Seed and candidate have workers of their own: they run side by side.
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(reference.fresh, asks)
        done = bench.execute(subject, asks)
        expected = running.result()
    if isinstance(done, Outcome):
        return replace(done, status="UNCONFIRMED", message=f"declared size: {done.message}")
    return hidden.compare_runs(bench.task, cases, expected, done, "")


def _smallest(task: Task, own: list[Case]) -> dict[str, int]:
    """The form's sizes with the fewest elements, the row count aside."""
    dims = min(
        (dict(case.dims) for case in own),
        key=lambda sizes: float(
            np.prod([float(size) for name, size in sizes.items() if name != task.token_dim])
        ),
    )
    return dict(dims)


def _at(task: Task, like: Case, dims: dict[str, int], tokens: int, seed: int) -> Case:
    moved = {**dims, task.token_dim: tokens}
    case = replace(like, dims=tuple(moved.items()), weight=0.0, regime="normal", row_stride_pad=0)
    return replace(case, id=f"walk {forms.full_id(case)} {seed & 0xFFFFFFFF:08x}")
