"""What the gate makes of observed runs: which check, which status, and what is said."""

from dataclasses import replace
from typing import Any

import pytest

from kernelsmith.gate.observed import LARGE_BYTES, chosen, telling
from kernelsmith.gate.observed_run import observe
from kernelsmith.gate.subject import Ask, Subject
from kernelsmith.model import Buffer, CompileJob, RunJob
from tests.gate.conftest import Kit

RACE = {"kind": "race", "line": "candidate.py:12", "does": "writes", "program": [1, 0, 0],
        "other_line": "candidate.py:9", "other_does": "reads", "other_program": [0, 2, 0],
        "buffer": "output 0", "argument": "y_ptr", "begin": 8, "end": 12}  # fmt: skip
OUTSIDE = {"kind": "out_of_bounds", "line": "candidate.py:7", "does": "reads", "buffer": "x",
           "argument": "x_ptr", "buffer_bytes": 64, "begin": 64, "end": 96, "count": 8}  # fmt: skip
LOOP = {"kind": "spin", "line": "candidate.py:5", "does": "reads", "buffer": "scratch 3",
        "other_line": "candidate.py:5", "begin": 0, "end": 4}  # fmt: skip


def observed_jobs(kit: Kit) -> list[RunJob]:
    return [job for _, job in kit.sandbox.log if isinstance(job, RunJob) and job.observed]


@pytest.mark.parametrize(
    ("finding", "check", "status", "words"),
    [
        (RACE, "determinism", "NONDETERMINISTIC",
         "race: program 1 of k writes bytes 8 to 11 of output y (y_ptr) at line 12, which program "
         "(0, 2, 0) reads at line 9"),
        ({**RACE, "kind": "float_atomic", "does": "adds floats atomically to"}, "determinism",
         "NONDETERMINISTIC", "program 1 of k adds floats atomically to bytes 8 to 11 of output y"),
        ({**RACE, "kind": "atomic_order", "does": "exchanges"}, "determinism", "NONDETERMINISTIC",
         "atomics that do not commute: program 1 of k exchanges bytes 8 to 11"),
        (OUTSIDE, "memory", "MEMORY", "out of bounds: program 0 of k reads bytes 64 to 95 of x "
         "(x_ptr) at line 7; x (x_ptr) has 64 bytes (8 accesses)"),
        ({**OUTSIDE, "kind": "gap"}, "memory", "MEMORY", "of x (x_ptr) between two rows at line 7"),
        ({**OUTSIDE, "kind": "unwritten"}, "memory", "MEMORY", "at line 7, which nobody wrote"),
        ({**LOOP, "kind": "unfinished", "count": 77}, "determinism", "TIMEOUT",
         "program 0 of k was still in the loop at line 5 after 77 turns"),
    ],
)  # fmt: skip
def test_a_finding_is_rejected_by_its_check_whatever_the_bits(
    kit: Kit, finding: dict[str, Any], check: str, status: str, words: str
) -> None:
    verdict = kit.judge(gain=1.5, finding=finding)
    last = verdict.checks[-1]
    assert (verdict.status, last.name) == (status, check)
    assert words in last.message
    assert last.evidence["line"] == finding["line"]
    assert last.evidence["bytes"] == [finding["begin"], finding["end"]]


def test_a_crash_is_explained_by_what_the_same_case_touches(kit: Kit) -> None:
    verdict = kit.judge(crashes="CRASH", finding=OUTSIDE)
    last = verdict.checks[-1]
    assert (verdict.status, last.name) == ("MEMORY", "memory")
    assert last.evidence["seen"].startswith("parity.train: CRASH: ")
    (job,) = observed_jobs(kit)
    assert len(job.runs) == 1


def test_a_crash_that_shows_nothing_stays_a_crash(kit: Kit) -> None:
    verdict = kit.judge(crashes="CRASH")
    assert (verdict.status, verdict.checks[-1].name) == ("CRASH", "parity.train")


def test_a_run_that_never_ends_is_told_by_its_loop(kit: Kit) -> None:
    verdict = kit.judge(crashes="TIMEOUT", finding=LOOP)
    last = verdict.checks[-1]
    assert (verdict.status, last.name) == ("TIMEOUT", "parity.train")
    assert "waits in the loop at line 5 for another program to change bytes 0 to 3" in last.message


def test_a_kernel_with_a_while_loop_is_observed_before_it_is_run(kit: Kit) -> None:
    verdict = kit.judge(text="scf.while", finding=LOOP)
    assert (verdict.status, verdict.checks[-1].name) == ("TIMEOUT", "parity.train")
    mine = [job for role, job in kit.sandbox.log if role == "launcher" and isinstance(job, RunJob)]
    assert [job.observed for job in mine] == [True]


def test_other_bits_are_looked_into_only_if_they_change_from_run_to_run(kit: Kit) -> None:
    steady = kit.judge(wrong_entry="forward_train", finding=RACE)
    assert (steady.status, steady.checks[-1].name) == ("BITS_DIFFER", "parity.train")
    assert not observed_jobs(kit)
    restless = kit.judge(wrong_entry="forward_train", wrong_poison=2, finding=RACE)
    assert restless.status == "BITS_DIFFER"  # in both runs that entry is wrong: the same bits
    restless = kit.judge(wrong_poison=1, finding=RACE)
    assert (restless.status, restless.checks[-1].name) == ("NONDETERMINISTIC", "determinism")
    assert restless.checks[-1].evidence["seen"].startswith("parity.train: BITS_DIFFER: case ")


def test_a_device_that_lowers_a_kernel_in_two_ways_does_not_judge_it(kit: Kit) -> None:
    verdict = kit.judge(gain=1.5, wrong_when_observed=True)
    assert (verdict.status, verdict.checks[-1].name) == ("COMPILE", "determinism")
    assert "the device's own fault" in verdict.checks[-1].message


def test_what_was_clean_is_not_observed_again(kit: Kit) -> None:
    kit.judge(gain=1.0)
    first = len(observed_jobs(kit))
    kit.judge(gain=1.0, note="the same kernel")
    assert first == 1
    same = kit.gate.judge_bits(kit.gate.seed)
    before = len(observed_jobs(kit))
    assert same.accepted
    assert kit.gate.judge_bits(kit.gate.seed).accepted
    assert len(observed_jobs(kit)) == before


def test_observing_builds_of_the_seeds_kernels_are_made_once(kit: Kit) -> None:
    def built() -> int:
        jobs = [job for _, job in kit.sandbox.log if isinstance(job, CompileJob) and job.observed]
        return len(jobs)

    bench, reference = kit.gate.bench, kit.gate.reference
    assert kit.gate.judge_bits(kit.gate.seed).accepted
    case, once = kit.gate.task.cases[0], built()
    ask = Ask(key=case.id, case=case, inputs=reference.inputs(case))
    (seen,) = observe(bench, seed_subject(kit), [ask])
    assert seen.outputs == reference.outputs(case)
    assert built() == once
    other = Subject(candidate=kit.candidate(gain=1.5, text="other"), role="launcher")
    assert bench.prepare(other, [case]).status is None
    for more in (1, 2):  # a candidate's own texts are built for each look
        observe(bench, other, [ask])
        assert built() == once + more


def seed_subject(kit: Kit) -> Subject:
    seed = kit.gate.reference.seed
    return Subject(
        candidate=kit.gate.seed,
        role="launcher",
        plans=seed.plans,
        classes=seed.classes,
        object_of=seed.object_of,
    )


def test_the_telling_cases_cover_kernels_call_forms_and_tails(kit: Kit) -> None:
    cases = telling(kit.gate.task, seed_subject(kit))
    assert {case.call for case in cases} == {call.name for call in kit.gate.task.calls}
    assert {case.dim("M") for case in cases if case.call == "infer"} == {40}
    assert {case.dim("M") for case in cases if case.call == "train"} == {7}


def test_all_declared_cases_are_observed_but_those_that_touch_the_same(new_kit: Any) -> None:
    kit = new_kit()
    subject = seed_subject(kit)
    cases = chosen(kit.gate.task, subject)
    assert sorted(case.id for case in cases) == sorted(case.id for case in kit.gate.task.cases)
    first = kit.gate.task.cases[0]
    again, other = replace(first, id="once more"), replace(first, id="another", regime="ties")
    subject.plans |= {again.id: subject.plans[first.id], other.id: subject.plans[first.id]}
    more = replace(kit.gate.task, cases=(*kit.gate.task.cases, again, other))
    assert len(chosen(more, subject)) == len(cases) + 1
    assert other in chosen(more, subject)


def test_scratch_takes_no_case_out_of_those_that_are_observed(new_kit: Any) -> None:
    kit = new_kit()
    subject = seed_subject(kit)
    scratch = Buffer(nbytes=LARGE_BYTES + 1)
    for name, plan in subject.plans.items():
        subject.plans[name] = replace(plan, buffers=(*plan.buffers, scratch))
    assert len(chosen(kit.gate.task, subject)) == len(kit.gate.task.cases)


def test_a_finding_in_a_hidden_shape_is_unconfirmed(kit: Kit) -> None:
    verdict = kit.judge(gain=1.5, finding=RACE, finds_hidden=True)
    last = verdict.checks[-1]
    assert (verdict.status, last.name) == ("UNCONFIRMED", "confirm")
    assert last.message.startswith("hidden shape: case hidden ")
    assert "race: program 1 of k" in last.message


def test_hidden_shapes_are_observed_for_as_long_as_the_seed_lets_expect(kit: Kit) -> None:
    kit.judge(gain=1.5, note="long")
    hidden = [job for job in observed_jobs(kit) if job.runs[0].key.startswith("hidden")]
    assert hidden
    assert all(job.timeout_s > kit.gate.limits.run_timeout_s + 1.0 for job in hidden)
