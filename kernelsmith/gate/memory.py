"""memory: nothing but outputs and scratch is written, and nothing is read before it is written."""

from dataclasses import replace

from kernelsmith import cases as forms
from kernelsmith.gate import observed
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.parity import note_marks
from kernelsmith.gate.reference import Reference, compare
from kernelsmith.gate.subject import Ask, Outcome, Subject

WAYS = (
    ("poison 2", 2, False),
    ("scratch left by an earlier call", 3, True),
    ("memory all zero", 0, False),
    ("memory all 0xFF", 255, False),
)
"""Further patterns beside the one parity ran under, the second on scratch that a call on other
inputs left: an output element that is never written, or a result that hangs on what memory held,
cannot equal the seed under all of them. In the last two, buffers end and start at a page that
cannot be touched and inputs lie in pages that cannot be written, so a read beyond a buffer crashes,
and so does a write to an input that is put back afterwards."""


def check(bench: Bench, reference: Reference, subject: Subject) -> Outcome:
    """Runs every case under other poisons, and once on scratch that a call on other inputs left.
    Observed runs name what is read or written out of bounds, or read and never written.

    Red zones around every buffer and the inputs' bytes are looked at in every run of every check
    so far; here they are judged.
    """
    seen = observed.all_of(bench, reference, subject)
    if isinstance(seen, Outcome):
        return seen
    found = observed.judged(bench.task, seen, observed.BOUNDS)
    if found.status is None:
        found = _marks(subject)
    if found.status is not None:
        return found
    cases = sorted(bench.task.cases, key=lambda case: (forms.cost(bench.task, case), case.id))
    runs = [(case, how, poison, stale) for case in cases for how, poison, stale in WAYS]
    asks = [
        Ask(
            key=f"{case.id}, {how}",
            case=case,
            inputs=reference.inputs(case),
            poison=poison,
            stale=stale,
        )
        for case, how, poison, stale in runs
    ]
    done = bench.execute(subject, asks, seconds_expected=5 * sum(reference.seconds.values()))
    if isinstance(done, Outcome):
        return _crashed(done)
    for (case, how, _, _), execution in zip(runs, done, strict=True):
        note_marks(subject, execution.key, execution.canaries, execution.changed_inputs)
        found = compare(
            bench.task,
            case,
            reference.outputs(case),
            execution.outputs,
            status="MEMORY",
            how=f", {how} (reads memory that this call did not write)",
        )
        if found.status is not None:
            return found
    found = _marks(subject)
    if found.status is not None:
        return found
    return Outcome(
        evidence={
            "runs": len(runs),
            "ways": [how for how, _, _ in WAYS],
            "observed": len(seen),
        }
    )


def _crashed(found: Outcome) -> Outcome:
    """Says what a crash under the last two patterns means: elsewhere the same call ran."""
    guarded = any(str(found.evidence["where"]).endswith(how) for how, _, _ in WAYS[2:])
    if found.status != "CRASH" or not guarded:
        return found
    return replace(
        found,
        status="MEMORY",
        message=f"{found.message} where inputs cannot be written nor anything beyond a buffer be "
        "touched: it writes an input, or reads or writes beyond a buffer",
    )


def _marks(subject: Subject) -> Outcome:
    if not subject.marks:
        return Outcome()
    more = f" (and {len(subject.marks) - 1} more)" if len(subject.marks) > 1 else ""
    return Outcome(
        status="MEMORY",
        message=f"case {subject.marks[0]}{more}",
        evidence={
            "where": subject.marks[0].partition(": ")[0],
            "marks": subject.marks[:50],
            "count": len(subject.marks),
        },
    )
