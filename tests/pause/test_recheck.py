"""After a pause, on fake workers: what is asked, what is started anew, what ends the run."""

import pytest

from kernelsmith.errors import EvidenceError
from kernelsmith.model import RunJob, TraceJob
from tests.gate.conftest import Kit, make_kit


@pytest.fixture
def kit() -> Kit:
    made = make_kit()
    made.gate.reference.compute(made.task.cases)
    made.sandbox.log.clear()
    return made


def other_bits(kit: Kit) -> None:
    """The record says otherwise than the workers will."""
    kept = kit.gate.reference._outputs
    for case, outputs in kept.items():
        kept[case] = tuple(bytes(each ^ 1 for each in output) for output in outputs)


def test_each_worker_answers_under_the_nonce(kit: Kit) -> None:
    found = kit.gate.recheck("n0nce")
    assert found["workers"] == ["frontend", "seed", "launcher"]
    assert found["started_anew"] == ""
    asked = [(role, job) for role, job in kit.sandbox.log if isinstance(job, TraceJob | RunJob)]
    assert [role for role, _ in asked] == ["frontend", "seed", "launcher"]
    for _, job in asked:
        (one,) = job.calls if isinstance(job, TraceJob) else job.runs
        assert one.key == f"{found['case']} n0nce"


def test_workers_with_other_bits_are_started_anew_and_then_end_the_run(kit: Kit) -> None:
    other_bits(kit)
    with pytest.raises(EvidenceError, match=r"not what they were: the seed worker: .*started anew"):
        kit.gate.recheck("n")
    assert [job for _, job in kit.sandbox.log].count("renewed") == 3


def test_another_plan_of_the_front_end_is_noticed(kit: Kit) -> None:
    plans = kit.gate.reference.seed.plans
    first, second, *_ = [case.id for case in kit.task.cases]
    for case in plans:
        plans[case] = plans[second if case == first else first]
    with pytest.raises(EvidenceError, match="the front end traces another plan"):
        kit.gate.recheck("n")


def test_a_gate_that_has_not_run_asks_nothing() -> None:
    kit = make_kit()
    assert kit.gate.recheck("n") == {"case": None, "workers": [], "started_anew": ""}
    assert kit.sandbox.log == []
