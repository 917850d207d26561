"""determinism: the same call gives the same bits whatever surrounds it."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kernelsmith import cases as forms
from kernelsmith.gate import observed, strides
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.parity import note_marks
from kernelsmith.gate.reference import Reference, compare
from kernelsmith.gate.subject import CO_RUNNERS, Ask, Outcome, Subject, draw_seed
from kernelsmith.model import Case, Task

MISALIGN_BYTES = 8
PAD_ELEMENTS = 3
"""Extra elements a row: with an odd row stride no row but the first stays aligned."""
COSTLIEST = 4
"""Cases that are run beside another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One run to repeat: the case whose bits it must have, how it is run, and what it is called."""

    base: Case
    case: Case
    how: str
    order: str = "ascending"
    misalign_bytes: int = 0


def check(bench: Bench, reference: Reference, subject: Subject) -> Outcome:
    """Observes which programs touch what; then repeats every case under other program orders and
    pointers, each call form with padded rows, and the costliest cases beside another process;
    every run has fresh pointers."""
    seen = observed.all_of(bench, reference, subject)
    if isinstance(seen, Outcome):
        return seen
    found = observed.judged(bench.task, seen, (*observed.RACES, *observed.LOOPS))
    if found.status is not None:
        return found
    found = observed.same_bits(bench, reference, subject, seen)
    if found.status is not None:
        return found
    cases = sorted(bench.task.cases, key=lambda case: (forms.cost(bench.task, case), case.id))
    repeats = [*all_repeats(bench.task, cases, reference.secret), *padded(bench.task, cases)]
    found = bench.prepare(subject, [one.case for one in repeats])
    if found.status is None:
        moved = [(one.base, one.case) for one in repeats if one.base is not one.case]
        found = strides.check(subject, moved)
    if found.status is not None:
        return found
    found = _run(bench, reference, subject, repeats)
    if found.status is not None:
        return found
    found = _beside_another(bench, reference, subject, cases[-COSTLIEST:])
    if found.status is not None:
        return found
    ways = [*sorted({one.how for one in repeats}), "beside another process"]
    return Outcome(
        evidence={
            "repeats": ways,
            "runs": len(repeats) + COSTLIEST,
            "observed": len(seen),
        }
    )


def all_repeats(task: Task, cases: list[Case], secret: int) -> Iterator[Repeat]:
    """Two runs a case: programs backwards or shuffled (in turns) at pointers that are not
    16-byte aligned, and programs on two threads.

    A GPU's programs have no order that can be chosen. There the first run is made among others
    of the same plan in a second stream, the second just once more."""
    shuffled = f"shuffled:{draw_seed(secret, 'order') & 0xFFFF}"
    off = f"pointers {MISALIGN_BYTES} bytes off"
    for number, case in enumerate(cases):
        order = shuffled if number % 2 else "descending"
        how = f"program order {order.partition(':')[0]}"
        again, other = "threads:2", "programs on 2 threads"
        if task.device == "cuda":
            order, how = f"beside:{CO_RUNNERS}", "co-runners in another stream"
            again, other = "ascending", "once more"
        yield Repeat(
            base=case, case=case, how=f"{how}, {off}", order=order, misalign_bytes=MISALIGN_BYTES
        )
        yield Repeat(base=case, case=case, how=other, order=again)


def padded(task: Task, cases: list[Case]) -> Iterator[Repeat]:
    """Each call form and dtype once with gaps between the rows of every input, and once for each
    input alone."""
    seen: set[tuple[str, str]] = set()
    for case in cases:
        if (case.call, case.dtype) in seen or case.row_stride_pad != 0:
            continue
        seen.add((case.call, case.dtype))
        args = task.call(case.call).args
        wide = [arg.name for arg in args if arg.kind == "tensor" and len(arg.shape) > 1]
        for only in ("", *wide):
            how = f"padded rows of {only}" if only else "padded rows"
            moved = replace(
                case, id=f"{case.id} {how}", row_stride_pad=PAD_ELEMENTS, padded_arg=only
            )
            yield Repeat(base=case, case=moved, how=how)


def _run(
    bench: Bench, reference: Reference, subject: Subject, repeats: Sequence[Repeat]
) -> Outcome:
    asks = [
        Ask(
            key=f"{one.case.id}, {one.how}",
            case=one.case,
            inputs=reference.inputs(one.case, of=one.base),
            order=one.order,
            misalign_bytes=one.misalign_bytes,
        )
        for one in repeats
    ]
    done = bench.execute(subject, asks, seconds_expected=3 * sum(reference.seconds.values()))
    if isinstance(done, Outcome):
        return done
    for one, execution in zip(repeats, done, strict=True):
        note_marks(subject, execution.key, execution.canaries, execution.changed_inputs)
        found = compare(
            bench.task,
            one.base,
            reference.outputs(one.base),
            execution.outputs,
            status="NONDETERMINISTIC",
            how=f", {one.how}",
        )
        if found.status is not None:
            return _blame(bench, reference, subject, one, found)
    return Outcome()


def _blame(
    bench: Bench, reference: Reference, subject: Subject, repeat: Repeat, found: Outcome
) -> Outcome:
    """Which of two changes made together it was, if one of them alone shows it."""
    if repeat.order == "ascending" or not repeat.misalign_bytes:
        return found
    order, off = repeat.how.split(", ")
    for alone in (
        replace(repeat, misalign_bytes=0, how=order),
        replace(repeat, order="ascending", how=off),
    ):
        again = _run(bench, reference, subject, [alone])
        if again.status is not None:
            return again
    return found


def _beside_another(
    bench: Bench, reference: Reference, subject: Subject, cases: list[Case]
) -> Outcome:
    """Runs the costliest cases while the seed's worker is busy with the same ones."""
    asks = [Ask(key=case.id, case=case, inputs=reference.inputs(case)) for case in cases]
    raised: list[BaseException] = []

    def keep_busy() -> None:
        try:
            reference.fresh(asks)
        except BaseException as error:  # handed to the caller below, never swallowed
            raised.append(error)

    reference.prepare(cases)
    other = threading.Thread(target=keep_busy, name="co-runner")
    other.start()
    try:
        done = bench.execute(subject, asks, seconds_expected=sum(reference.seconds.values()))
    finally:
        other.join()
    if raised:
        raise raised[0]
    if isinstance(done, Outcome):
        return done
    for case, execution in zip(cases, done, strict=True):
        note_marks(subject, execution.key, execution.canaries, execution.changed_inputs)
        found = compare(
            bench.task,
            case,
            reference.outputs(case),
            execution.outputs,
            status="NONDETERMINISTIC",
            how=", beside another process",
        )
        if found.status is not None:
            return found
    return Outcome()
