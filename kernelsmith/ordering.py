"""Finds the summation trees of a file beside the seed's or another file's. Nothing is judged."""

import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith import assembly
from kernelsmith.model import Candidate, Task, new_candidate, seed_candidate
from kernelsmith.wiring import Wiring, read_source

if TYPE_CHECKING:
    from kernelsmith.gate.order.shown import Sum
    from kernelsmith.startup import Single


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What was found. ``against`` is the source that the file is compared with."""

    task: str
    candidate: Candidate
    against: Candidate
    device: dict[str, Any]
    epoch: str
    sums: tuple["Sum", ...]

    @property
    def differs(self) -> bool:
        """Whether any sum is made in another order."""
        return any(one.equal is False for one in self.sums)

    @property
    def known(self) -> bool:
        """Whether anything can be said of any sum."""
        return any(one.equal is not None for one in self.sums)


def find_orders(
    wiring: Wiring, single: "Single", against: Path | None, names: tuple[str, ...]
) -> Orders:
    """Probes a file and what it is compared with on one device.

    Args:
        against: another file; None compares with the seed.
        names: of the task's reductions; () for all.

    Raises:
        InputError: a file is wrong, or cannot be traced, compiled or run.
        TaskError: the task declares no such reduction.
    """
    from kernelsmith.gate.order import shown
    from kernelsmith.gate.subject import Subject

    (task,) = assembly.load_tasks(wiring, (single.task,), single.device, single.task_folders)
    shown.named(task, names)
    seed = seed_candidate(task)
    candidate = _read(single.file, task)
    other = None if against is None else _read(against, task)
    with ExitStack() as stack:
        device = wiring.device(task.device)
        sources = {candidate.id} | ({other.id} if other else set())
        trusted = task.shipped and sources == {seed.id}
        sandbox = wiring.sandbox(single.sandbox, trusted)
        stack.callback(sandbox.close)
        secret = secrets.randbits(128)
        gate: Any = wiring.judge(task, device, sandbox, secret)
        stack.callback(gate.close)
        subject = Subject(candidate=seed, role="seed")
        found = shown.sums(gate.bench, subject, candidate, other, names, secret)
        return Orders(
            task=task.name,
            candidate=candidate,
            against=other or seed,
            device=gate.device_facts,
            epoch=gate.epoch,
            sums=tuple(found),
        )


def _read(file: Path, task: Task) -> Candidate:
    parents = (seed_candidate(task).id,)
    return new_candidate(
        read_source(file), task.name, author="person", parents=parents, note=file.name
    )
