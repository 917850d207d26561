"""What an export finds out about a winner itself, in the gate's workers: its bits and classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelsmith.errors import EvidenceError, TaskError
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import compare
from kernelsmith.gate.subject import Outcome, Subject, limits_on
from kernelsmith.library import digests, gradients
from kernelsmith.library.certificate import DIGEST_SEED
from kernelsmith.model import Candidate, PlanClass, Task, seed_candidate
from kernelsmith.ports import Device, Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """``digests``: case -> output -> SHA-256; ``classes`` by id; ``autograd``: how gradients are
    wired, or why they are not."""

    digests: Mapping[str, Mapping[str, str]]
    autograd: dict[str, Any] | str
    classes: Mapping[str, PlanClass]


def examine(task: Task, device: Device, sandbox: Sandbox, candidate: Candidate) -> Examined:
    """Runs the winner and its seed on every case of the task, and traces the declared range.

    Raises:
        EvidenceError: the winner fails, or its bits are not the seed's: no certificate can be
            given, whatever the lineage says.
        TaskError: the seed fails.
    """
    with Bench(task, device, sandbox, limits_on(device.name)) as bench:
        seed = Subject(candidate=seed_candidate(task), role="seed")
        bench.trusted = seed.classes
        expected = digests.outputs(bench, seed, task.cases, DIGEST_SEED)
        if isinstance(expected, Outcome):
            raise TaskError(
                f"the seed of task {task.name} fails: {expected.status}: {expected.message}"
            )
        winner = Subject(candidate=candidate, role="launcher")
        actual = digests.outputs(bench, winner, task.cases, DIGEST_SEED)
        if isinstance(actual, Outcome):
            raise EvidenceError(
                f"candidate {candidate.id} of {task.name} fails: {actual.status}: {actual.message}",
                hint="it was accepted before; did the compiler or the device change?",
            )
        for case in task.cases:
            found = compare(task, case, expected[case.id], actual[case.id], status="BITS_DIFFER")
            if found.status is not None:
                raise EvidenceError(
                    f"candidate {candidate.id} of {task.name} differs from its seed: "
                    f"{found.message}",
                    hint="it was accepted before: judge it again, export nothing of it",
                )
        return Examined(
            digests=digests.digests(task, actual),
            classes=digests.plan_classes(bench, winner),
            autograd=gradients.derive(bench, seed),
        )
