"""A toy task and a gate whose workers are fakes."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kernelsmith.gate.judge import Gate
from kernelsmith.gate.subject import Limits
from kernelsmith.model import ArgSpec, Call, Candidate, Case, OutputSpec, Task
from tests.gate.fake_workers import BLOCK, ROLES, FakeDevice, FakeSandbox, source_of


def tensor(name: str, *shape: str) -> ArgSpec:
    return ArgSpec(name=name, kind="tensor", shape=shape, dtype="float32", recipe="token")


def make_calls() -> tuple[Call, ...]:
    y, s, dx = row("y", "M", "N"), row("s", "M"), row("dx", "M", "N")
    dw = OutputSpec(
        name="dw",
        cls="batch",
        shape=("N",),
        dtype="float32",
        block=BLOCK,
        carry="carry",
        carry_call="backward_carry",
    )
    x, w, dy = tensor("x", "M", "N"), tensor("w", "N"), tensor("dy", "M", "N")
    none, carry = ArgSpec(name="carry", kind="none"), tensor("carry", "N")
    forms = (
        ("train", "forward_train", "train", (x, w), (y, s)),
        ("infer", "forward_infer", "infer", (x, w), (y,)),
        ("backward", "backward", "train", (dy, x, w, none), (dx, dw)),
        ("backward_carry", "backward", "train", (dy, x, w, carry), (dx, dw)),
    )
    return tuple(
        Call(name=name, variant="v", entry=entry, path=path, args=args, outputs=outputs)
        for name, entry, path, args, outputs in forms
    )


def row(name: str, *shape: str) -> OutputSpec:
    return OutputSpec(name=name, cls="row", shape=shape, dtype="float32")


def make_cases() -> tuple[Case, ...]:
    sizes = (
        ("train", 40, 0.5),
        ("train", 7, 0.0),
        ("infer", 40, 0.0),
        ("infer", 1, 0.5),
        ("infer", 0, 0.0),
        ("backward", 40, 1.0),
        ("backward_carry", 7, 0.0),
    )
    return tuple(
        Case(
            id=f"{call}-{m}",
            call=call,
            dtype="float32",
            dims=(("M", m), ("N", 6)),
            regime="normal",
            weight=weight,
        )
        for call, m, weight in sizes
    )


def make_task(**changes: Any) -> Task:
    fields: dict[str, Any] = {
        "name": "toy",
        "device": "cpu",
        "seed_name": "toy",
        "seed_source": source_of(),
        "summary": "",
        "entries": tuple(ROLES),
        "calls": make_calls(),
        "cases": make_cases(),
        "token_dim": "M",
        "token_range": (0, 30),
        "ranges": (("N", (3, 6)),),
        "num_programs": 2,
        "min_gain": 0.01,
        "max_regress": 0.03,
        "shipped": False,
    }
    return Task(**{**fields, **changes})


@dataclass
class Kit:
    """A gate on fakes. ``judge`` takes faults by name."""

    task: Task
    sandbox: FakeSandbox
    gate: Gate

    def candidate(self, **faults: Any) -> Candidate:
        text = source_of(**faults)
        ident = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Candidate(
            id=ident, task="toy", source=text, parents=(self.gate.seed.id,), author="search"
        )

    def judge(self, confirms: int = 0, **faults: Any) -> Any:
        return self.gate.judge(self.candidate(**faults), self.gate.seed, confirms)


def make_kit(hidden: int = 2, **changes: Any) -> Kit:
    task, sandbox, limits = make_task(**changes), FakeSandbox(), Limits(hidden_per_call=hidden)
    return Kit(task, sandbox, Gate(task, FakeDevice(), sandbox, secret_seed=7, limits=limits))


@pytest.fixture
def kit() -> Kit:
    return make_kit()


@pytest.fixture
def new_kit() -> Callable[..., Kit]:
    return make_kit
