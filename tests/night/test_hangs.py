"""Candidates that hang or kill their worker, through real workers: each is judged, and the next one
finds workers that are well."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import small

from kernelsmith import catalog, devices
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.subject import Limits
from kernelsmith.model import Candidate, CompileJob, RunJob, Verdict, new_candidate
from kernelsmith.sandbox.process import open_process
from tests.night.deadly import text_of

WORK = "y = x * w\n"
LIMITS = Limits(
    sessions_max=1,
    octets=1,
    window_ms=0.2,
    hidden_per_call=1,
    run_timeout_s=1.0,
    trace_timeout_s=15.0,
    compile_timeout_s=2.0,
)
BITS = ("policy", "trace", "compile", "witness", "parity.train", "parity.infer")


@dataclass
class Real:
    """The gate on real workers of the process wall."""

    gate: Gate

    def judge(self, source: str, names: tuple[str, ...] = BITS) -> Verdict:
        return self.gate.judge_bits(self.candidate(source), names)

    def candidate(self, source: str) -> Candidate:
        parents = (self.gate.seed.id,)
        return new_candidate(source, self.gate.task.name, author="search", parents=parents)

    def processes(self) -> set[int]:
        pool = self.gate.bench.workers.sandbox.pool  # type: ignore[attr-defined]
        return {worker.line.popen.pid for worker in pool.workers.values() if worker.line}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    folder = tmp_path_factory.mktemp("tasks")
    small.write(folder)
    task = catalog.load_task(small.NAME, "cpu", [Path(folder)])
    sandbox = open_process()
    gate = Gate(task, devices.get("cpu"), sandbox, 5, LIMITS)
    yield Real(gate)
    gate.close()
    sandbox.close()


def planted(new: str, old: str = WORK) -> str:
    assert small.SEED.count(old) == 1
    return small.SEED.replace(old, new)


ENDLESS = """y = x * w
        again = w
        while tl.max(again, axis=0) * 0.0 == 0.0:
            again = again * 1.0 + 0.0
        y = y + again * 0.0
"""
UNROLLED = """y = x * w
        for turn in tl.static_range({turns}):
            y = y + x * (w + turn)
            y = y - x * (w + turn)
"""
LOOP = "    turns = 0\n    for turn in range(10000000000):\n        turns = turn\n"
HANGS = {
    "a kernel that never ends": (planted(ENDLESS), "TIMEOUT", "parity.infer"),
    "host code that never ends": (
        planted(LOOP + "    y = torch.empty_like(x)\n", "    y = torch.empty_like(x)\n"),
        "TIMEOUT",
        "trace",
    ),
    "a text that takes for ever to emit": (
        planted(UNROLLED.format(turns=100_000)),
        "TIMEOUT",
        "trace",
    ),
    "a text that takes for ever to compile": (
        planted(UNROLLED.format(turns=3000)),
        "TIMEOUT",
        "compile",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HANGS)
def test_what_hangs_is_judged_by_its_time_and_the_workers_stay(real: Real, name: str) -> None:
    source, status, check = HANGS[name]
    assert real.judge(small.SEED).accepted
    before = real.processes()
    verdict = real.judge(source)
    last = verdict.checks[-1]
    assert (verdict.status, last.name) == (status, check), last.message
    assert real.processes() == before
    assert real.judge(small.SEED).accepted


@pytest.mark.parametrize(("kind", "check"), [(CompileJob, "compile"), (RunJob, "parity.infer")])
def test_a_candidate_whose_template_is_killed_twice_is_judged_and_the_next_has_a_new_one(
    real: Real, kind: type, check: str
) -> None:
    """SIGKILL, as the system sends it when memory runs out: to the template and all it started."""
    sound, sandbox = real.gate.bench.workers.sandbox, Killing(real, kind)
    real.gate.bench.workers.sandbox = sandbox  # type: ignore[assignment]
    real.gate.bench.workers._workers.clear()
    try:
        verdict = real.judge(small.SEED.replace("_rows", "_deadly"))
        after = real.judge(small.SEED.replace("BLOCK=1)", "BLOCK=4)"))
    finally:
        real.gate.bench.workers.sandbox = sound
    last = verdict.checks[-1]
    assert (verdict.status, last.name) == ("CRASH", check), last.message
    assert "twice, while the seed passed in between and after: the launcher worker died" in (
        last.message
    )
    assert len(sandbox.killed) == 2
    assert not sandbox.killed & real.processes()
    assert after.accepted, after.checks[-1].message


@dataclass
class Killing:
    """Real workers; a job of this kind that holds a kernel called deadly kills its template."""

    real: Real
    kind: type
    killed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sandbox = self.real.gate.bench.workers.sandbox

    def start(self, role: Any) -> "KillingWorker":
        return KillingWorker(self, self.sandbox.start(role))


@dataclass
class KillingWorker:
    """One of them."""

    of: Killing
    worker: Any

    def submit(self, job: Any, files: Any = None) -> Any:
        deadly = isinstance(job, self.of.kind) and "_deadly" in text_of(job, files)
        if not deadly or getattr(job, "observed", False):
            return self.worker.submit(job, files)
        process = self.worker.worker.started().popen.pid
        self.of.killed.add(process)
        os.killpg(process, signal.SIGSTOP)  # so that it dies in the middle of the job
        timer = threading.Timer(0.3, os.killpg, (process, signal.SIGKILL))
        timer.start()
        try:
            return self.worker.submit(job, files)
        finally:
            timer.join()

    def close(self) -> None:
        self.worker.close()
