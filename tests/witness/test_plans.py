"""What one launch leaves, the next one loads: rules over whole plans, and the check itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

from kernelsmith import cases, catalog
from kernelsmith.gate.subject import Subject
from kernelsmith.gate.witness import check as witness
from kernelsmith.gate.witness.plans import Memory, account
from kernelsmith.lang import tree_sum
from kernelsmith.model import (
    ArgSpec,
    Buffer,
    Call,
    Case,
    Launch,
    LaunchArg,
    ObjectInfo,
    OutputSpec,
    Plan,
    PlanClass,
    Task,
    TraceJob,
    new_candidate,
    seed_candidate,
)
from kernelsmith.rehearsal import variants
from kernelsmith.worker import frontend
from tests.witness.texts import text_of

N = tl.constexpr(64)


@triton.jit
def _mark(x_ptr, mark_ptr):
    tl.store(mark_ptr, (tl.max(tl.load(x_ptr + tl.arange(0, N)), axis=0) > 1e30).to(tl.int32))


@triton.jit
def _count(token_ptr, mark_ptr):
    tl.store(mark_ptr, tl.load(token_ptr) + 1)


@triton.jit
def _sum_as_marked(x_ptr, mark_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if tl.load(mark_ptr) == 1:
        s = tree_sum(x)
        tl.store(y_ptr, s)
    else:
        tl.store(y_ptr, tl.sum(x, axis=0))


@triton.jit
def _chosen(a_ptr, b_ptr, y_ptr):
    at = tl.arange(0, N)
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + N - 1 - at)
    tl.store(y_ptr + at, tl.where(tl.max(a, axis=0) > 1e30, a, b))


@triton.jit
def _sum(x_ptr, y_ptr):
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)), axis=0))


def tensor(name: str, dtype: str) -> ArgSpec:
    return ArgSpec(name=name, kind="tensor", shape=("M",), dtype=dtype, recipe="token")


CALL = Call(
    name="train",
    variant="",
    entry="forward",
    path="train",
    args=(tensor("x", "T"), tensor("token", "int32")),
    outputs=(OutputSpec(name="y", cls="row", shape=("M",), dtype="float32"),),
)
CASE = Case(id="case", call="train", dtype="bfloat16", dims=(("M", 1),), regime="", weight=0.0)


@pytest.fixture(scope="module")
def task() -> Task:
    return replace(catalog.load_task("swiglu", "cpu"), calls=(CALL,), cases=(CASE,))


def subject(*launches: tuple[Any, str, Sequence[int]]) -> Subject:
    """A subject that launches these kernels (types of its arguments, the buffers they point to):
    buffer 0 is the input x, 1 the input token, 2 and 3 are its own."""
    made = Subject(candidate=new_candidate("", "swiglu", author="seed"), role="launcher")
    done = []
    for number, (kernel, types, buffers) in enumerate(launches):
        name = f"{kernel.__name__} {number}"
        text = text_of(kernel, types)
        made.classes[name] = PlanClass(
            id=name, kernel=kernel.__name__, options={}, specialisation="", ttir=text
        )
        args = tuple(LaunchArg(kind="ptr", buffer=b) for b in buffers)
        done.append(Launch(plan_class=name, plan_class_unaligned=name, grid=(1, 1, 1), args=args))
    held = (Buffer(nbytes=256, arg="x"), Buffer(nbytes=4, arg="token"))
    made.plans["case"] = Plan(
        buffers=(*held, Buffer(nbytes=256), Buffer(nbytes=256)), launches=tuple(done), outputs=()
    )
    made.cases["case"] = CASE
    return made


MARKS = "*fp32 *i32 *fp32"


def test_a_mark_made_of_floats_decides_nothing_in_a_later_launch(task: Task) -> None:
    told = subject((_mark, "*fp32 *i32", (0, 2)), (_sum_as_marked, MARKS, (0, 2, 3)))
    assert set(account(Memory(), task, told).broken) == {"branch"}


def test_a_mark_of_the_launch_before_last_round_is_found_whatever_the_order(task: Task) -> None:
    told = subject((_sum_as_marked, MARKS, (0, 2, 3)), (_mark, "*fp32 *i32", (0, 2)))
    assert set(account(Memory(), task, told).broken) == {"branch"}


def test_an_integer_input_and_what_is_made_of_it_may_decide(task: Task) -> None:
    direct = subject((_sum_as_marked, MARKS, (0, 1, 3)))
    through = subject((_count, "*i32 *i32", (1, 2)), (_sum_as_marked, MARKS, (0, 2, 3)))
    assert account(Memory(), task, direct).broken == {}
    assert account(Memory(), task, through).broken == {}


def test_a_float_input_that_is_loaded_as_integers_may_not(task: Task) -> None:
    told = subject((_sum_as_marked, MARKS, (0, 0, 3)))
    assert set(account(Memory(), task, told).broken) == {"branch"}


def test_a_choice_counts_when_a_later_launch_sums_what_was_chosen(task: Task) -> None:
    stored = subject((_chosen, "", (0, 0, 3)))
    summed = subject((_chosen, "", (0, 0, 2)), (_sum, "", (2, 3)))
    assert account(Memory(), task, stored).broken == {}
    assert set(account(Memory(), task, summed).broken) == {"arrangement"}


def test_two_pointers_into_one_buffer_are_two_arrangements_of_it(task: Task) -> None:
    apart = subject((_chosen, "", (0, 3, 2)), (_sum, "", (2, 3)))
    assert account(Memory(), task, apart).broken == {}


# ---------------------------------------------------------------------------------- the check


@dataclass
class StandInBench:
    """A bench that holds what the check asks for and starts no worker."""

    task: Task
    code: dict[str, list[ObjectInfo]] = field(default_factory=dict)
    said: Memory = field(default_factory=Memory)

    def code_of(self, one: Subject) -> list[ObjectInfo]:
        return self.code.get(one.role, [])


@dataclass
class Seed:
    seed: Subject


def checked(
    task: Task, seed: Subject, candidate: Subject, code: dict[str, list[ObjectInfo]] | None = None
) -> Any:
    bench: Any = StandInBench(task, code or {})
    reference: Any = Seed(seed)
    return witness.check(bench, reference, candidate)


def test_a_rule_rejects_with_kernel_line_and_reason(task: Task) -> None:
    found = checked(task, subject((_sum, "", (0, 3))), subject((_sum_as_marked, MARKS, (0, 0, 3))))
    assert found.status == "POLICY"
    assert found.message.startswith("kernel _sum_as_marked at test_plans.py:")
    assert found.message.endswith(
        "branches on what it loaded as a float; it could sum in one order for probes and in "
        "another later"
    )


def test_what_the_seed_does_itself_is_told_not_refused(task: Task) -> None:
    seed = subject((_sum_as_marked, MARKS, (0, 0, 3)))
    found = checked(task, seed, replace(seed, role="launcher"))
    assert found.status is None
    assert found.evidence["as_the_seed"] == ["branches on what it loaded as a float"]


def test_an_option_or_a_word_that_is_not_listed_is_refused(task: Task) -> None:
    seed, other = subject((_sum, "", (0, 3))), subject((_sum, "", (0, 3)))
    name = "_sum 0"
    other.classes[name] = replace(other.classes[name], options={"enable_fp_fusion": 1})
    found = checked(task, seed, other)
    assert (found.status, found.message.split(";")[0]) == (
        "COMPILE",
        "kernel _sum: launch option 'enable_fp_fusion' is not known",
    )
    text = seed.classes[name].ttir.replace("arith.addf", "arith.addf_fast")
    other.classes[name] = replace(seed.classes[name], ttir=text)
    found = checked(task, seed, other)
    assert found.status == "COMPILE"
    assert found.message.startswith("kernel _sum: op arith.addf_fast is not on the list")


def test_a_sum_that_the_compiler_may_reorder_is_nondeterministic(task: Task) -> None:
    seed, other = subject((_sum, "", (0, 3))), subject((_sum, "", (0, 3)))
    name = "_sum 0"
    text = other.classes[name].ttir
    line = next(line for line in text.splitlines() if "tt.load" in line)
    value = line.split(" = ")[0].strip()
    loose = f"    %loose = tt.reshape {value} allow_reorder : tensor<64xf32> -> tensor<64xf32>"
    text = text.replace(line, f"{line}\n{loose}").replace(
        f'"tt.reduce"({value})', '"tt.reduce"(%loose)'
    )
    other.classes[name] = replace(other.classes[name], ttir=text)
    found = checked(task, seed, other)
    assert found.status == "NONDETERMINISTIC"
    assert "sums floats that the compiler may have reordered" in found.message


def machine(**lint: int) -> list[ObjectInfo]:
    return [
        ObjectInfo(id="o", symbol="k", params=(), arena_bytes=0, code_hash="", stats={"lint": lint})
    ]


@pytest.mark.parametrize(
    ("lint", "status"),
    [
        ({"float_atomics": 1}, "NONDETERMINISTIC"),
        ({"ftz": 2}, "POLICY"),
        ({"approx": 1}, "POLICY"),
        ({"fma": 9, "sass_local": 4}, None),
    ],
)
def test_ptx_is_asked_the_same_where_there_is_any(
    task: Task, lint: dict[str, int], status: str | None
) -> None:
    seed = replace(subject((_sum, "", (0, 3))), role="seed")
    own = subject((_sum, "", (0, 3)))
    found = checked(task, seed, own, {"seed": machine(fma=0), "launcher": machine(**lint)})
    assert found.status == status
    if status is None:
        assert set(found.evidence["machine_code_beyond_seed"]["k"]) == set(lint)
    same = checked(task, seed, own, {"seed": machine(**lint), "launcher": machine(**lint)})
    assert same.status is None


def traced(task: Task, source: str, chosen: Sequence[Case], folder: Path) -> Subject:
    job = TraceJob(
        source=source,
        entries=task.entries,
        calls=tuple(cases.trace_call(task, case) for case in chosen),
        device="cpu",
    )
    result = frontend.run(job, folder)
    assert result.failure is None
    return Subject(
        candidate=seed_candidate(task),
        role="launcher",
        plans=dict(result.plans),
        classes=dict(result.classes),
        cases={case.id: case for case in chosen},
    )


@pytest.mark.parametrize("name", ["rms_norm", "linear", "swiglu", "logprob"])
def test_seeds_and_winners_pass(name: str, tmp_path: Path) -> None:
    real = catalog.load_task(name, "cpu")
    chosen = list({case.call: case for case in real.cases if case.dtype == "bfloat16"}.values())
    seed = traced(real, real.seed_source, chosen, tmp_path)
    assert checked(real, seed, seed).evidence["differences"] == []
    if name in variants.VARIANTS:
        found = checked(real, seed, traced(real, variants.winner(name), chosen, tmp_path))
        assert (found.status, found.message) == (None, "")
        assert found.evidence["accumulators"]["candidate"]
        assert "as_the_seed" not in found.evidence
