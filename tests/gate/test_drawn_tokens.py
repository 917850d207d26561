"""Large batches of a GPU are drawn in part; which token a row is stays the same everywhere."""

from dataclasses import replace
from typing import Any

from kernelsmith import catalog
from kernelsmith.gate.reference import PERIODS, Reference, drawn_tokens
from kernelsmith.gate.subject import Subject
from kernelsmith.model import Candidate, Case, Task


def case_of(task: Task, tokens: int) -> Case:
    return next(case for case in task.cases if case.dim("M") == tokens and case.call == "train")


class NoBench:
    """All that a Reference needs to name inputs."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.trusted: dict[str, object] = {}


def reference_of(task: Task) -> Reference:
    seed = Candidate(id="seed", task=task.name, source="", parents=(), author="seed")
    bench: Any = NoBench(task)
    return Reference(bench, Subject(candidate=seed, role="seed"), 7)


def test_only_large_batches_for_a_gpu_are_drawn_in_part() -> None:
    task = catalog.load_task("linear", "cuda")
    assert drawn_tokens(task, case_of(task, 8191)) in PERIODS
    small = [case for case in task.cases if case.dim("M") <= min(PERIODS)]
    assert {drawn_tokens(task, case) for case in small} == {None}
    cpu = catalog.load_task("linear", "cpu")
    assert {drawn_tokens(cpu, replace(case, dims=case.dims)) for case in cpu.cases} == {None}


def test_a_row_of_the_batch_is_the_same_token_alone_and_in_it() -> None:
    task = catalog.load_task("linear", "cuda")
    case = case_of(task, 8191)
    reference = reference_of(task)
    period = drawn_tokens(task, case)
    assert period is not None
    whole = reference.inputs(case)
    one = replace(case, dims=tuple((n, 1 if n == "M" else s) for n, s in case.dims))
    alone = reference.inputs(one, of=case, rows=(5000,))
    for all_of_it, single in zip(whole.tensors, alone.tensors, strict=True):
        assert all_of_it.base_shape == single.base_shape
        if all_of_it.rows is None:
            continue
        assert len(all_of_it.rows) == 8191
        assert single.rows == (5000 % period,) == (all_of_it.rows[5000],)
    assert whole.seed == alone.seed
    padded = replace(case, dims=tuple((n, 2 if n == "M" else s) for n, s in case.dims))
    rows = reference.inputs(padded, of=case, rows=(-1, 8190)).tensors[0].rows
    assert rows == (-1, 8190 % period)
