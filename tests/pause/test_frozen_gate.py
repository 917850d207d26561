"""Real workers behind a real wall, stopped in the middle of a job and let go on."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelsmith import catalog, devices
from kernelsmith.errors import EvidenceError, MissingError
from kernelsmith.gate import sessions
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Ask, Limits, Subject
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Rooted, Sandbox
from kernelsmith.sandbox import freezing
from kernelsmith.sandbox.choose import choose
from tests.operations.processes import until
from tests.pause.test_freezing import processor_ticks

LONG_S, SHORT_S = 1.5, 0.3
PATIENCE_S = 30.0


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    try:
        found = choose(request.param, trusted_origin=True)
    except MissingError as error:
        pytest.skip(f"{request.param}: {error.message}")
    yield found
    found.close()


@pytest.fixture(scope="module")
def gate(sandbox: Sandbox) -> Iterator[Gate]:
    task = catalog.load_task("rms_norm", "cpu")
    case = next(each for each in task.cases if each.call == "infer" and 3 < each.dim("M") < 70)
    task = replace(task, cases=(replace(case, weight=1.0),), token_range=(0, 12), ranges=())
    made = Gate(
        task,
        devices.get("cpu"),
        sandbox,
        secret_seed=20_261_130,
        limits=Limits(run_timeout_s=1.0, sessions_max=1, octets=1, window_ms=0.2),
        pauses=Pauses(),
    )
    # As the property does, without holding the seed to claims that one case cannot show.
    made._reference = Reference(made.bench, Subject(candidate=made.seed, role="seed"), 1)
    made._reference.compute(task.cases)
    yield made
    made.close()


def asks_of(gate: Gate, count: int) -> list[Ask]:
    """Runs of the one case that take so long that a freeze falls into them."""
    case = gate.task.cases[0]
    inputs = gate.reference.inputs(case)
    return [Ask(key=f"{case.id} {n}", case=case, inputs=inputs) for n in range(count)]


def folder_of(sandbox: Any, role: str) -> Path:
    return Path(sandbox.pool.workers[role].folder)


def running_job(sandbox: Any, role: str) -> bool:
    """Whether the worker's process for a job has begun to answer it."""
    return any(folder_of(sandbox, role).glob("*/out.bin"))


def frozen_in_the_middle(
    sandbox: Any, pauses: Pauses, work: Callable[[], Any], seconds: float = SHORT_S
) -> Any:
    """What ``work`` returns though all workers stand still for so long while it waits."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    until(lambda: running_job(sandbox, "launcher"))
    pauses.close("freeze")
    sandbox.pause()
    roots = sandbox.roots() if isinstance(sandbox, Rooted) else []
    stopped = [each.pid for each in freezing.family(roots) or sandbox.pool.stopped]
    before = processor_ticks(stopped)
    time.sleep(seconds)
    assert len(stopped) >= 7  # three templates, what starts each, and a job
    assert processor_ticks(stopped) == before
    assert not found
    sandbox.resume()
    pauses.open()
    thread.join(PATIENCE_S)
    return found[0]


def test_a_job_frozen_for_longer_than_its_limit_answers_with_the_same_bits(
    gate: Gate, sandbox: Sandbox
) -> None:
    """The limit is 1 s and the freeze 1.5 s; nothing here does the job again."""
    with gate.bench.beside(Pauses()) as plain:
        plain.objects, plain.trusted = gate.bench.objects, gate.bench.trusted
        subject = replace(gate.reference.seed, role="launcher")
        plain.execute(subject, asks_of(gate, 1))
        outputs = gate.reference.outputs(gate.task.cases[0])
        done = frozen_in_the_middle(
            sandbox, Pauses(), lambda: plain.execute(subject, asks_of(gate, 60)), LONG_S
        )
    assert isinstance(done, list), done
    assert {execution.outputs for execution in done} == {outputs}


def test_a_job_that_overlaps_a_freeze_is_done_again(gate: Gate, sandbox: Sandbox) -> None:
    pauses = gate.bench.workers.pauses
    subject = replace(gate.reference.seed, role="launcher")
    done = frozen_in_the_middle(
        sandbox, pauses, lambda: gate.bench.execute(subject, asks_of(gate, 60))
    )
    assert isinstance(done, list), done
    assert pauses.take_notes() == [("job_discarded", {"job": "RunJob", "worker": "launcher"})]


def test_after_a_freeze_every_worker_answers_with_what_is_on_record(
    gate: Gate, sandbox: Sandbox
) -> None:
    sandbox.pause()
    sandbox.resume()
    case = gate.task.cases[0].id
    workers = ["frontend", "seed", "launcher"]
    assert gate.recheck("n1") == {"case": case, "workers": workers, "started_anew": ""}


def test_a_timing_session_that_overlaps_a_freeze_is_not_taken(gate: Gate, sandbox: Sandbox) -> None:
    """Neither as a success nor as a failure: the same session is taken again."""
    pauses, seed = gate.bench.workers.pauses, replace(gate.reference.seed, role="launcher")
    judged = replace(seed, timing=[])
    cases = list(gate.task.cases)
    limits = gate.bench.limits
    gate.bench.limits = replace(limits, octets=3, window_ms=10.0)
    try:
        session = frozen_in_the_middle(
            sandbox,
            pauses,
            lambda: sessions.run(gate.bench, gate.reference, seed, judged, cases, "one"),
        )
    finally:
        gate.bench.limits = limits
    assert isinstance(session, sessions.Session), session
    assert [one["session"] for one in judged.timing] == ["one"]
    assert pauses.take_notes() == [("job_discarded", {"job": "TimeJob", "worker": "launcher"})]


@pytest.mark.slow
def test_a_worker_that_was_lost_meanwhile_is_started_anew(gate: Gate, sandbox: Any) -> None:
    """No job of it was lost, so that nothing is told; the new one has to answer like the others."""
    if isinstance(sandbox, Rooted):
        pytest.skip("the engine's containers are killed in tests/sandbox")
    gate.recheck("n2")  # now it is ready for jobs
    lost = sandbox.pool.workers["launcher"].line
    lost.popen.kill()
    lost.popen.wait()
    found = gate.recheck("n3")
    assert (found["workers"], found["started_anew"]) == (["frontend", "seed", "launcher"], "")
    assert sandbox.pool.workers["launcher"].line is not lost


@pytest.mark.slow
def test_other_bits_than_those_on_record_end_the_run(gate: Gate, sandbox: Sandbox) -> None:
    case = gate.task.cases[0]
    kept = gate.reference.outputs(case)
    flipped = (bytes([kept[0][0] ^ 1]) + kept[0][1:], *kept[1:])
    gate.reference._outputs[case.id] = flipped
    try:
        with pytest.raises(EvidenceError, match="after a pause the workers of task rms_norm"):
            gate.recheck(secrets.token_hex(4))
    finally:
        gate.reference._outputs[case.id] = kept
