"""The order of the gate and each check's verdict, on workers that obey named faults."""

from dataclasses import replace
from typing import Any

import pytest

from kernelsmith.errors import EvidenceError, InputError, TaskError
from kernelsmith.model import RunJob, TimeJob, TraceJob
from tests.gate.fake_workers import source_of

ORDER = [
    "policy",
    "trace",
    "compile",
    "witness",
    "parity.train",
    "parity.infer",
    "cross_path",
    "determinism",
    "memory",
    "order",
    "latency",
    "declared_range",
    "confirm",
]


def test_a_faster_equal_candidate_is_accepted_with_all_its_checks(kit: Any) -> None:
    verdict = kit.judge(gain=1.05)
    assert (verdict.status, verdict.checks[-1].message) == ("ACCEPTED", "")
    assert [check.name for check in verdict.checks] == ORDER
    assert [check.status for check in verdict.checks if check.name != "order"] == ["pass"] * 12
    assert verdict.unchecked == ("order",)
    assert verdict.gain.sessions == 8
    assert verdict.gain.low <= verdict.gain.geomean <= verdict.gain.high
    assert verdict.gain.geomean == pytest.approx(1.05, rel=0.01)
    assert [case.case for case in verdict.gain.cases] == ["train-40", "infer-1", "backward-40"]
    assert verdict.gain.against == kit.gate.seed.id
    assert len(verdict.samples) == 9  # the screen and eight sessions


@pytest.mark.parametrize(
    ("faults", "status", "check", "says"),
    [
        ({"drops_output": True}, "SIGNATURE", "trace", "returns 1 tensors, the seed 2"),
        ({"transposes": True}, "SIGNATURE", "trace", "output y has strides"),
        ({"returns_input": True}, "SIGNATURE", "trace", "output y aliases the input x"),
        ({"trace_fails_at": 40}, "TRACE", "trace", "-40: no branch for it"),
        ({"no_compile": True}, "COMPILE", "compile", "kernel k: op tt.nope"),
        ({"crashes": "CRASH"}, "CRASH", "parity.train", "the process died"),
        ({"crashes": "TIMEOUT"}, "TIMEOUT", "parity.train", "the process died"),
        ({"wrong_entry": "forward_train"}, "BITS_DIFFER", "parity.train", "output s: 1 of "),
        ({"wrong_entry": "backward"}, "BITS_DIFFER", "parity.train", "first at [5]"),
        (
            {"wrong_entry": "forward_infer"},
            "BITS_DIFFER",
            "parity.infer",
            "case infer-40, output y: 1 of 240",
        ),
        ({"adds": 1.0}, "BITS_DIFFER", "parity.train", "ulp apart"),
        ({"wrong_at_rows": 16}, "PATHS_DIFFER", "cross_path", "decode of 16, output y, token"),
        ({"wrong_at_rows": 33}, "PATHS_DIFFER", "cross_path", "decode of 33"),
        ({"sums_apart": True}, "PATHS_DIFFER", "cross_path", "cut in front of token"),
        ({"wrong_order": "descending"}, "NONDETERMINISTIC", "determinism", "order descending"),
        ({"wrong_order": "threads:2"}, "NONDETERMINISTIC", "determinism", "on 2 threads"),
        ({"wrong_misaligned": True}, "NONDETERMINISTIC", "determinism", "8 bytes off"),
        ({"wrong_padded": True}, "NONDETERMINISTIC", "determinism", "padded rows"),
        ({"atomic": True}, "NONDETERMINISTIC", "witness", "adds floats atomically"),
        ({"wrong_poison": 3}, "MEMORY", "memory", "did not write"),
        ({"wrong_stale": True}, "MEMORY", "memory", "scratch left by an earlier call"),
        ({"canary": True}, "MEMORY", "memory", "wrote past scratch 0 after"),
        ({"writes_input": True}, "MEMORY", "memory", "changed input x"),
        ({"gain": 1.05, "trace_fails_at": 29}, "TRACE", "declared_range", "M=29: no branch for it"),
        ({"gain": 1.0}, "NOT_FASTER", "latency", "in one session"),
        ({"gain": 1.05, "knows_real": True}, "UNCONFIRMED", "confirm", "another launch 0"),
        ({"gain": 1.05, "cold_gain": 1.0}, "NOT_FASTER", "confirm", "cold 0 of 8"),
        ({"skips_when_timed": True}, "UNCONFIRMED", "latency", "timed replay"),
        ({"impossible": True}, "UNCONFIRMED", "latency", "the measurement fails"),
    ],
)
def test_each_fault_meets_its_check(
    kit: Any, faults: dict[str, Any], status: str, check: str, says: str
) -> None:
    verdict = kit.judge(**faults)
    last = verdict.checks[-1]
    assert (verdict.status, last.name, last.status) == (status, check, "fail")
    assert says in last.message
    assert "\n" not in last.message
    assert verdict.gain is None
    names = [c.name for c in verdict.checks]
    # What already a first look shows, one case of each entry, is told before all is traced.
    before = ORDER[: ORDER.index(check)]
    assert names in ([*before, check], ["policy", check])
    assert all(c.status in ("pass", "unchecked") for c in verdict.checks[:-1])


def test_a_branch_no_case_takes_is_compiled_and_its_bits_compared(new_kit: Any) -> None:
    kit = new_kit(token_range=(0, 60), ranges=(), hidden=0)
    late = {"gain": 1.05, "branch_at": 50}
    assert kit.judge(**late).accepted
    verdict = kit.judge(**late, no_compile_branch=True)
    assert (verdict.status, verdict.checks[-1].name) == ("COMPILE", "declared_range")
    verdict = kit.judge(**late, wrong_branch=True)
    assert (verdict.status, verdict.checks[-1].name) == ("UNCONFIRMED", "confirm")
    assert " M=5" in verdict.checks[-1].message


def test_hidden_shapes_see_what_no_case_and_no_composition_has(new_kit: Any) -> None:
    kit = new_kit(ranges=(("N", (3,)),))
    verdict = kit.judge(gain=1.05, wrong_outside=False)
    assert verdict.accepted
    hidden = [
        run.inputs.tensors[0].meta.shape[1]
        for role, job in kit.sandbox.log
        if role == "launcher" and isinstance(job, RunJob)
        for run in job.runs
        if run.key.startswith("hidden")
    ]
    # plain, shuffled at other pointers, other poison, observed
    assert len(hidden) == 4 * 8
    assert set(hidden) == {3}


def test_a_case_slower_than_the_incumbent_regresses(kit: Any) -> None:
    gains = {"train-40": 0.9, "infer-1": 1.5, "backward-40": 1.5}
    verdict = kit.judge(case_gains=gains)
    assert verdict.status == "REGRESSES"
    assert "case train-40 not cleared" in verdict.checks[-1].message
    assert verdict.checks[-1].evidence["sessions"] == 8


def test_the_kth_candidate_needs_more_sessions(kit: Any) -> None:
    assert kit.judge(confirms=9, gain=1.05).gain.sessions == 15


def test_the_seed_itself_passes_every_bit_check_and_is_not_faster(kit: Any) -> None:
    verdict = kit.gate.judge(kit.gate.seed, kit.gate.seed, 0)
    assert verdict.status == "NOT_FASTER"
    assert "same machine code" in verdict.checks[-1].message
    assert [c.status for c in verdict.checks] == ["pass"] * 9 + ["unchecked", "fail"]
    assert not [job for _, job in kit.sandbox.log if isinstance(job, TimeJob)]


def test_expected_bytes_and_candidate_code_never_meet(kit: Any) -> None:
    assert kit.judge(gain=1.05).accepted
    for role, job in kit.sandbox.log:
        if role == "seed" and isinstance(job, RunJob):
            assert not [key for key in job.object_of if key not in kit.gate.reference.seed.classes]
    # The fake seed worker asserts that it runs no candidate code; overrides are the subject's own.


def test_an_accepted_candidate_becomes_the_one_to_beat(kit: Any) -> None:
    first, second = kit.candidate(gain=1.05), kit.candidate(gain=1.07)
    assert kit.gate.judge(first, kit.gate.seed, 0).accepted
    verdict = kit.gate.judge(second, first, 1)
    assert verdict.accepted
    assert verdict.gain.geomean == pytest.approx(1.07 / 1.05, rel=0.01)
    assert verdict.gain.against == first.id
    slower = kit.gate.judge(kit.candidate(gain=1.055), first, 2)
    assert slower.status == "NOT_FASTER"


def test_an_incumbent_of_an_earlier_process_is_made_ready_again(kit: Any, new_kit: Any) -> None:
    first = kit.candidate(gain=1.05)
    fresh = new_kit()
    assert fresh.gate.judge(fresh.candidate(gain=1.1), first, 0).accepted


def test_retime_against_the_seed_runs_all_sessions(kit: Any) -> None:
    holds, gain, evidence = kit.gate.retime(kit.candidate(gain=1.05), 20, 0)
    assert holds
    assert (evidence["k"], evidence["alpha"]) == (1, pytest.approx(0.0304, abs=1e-4))
    assert gain.sessions == 20
    assert gain.against == kit.gate.seed.id
    assert len(evidence["samples"]) == 20
    holds, gain, _ = kit.gate.retime(kit.candidate(gain=1.005), 20, 0)
    assert not holds
    assert gain.sessions == 20


def test_a_judgement_cut_off_is_not_drawn_again_by_the_next_process_of_its_run(
    new_kit: Any,
) -> None:
    """Both gates have the run's secret; the second begins to count anew."""
    placements = []
    for confirms in (0, 0, 1):
        kit = new_kit()
        kit.gate.judge(kit.candidate(gain=1.05), kit.gate.seed, confirms)
        jobs = [job for _, job in kit.sandbox.log if isinstance(job, TimeJob)]
        placements.append({job.placement for job in jobs})
    first, again, cut_off = placements
    assert first == again
    assert not first & cut_off


def test_each_timing_against_the_seed_spends_of_one_allowance(kit: Any) -> None:
    """Twenty successes reach 1/alpha of the 50th timing, not of the 70th."""
    candidate = kit.candidate(gain=1.05)
    needed = []
    for timings in (0, 1, 49, 69):
        holds, _, evidence = kit.gate.retime(candidate, 20, timings)
        needed.append((holds, evidence["overall"]["warm"]["shown_after"]))
    assert needed == [(True, 8), (True, 10), (True, 20), (False, None)]


def test_equal_kernels_are_compiled_once(kit: Any) -> None:
    kit.judge(gain=1.0)
    before = [job for _, job in kit.sandbox.log if not isinstance(job, TraceJob)]
    kit.gate.judge(kit.gate.seed, kit.gate.seed, 0)
    after = [job for _, job in kit.sandbox.log if not isinstance(job, TraceJob)]
    new = [job for job in after[len(before) :] if type(job).__name__ == "CompileJob"]
    assert not [job for job in new if not job.observed]


def test_missing_evidence_raises(kit: Any) -> None:
    with pytest.raises(EvidenceError, match="no outputs of timed replays"):
        kit.judge(gain=1.05, no_replays=True)
    with pytest.raises(EvidenceError, match="unknown checks"):
        kit.gate.judge_bits(kit.gate.seed, ["parity.trian"])
    with pytest.raises(EvidenceError, match="no check"):
        kit.gate.judge_bits(kit.gate.seed, [])


def test_a_wrong_incumbent_raises_instead_of_blaming_the_candidate(kit: Any) -> None:
    with pytest.raises(EvidenceError, match=r"incumbent .* no longer has the seed's bits"):
        kit.gate.judge(kit.candidate(gain=1.05), kit.candidate(skips_when_timed=True), 0)


def test_a_seed_that_breaks_its_own_claims_is_a_task_error(new_kit: Any) -> None:
    calls = new_kit().task.calls
    claims = tuple(
        replace(
            call,
            outputs=tuple(replace(spec, block=3) if spec.block else spec for spec in call.outputs),
        )
        for call in calls
    )
    kit = new_kit(calls=claims)  # the op sums in blocks of 8: cuts at multiples of 3 change bits
    with pytest.raises(TaskError, match="the seed of task toy fails cross_path"):
        kit.judge(gain=1.05)


def test_a_seed_that_does_not_handle_its_range_is_a_task_error(new_kit: Any) -> None:
    kit = new_kit(seed_source=source_of(trace_fails_at=29))
    with pytest.raises(TaskError, match="fails in its declared range"):
        kit.judge(gain=1.05, trace_fails_at=29)


def test_an_empty_comparison_is_a_task_error_not_a_pass(new_kit: Any) -> None:
    cases = new_kit().task.cases
    train = tuple(case for case in cases if not case.call.startswith("infer"))
    with pytest.raises(TaskError, match="no case on the infer path"):
        new_kit(cases=train).judge(gain=1.05)
    apart = tuple(
        replace(call, outputs=tuple(replace(spec, cls="batch") for spec in call.outputs))
        for call in new_kit().task.calls
    )
    with pytest.raises(TaskError, match="no output that both paths or two batches share"):
        new_kit(calls=apart).judge(gain=1.05)


def test_a_candidate_of_another_task_is_refused(kit: Any) -> None:
    with pytest.raises(InputError, match="is of task other"):
        kit.gate.judge(replace(kit.candidate(gain=1.05), task="other"), kit.gate.seed, 0)


def test_what_only_a_branch_says_is_read_before_it_is_believed(new_kit: Any) -> None:
    """Of classes that no case takes: in the declared range, and among hidden shapes."""
    kit = new_kit(token_range=(0, 60), ranges=(), hidden=0)
    verdict = kit.judge(gain=1.05, branch_at=50, branch_decides=True)
    last = verdict.checks[-1]
    assert (verdict.status, last.name, verdict.gain) == ("POLICY", "declared_range", None)
    assert last.message.startswith("kernel k branches on what it loaded as a float")
    kit = new_kit(ranges=(("N", (3,)),))
    verdict = kit.judge(gain=1.05, decides_at_width=3)
    last = verdict.checks[-1]
    assert (verdict.status, last.name, verdict.gain) == ("POLICY", "confirm", None)
