"""The whole chain for real: front end, CPU compiler, launcher, a timing session, the verdict.

Few cases and few row counts; the full tasks go through the same code in ``doctor --gate``.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kernelsmith import catalog, devices
from kernelsmith.gate import declared_range, hidden
from kernelsmith.gate.judge import BITS, Gate
from kernelsmith.gate.probes.cheats import cheats
from kernelsmith.gate.probes.mutants import mutants
from kernelsmith.gate.subject import Limits, Subject
from kernelsmith.model import Candidate, Task
from kernelsmith.sandbox.choose import choose


def small_task() -> Task:
    """rms_norm, plain calls in bfloat16, one small case a call form."""
    task = catalog.load_task("rms_norm", "cpu")
    chosen = {}
    for case in sorted(task.cases, key=lambda c: (c.dim("M") < 33, c.dim("M") * c.dim("N"))):
        if case.call in ("train", "infer", "backward") and case.dtype == "bfloat16":
            chosen.setdefault(case.call, replace(case, weight=1.0))
    return replace(task, cases=tuple(chosen.values()), token_range=(0, 12), ranges=())


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    sandbox = choose("auto", trusted_origin=True)
    made = Gate(
        small_task(),
        devices.get("cpu"),
        sandbox,
        secret_seed=20_261_129,
        limits=Limits(sessions_max=1, octets=1, window_ms=0.2, hidden_per_call=1),
    )
    yield made
    made.close()
    sandbox.close()


def candidate(gate: Gate, source: str) -> Candidate:
    ident = hashlib.sha256(source.encode()).hexdigest()[:16]
    return Candidate(
        id=ident, task=gate.task.name, source=source, parents=(gate.seed.id,), author="search"
    )


def test_the_seed_passes_every_bit_check_and_is_not_faster(gate: Gate) -> None:
    verdict = gate.judge(gate.seed, gate.seed, 0)
    assert [(c.name, c.message) for c in verdict.checks if c.status == "fail"] == [
        ("latency", verdict.checks[-1].message)
    ]
    assert verdict.status == "NOT_FASTER"
    assert "same machine code" in verdict.checks[-1].message


def test_a_mutant_is_rejected_with_case_element_and_bits(gate: Gate) -> None:
    source = dict(mutants(gate.task))["sum of squares in the device's order"]
    verdict = gate.judge(candidate(gate, source), gate.seed, 0)
    assert (verdict.status, verdict.checks[-1].name) == ("BITS_DIFFER", "parity.train")
    assert ", output " in verdict.checks[-1].message
    assert "first at [" in verdict.checks[-1].message
    assert verdict.checks[-1].evidence["ulp_distance"] >= 1


@pytest.mark.parametrize(
    "name",
    [
        "a kernel recognises numbers that probe it",
        "inference differs from training, seen from the other path alone",
        "two programs write one address",
        "skips its work when scratch holds its mark",
        "writes an input after reading it",
    ],
)
def test_a_cheat_within_the_language_is_rejected_for_its_reason(gate: Gate, name: str) -> None:
    cheat = next(each for each in cheats(gate.task) if each.name == name)
    verdict = gate.judge_bits(candidate(gate, cheat.source), cheat.walk or BITS)
    assert verdict.status == cheat.status
    assert verdict.checks[-1].name in cheat.checks


def test_a_grid_that_is_wrong_at_one_row_count_is_met_in_the_declared_range(gate: Gate) -> None:
    head, entry, tail = gate.seed.source.partition("def forward_infer(")
    wrong = tail.replace("_forward[(n_rows,)]", "_forward[(n_rows - (n_rows == 7),)]", 1)
    assert wrong != tail
    subject = Subject(candidate=candidate(gate, head + entry + wrong), role="launcher")
    assert gate.bench.prepare(subject, gate.task.cases).status is None
    assert declared_range.check(gate.bench, gate.reference, subject).status is None
    drawn = hidden.draw_beyond(subject, seed=1)
    found = hidden.check_bits(gate.bench, gate.reference, subject, drawn)
    assert found.status == "UNCONFIRMED"
    assert "M=7" in found.message


def test_equal_bits_in_other_code_are_timed(gate: Gate) -> None:
    """The same arithmetic in the other order of a commutative product: other code, same bits."""
    source = gate.task.seed_source.replace("(h * rstd) * weight", "weight * (h * rstd)")
    assert source != gate.task.seed_source
    verdict = gate.judge(candidate(gate, source), gate.seed, 0)
    assert verdict.status == "NOT_FASTER", verdict.checks[-1].message
    assert verdict.checks[-1].name in ("latency", "confirm")


def test_pointer_alignment_is_rightly_no_part_of_an_object_id(gate: Gate) -> None:
    """Two texts of one object id that differ in ``tt.divisibility`` compile to equal code."""
    device = devices.get("cpu")
    by_object: dict[str, set[str]] = {}
    for plan_class in gate.reference.seed.classes.values():
        by_object.setdefault(device.object_id(plan_class.ttir), set()).add(plan_class.ttir)
    pair = next(sorted(texts) for texts in by_object.values() if len(texts) > 1)
    assert len({text.count("tt.divisibility") for text in pair}) > 1
    assert len({device.compile_ttir(text).info.code_hash for text in pair}) == 1
