"""What counts as the same text, and what a judge by tolerance sees."""

import json
import struct
import sys
from pathlib import Path

import pytest

from kernelsmith import catalog

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import mutant_judging  # noqa: E402
import mutant_report  # noqa: E402
import mutant_tolerance  # noqa: E402

TEXT = """module {
  tt.func public @_k(%x: !tt.ptr<f32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant dense<1.0> : tensor<4xf32>
    %y = arith.addf %c1, %c1 : tensor<4xf32>
    tt.call @f(%c0, %y) : (i32, tensor<4xf32>) -> ()
  }
}
"""


def test_names_places_of_constants_and_locations_do_not_part_texts() -> None:
    one, two = TEXT.splitlines()[2:4]
    moved = TEXT.replace(f"{one}\n{two}", f"{two}\n{one}").replace("%y", "%z")
    located = moved.replace(
        "addf %c1, %c1 : tensor<4xf32>", "addf %c1, %c1 : tensor<4xf32> loc(#l)"
    )
    assert mutant_judging.settled(located) == mutant_judging.settled(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [("constant 0", "constant 1"), ("dense<1.0>", "dense<1.5>"), ("addf", "mulf"), ("4xf", "8xf")],
)
def test_another_constant_operation_or_type_parts_texts(old: str, new: str) -> None:
    assert mutant_judging.settled(TEXT.replace(old, new)) != mutant_judging.settled(TEXT)


def test_which_value_an_operation_takes_parts_texts() -> None:
    other = TEXT.replace(
        "%y = arith.addf %c1, %c1", "%w = arith.addf %c1, %c1\n    %y = arith.addf %w, %c1"
    )
    again = other.replace("%w, %c1", "%c1, %w")
    assert mutant_judging.settled(other) != mutant_judging.settled(again)


@pytest.mark.parametrize(
    ("actual", "torch_sees", "kernel_bench_sees"),
    [
        (1.0, False, False),
        (1.0 + 2.0**-23, False, False),
        (1.00005, True, False),
        (1.01, True, True),
        (float("nan"), True, True),
    ],
)
def test_tolerances_see_what_they_say(
    actual: float, torch_sees: bool, kernel_bench_sees: bool
) -> None:
    task = catalog.load_task("swiglu", "cpu")
    case = next(c for c in task.cases if c.dtype == "float32" and c.call == "infer")
    elements = case.dim("M") * case.dim("N")
    want = struct.pack(f"{elements}f", *([1.0] * elements))
    have = struct.pack(f"{elements}f", *([1.0] * (elements - 1)), actual)
    for rule, sees in (("torch.testing", torch_sees), ("KernelBench", kernel_bench_sees)):
        assert mutant_tolerance.close(rule, task, case, [want], [have]) is not sees


def test_public_inputs_are_one_shape_every_entry_and_both_dtypes() -> None:
    for name in ("rms_norm", "linear", "swiglu", "logprob"):
        task = catalog.load_task(name, "cpu")
        cases = mutant_tolerance.public_cases(task)
        assert len({case.dims for case in cases}) == 1
        assert {case.regime for case in cases} == {"normal"}
        assert {task.call(case.call).entry for case in cases} == set(task.entries)
        assert {case.dtype for case in cases} == {"float32", "bfloat16"}


def test_the_page_is_of_the_committed_figures() -> None:
    document = json.loads((ROOT / "benchmarks" / "results" / "mutants.json").read_text())
    page = (ROOT / "docs" / "mutants.md").read_text()
    assert page == mutant_report.page(document)
    assert len({one["id"] for one in document["mutants"]}) == document["judged"]


@pytest.mark.parametrize(
    ("expected", "found", "right"),
    [
        (["BITS_DIFFER", "parity"], ("caught", "BITS_DIFFER", "parity.infer"), True),
        (["BITS_DIFFER", "parity.train"], ("caught", "BITS_DIFFER", "parity.infer"), False),
        (["MEMORY", "memory"], ("caught", "BITS_DIFFER", "memory"), False),
        (["BITS_DIFFER", "parity"], ("missed", "ACCEPTED", ""), False),
        (["ACCEPTED", None], ("missed", "ACCEPTED", ""), True),
        (["ACCEPTED", None], ("equivalent", "ACCEPTED", ""), True),
        (["ACCEPTED", None], ("caught", "BITS_DIFFER", "parity.infer"), False),
        (None, ("missed", "ACCEPTED", ""), True),
    ],
)
def test_a_mutant_by_hand_is_held_to_its_table(
    expected: list[str | None] | None, found: tuple[str, str, str], right: bool
) -> None:
    outcome, status, check = found
    record = {"expected": expected, "outcome": outcome, "status": status, "check": check}
    assert mutant_judging.as_expected(record) is right
