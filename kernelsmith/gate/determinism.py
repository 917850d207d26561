"""determinism: the same call gives the same bits whatever surrounds it."""

import re
import threading
from dataclasses import dataclass, replace

from kernelsmith.gate.bench import Bench
from kernelsmith.gate.parity import note_marks
from kernelsmith.gate.reference import Reference, compare
from kernelsmith.gate.subject import Ask, Execution, Outcome, Subject, draw_seed
from kernelsmith.model import Case, PlanClass

FLOAT_ATOMIC = re.compile(
    r"tt\.atomic_(?:rmw|cas)\b.*->\s*(?:tensor<[^>]*x)?(?:bf16|f16|f32|f64)\b"
)
MISALIGN_BYTES = 8
PAD_ELEMENTS = 3
"""Extra elements a row: with an odd row stride no row but the first stays aligned."""


@dataclass(frozen=True, slots=True)
class Change:
    """One way to repeat a call, and how it is said."""

    name: str
    order: str = "ascending"
    misalign_bytes: int = 0


def check(bench: Bench, reference: Reference, subject: Subject) -> Outcome:
    """Repeats every case under other program orders, pointers and a co-runner, and each call form
    with padded rows; every run has fresh pointers."""
    for plan_class in subject.classes.values():
        line = float_atomic(plan_class)
        if line:
            return Outcome(
                status="NONDETERMINISTIC",
                message=f"kernel {plan_class.kernel} adds floats atomically, in whatever order "
                f"programs run: {line}",
                evidence={"kernel": plan_class.kernel, "ttir": line},
            )
    cases = sorted(bench.task.cases, key=lambda case: reference.seconds[case.id])
    for change in changes(reference.secret):
        found = _repeat(bench, reference, subject, cases, change)
        if found.status is not None:
            return found
    padded = [replace(c, id=f"{c.id} padded rows", row_stride_pad=PAD_ELEMENTS) for c in cases]
    found = _padded(bench, reference, subject, cases, padded)
    if found.status is not None:
        return found
    found = _beside_another(bench, reference, subject, cases[-4:])
    if found.status is not None:
        return found
    return Outcome(
        evidence={
            "repeats": [change.name for change in changes(reference.secret)]
            + ["padded rows", "beside another process"],
            "cases": len(cases),
        }
    )


def changes(secret: int) -> tuple[Change, ...]:
    """Program orders and pointers under which a call is repeated."""
    return (
        Change("program order descending", order="descending"),
        Change("program order shuffled", order=f"shuffled:{draw_seed(secret, 'order') & 0xFFFF}"),
        Change("programs on 2 threads", order="threads:2"),
        Change(f"pointers {MISALIGN_BYTES} bytes off", misalign_bytes=MISALIGN_BYTES),
    )


def float_atomic(plan_class: PlanClass) -> str:
    """The first line of TTIR that adds floats atomically, or ""."""
    for line in plan_class.ttir.splitlines():
        if FLOAT_ATOMIC.search(line):
            return line.strip()
    return ""


def _repeat(
    bench: Bench, reference: Reference, subject: Subject, cases: list[Case], change: Change
) -> Outcome:
    asks = [
        Ask(
            key=case.id,
            case=case,
            inputs=reference.inputs(case),
            order=change.order,
            misalign_bytes=change.misalign_bytes,
        )
        for case in cases
    ]
    done = bench.execute(subject, asks, seconds_expected=sum(reference.seconds.values()))
    return _judge(bench, reference, subject, cases, done, f", {change.name}")


def _judge(
    bench: Bench,
    reference: Reference,
    subject: Subject,
    cases: list[Case],
    done: list[Execution] | Outcome,
    how: str,
) -> Outcome:
    if isinstance(done, Outcome):
        return done
    for case, execution in zip(cases, done, strict=True):
        note_marks(subject, case.id + how, execution.canaries, execution.changed_inputs)
        found = compare(
            bench.task,
            case,
            reference.outputs(case),
            execution.outputs,
            status="NONDETERMINISTIC",
            how=how,
        )
        if found.status is not None:
            return found
    return Outcome()


def _padded(
    bench: Bench, reference: Reference, subject: Subject, cases: list[Case], padded: list[Case]
) -> Outcome:
    """Each call form and dtype once, with gaps between the rows of every input."""
    seen: dict[tuple[str, str], tuple[Case, Case]] = {}
    for case, wide in zip(cases, padded, strict=True):
        seen.setdefault((case.call, case.dtype), (case, wide))
    plain = [pair[0] for pair in seen.values()]
    wide_cases = [pair[1] for pair in seen.values()]
    found = bench.prepare(subject, wide_cases)
    if found.status is not None:
        return found
    asks = [
        Ask(key=wide.id, case=wide, inputs=reference.inputs(wide, of=case))
        for case, wide in zip(plain, wide_cases, strict=True)
    ]
    done = bench.execute(subject, asks)
    return _judge(bench, reference, subject, plain, done, ", padded rows")


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
    return _judge(bench, reference, subject, cases, done, ", beside another process")
