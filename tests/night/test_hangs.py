"""Candidates that hang or kill their worker, through real workers: each is judged, and the next one
finds workers that are well."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import stream
from killing import DEADLY, Killing

from kernelsmith import catalog, devices
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.subject import Limits
from kernelsmith.model import Candidate, CompileJob, RunJob, Verdict, new_candidate
from kernelsmith.sandbox.process import open_process

LIMITS = Limits(
    sessions_max=1,
    octets=1,
    window_ms=0.2,
    hidden_per_call=1,
    run_timeout_s=4.0,  # room for the seed on a busy machine
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
    stream.write(folder)
    task = catalog.load_task(stream.NAME, "cpu", [Path(folder)])
    sandbox = open_process()
    gate = Gate(task, devices.get("cpu"), sandbox, 5, LIMITS)
    yield Real(gate)
    gate.close()
    sandbox.close()


HANGS = {
    "a kernel that never ends": ("TIMEOUT", "parity.infer"),
    "host code that never ends": ("TIMEOUT", "trace"),
    "a text that takes for ever to emit": ("TIMEOUT", "trace"),
    "a text that takes for ever to compile": ("TIMEOUT", "compile"),
}


def hanging(name: str) -> str:
    """The source; one that takes for ever to emit is one to compile, with more turns."""
    if name in stream.KINDS:
        return stream.source(stream.KINDS.index(name))
    compiled = stream.source(stream.KINDS.index("a text that takes for ever to compile"))
    return compiled.replace("static_range(3000)", "static_range(100000)")


def test_where_memory_runs_out_workers_go_before_the_loop(real: Real) -> None:
    assert real.judge(stream.SEED).accepted
    scores = {Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in real.processes()}
    assert scores == {"500\n"}
    assert int(Path("/proc/self/oom_score_adj").read_text()) < 500


@pytest.mark.slow
@pytest.mark.parametrize("name", HANGS)
def test_what_hangs_is_judged_by_its_time_and_the_workers_stay(real: Real, name: str) -> None:
    status, check = HANGS[name]
    assert real.judge(stream.SEED).accepted
    before = real.processes()
    verdict = real.judge(hanging(name))
    last = verdict.checks[-1]
    assert (verdict.status, last.name) == (status, check), last.message
    assert real.processes() == before
    assert real.judge(stream.SEED).accepted


@pytest.mark.parametrize(("kind", "check"), [(CompileJob, "compile"), (RunJob, "parity.infer")])
def test_a_candidate_whose_template_is_killed_twice_is_judged_and_the_next_has_a_new_one(
    real: Real, kind: type, check: str
) -> None:
    """SIGKILL, as the system sends it when memory runs out: to the template and all it started."""
    sound, sandbox = real.gate.bench.workers.sandbox, Killing(real.gate.bench.workers.sandbox, kind)
    real.gate.bench.workers.sandbox = sandbox  # type: ignore[assignment]
    real.gate.bench.workers._workers.clear()
    try:
        verdict = real.judge(stream.SEED.replace("_rows", DEADLY))
        after = real.judge(stream.SEED.replace("BLOCK=128", "BLOCK=64"))
    finally:
        real.gate.bench.workers.sandbox = sound
    last = verdict.checks[-1]
    assert (verdict.status, last.name) == ("CRASH", check), last.message
    assert "twice, while the seed passed in between and after: the launcher worker died" in (
        last.message
    )
    assert len(sandbox.killed) == 2
    assert not set(sandbox.killed) & real.processes()
    assert after.accepted, after.checks[-1].message
