"""What a review says of each check comes from its evidence; what is not there is not assumed."""

from dataclasses import replace
from typing import Any

import pytest

from kernelsmith.cli import believed
from kernelsmith.gate.judge import BITS
from kernelsmith.model import CheckResult

REAL: dict[str, dict[str, Any]] = {  # of a verdict of the gate, shortened
    "policy": {},
    "trace": {"calls": 166, "launches": 251, "plan_classes": 84},
    "compile": {"arena_bytes_max": 54400, "objects": 30, "plan_classes": 84},
    "witness": {
        "accumulators": {"candidate": ["loop f32"], "seed": ["loop f32"]},
        "differences": ["ops: + math.fma"],
        "kernels": ["_forward", "_backward"],
        "texts": 30,
    },
    "parity.train": {"cases": 103, "elements": 5635472},
    "parity.infer": {"cases": 63, "elements": 4204000},
    "cross_path": {"cuts": 8, "not_applicable": ["train: no call returns rstd"], "pairs": 168},
    "determinism": {"repeats": ["padded rows", "beside another process"], "runs": 384},
    "memory": {"runs": 664, "ways": ["poison 2", "memory all zero"]},
    "order": {
        "cases_of_seed_code": 12,
        "verified": {"y_over_k (bfloat16)": {"queries": 5390, "places": 2, "trees": ["chain"]}},
        "unreachable": {"squares_in_y (bfloat16)": "its last bit does not show"},
    },
    "latency": {"gain_warm": 1.712, "gain_cold": 1.41},
    "declared_range": {"classes_beyond_cases": 19, "token_range": [0, 300], "traced": 12341},
    "confirm": {
        "alpha": 0.0076,
        "hidden": ["hidden 0", "hidden 1"],
        "k": 2,
        "real": 416,
        "sessions": 10,
        "walked": 2472,
    },
}
SAYS = {
    "trace": ("166 calls", "251 launches", "84 plan classes"),
    "compile": ("84 plan classes", "30 objects"),
    "witness": ("2 kernels", "loop f32", "no branch", "beside the seed's: ops: + math.fma"),
    "parity.train": ("5,635,472 output elements", "103 cases", "gradients"),
    "parity.infer": ("4,204,000 output elements", "63 cases"),
    "cross_path": ("168 batches", "8 cut", "not comparable: train: no call returns rstd"),
    "determinism": ("384 runs", "beside another process"),
    "memory": ("664 runs", "memory all zero"),
    "order": ("1 declared sums", "5,390 queries", "12 cases", "not seen: squares_in_y"),
    "latency": ("1.712x", "accepts nothing"),
    "declared_range": ("from 0 to 300", "12,341 calls", "19 plan classes"),
    "confirm": ("2 hidden shapes", "2,472 calls", "416 calls", "10 sessions", "0.0076", "number 2"),
}


def passed(name: str, evidence: dict[str, Any]) -> CheckResult:
    return CheckResult(name=name, status="pass", seconds=1.0, evidence=evidence)


@pytest.mark.parametrize("name", list(SAYS))
def test_each_count_on_record_is_said(name: str) -> None:
    words = believed.words(passed(name, REAL[name]))
    assert not [part for part in SAYS[name] if part not in words]


@pytest.mark.parametrize("name", list(SAYS))
def test_a_count_that_is_not_on_record_is_not_assumed(name: str) -> None:
    check = passed(name, {})
    assert believed.words(check) == believed.MISSING
    assert believed.is_missing(check)
    assert not believed.is_missing(passed(name, REAL[name]))


def test_an_unknown_check_and_one_that_did_not_run_are_named_so() -> None:
    assert believed.is_missing(passed("something new", {"cases": 3}))
    unchecked = CheckResult(name="order", status="unchecked", seconds=0.0)
    assert believed.words(unchecked) == "not checked: nothing is known about it"
    undeclared = replace(unchecked, message="the task declares no [[reductions]]")
    assert believed.words(undeclared) == "not checked: the task declares no [[reductions]]"


def test_every_check_about_bits_has_its_words() -> None:
    assert set(BITS) <= set(REAL)
    assert not [name for name in REAL if believed.is_missing(passed(name, REAL[name]))]
