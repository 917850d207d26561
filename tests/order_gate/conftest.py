"""The check on real parts: front end, CPU compiler and launcher on a few cases of ``linear``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from kernelsmith import catalog, devices
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.order import check
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.model import Task, new_candidate, seed_candidate
from kernelsmith.sandbox.choose import choose

CASES = (
    "infer.bf16.M67-N128-K256.cancel",
    "infer.fp32.M67-N128-K256.cancel",
    "bias_infer.bf16.M131-N200-K72.cancel",
    "infer.bf16.M16-N96-K128.cancel",
    "bias_backward.fp32.M131-N200-K72.cancel",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The gate's parts for one task; ``check`` judges a source's order alone."""

    gate: Gate
    reference: Reference

    def subject(self, source: str) -> Subject:
        candidate = new_candidate(source, self.gate.task.name, author="person")
        subject = Subject(candidate=candidate, role="launcher")
        found = self.gate.bench.prepare(subject, self.gate.task.cases)
        assert found.status is None, found.message
        return subject

    def check(self, source: str) -> Outcome:
        return check.check(self.gate.bench, self.reference, self.subject(source))


def small(task: Task) -> Task:
    cases = tuple(replace(case, weight=0.0) for case in task.cases if case.id in CASES)
    assert len(cases) == len(CASES)
    return replace(task, cases=cases)


def made(task: Task) -> Iterator[Probed]:
    sandbox = choose("auto", trusted_origin=True)
    gate = Gate(task, devices.get("cpu"), sandbox, secret_seed=20_261_130)
    seed = Subject(candidate=seed_candidate(task), role="seed")
    reference = Reference(gate.bench, seed, 20_261_130)
    reference.prepare(task.cases)
    yield Probed(gate=gate, reference=reference)
    gate.close()
    sandbox.close()


@pytest.fixture(scope="session")
def linear() -> Iterator[Probed]:
    yield from made(small(catalog.load_task("linear", "cpu")))


@pytest.fixture(scope="session")
def probed() -> Callable[[Task], Iterator[Probed]]:
    return made
