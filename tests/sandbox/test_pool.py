"""How many templates a role has, and when another is started."""

import os
from collections.abc import Iterator

import pytest

from kernelsmith.errors import SandboxError
from kernelsmith.model import CompileResult, TraceResult
from kernelsmith.sandbox.process import Process, open_process
from tests.sandbox import small_kernel


@pytest.fixture
def sandbox() -> Iterator[Process]:
    opened = open_process()
    yield opened
    opened.close()


def test_another_launcher_is_started_only_while_a_job_waits_for_the_first(
    sandbox: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    frontend, launcher, other = (sandbox.start(r) for r in ("frontend", "launcher", "launcher"))
    traced = frontend.submit(small_kernel.trace_job(small_kernel.meta(4, 8))).result
    assert isinstance(traced, TraceResult)
    job = small_kernel.compile_job(traced)
    for lease in (launcher, other):
        assert isinstance(lease.submit(job).result, CompileResult)
    assert list(sandbox.pool.workers) == ["frontend", "launcher"]
    with launcher.worker.turn:  # as while a job of another gate runs
        assert isinstance(other.submit(job).result, CompileResult)
    assert list(sandbox.pool.workers) == ["frontend", "launcher", "launcher-1"]
    second = sandbox.pool.workers["launcher-1"]
    assert second.role == "launcher"
    launcher.renew()
    assert second.line is None, "renewed like the first: they are one role"
    with launcher.worker.turn:
        other.submit(job)
        before = second.line
        sandbox.pause()
        sandbox.resume()
        other.submit(job)
    assert second.line is not before, "started anew: after a pause only the first is asked"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with launcher.worker.turn:
        assert sandbox.pool.free("launcher", launcher.starts) is launcher.worker


def test_a_closed_sandbox_starts_nothing_more(sandbox: Process) -> None:
    launcher = sandbox.start("launcher")
    sandbox.close()
    with launcher.worker.turn, pytest.raises(SandboxError, match="this sandbox is closed"):
        launcher.submit(small_kernel.trace_job(small_kernel.meta(4, 8)))
    with pytest.raises(SandboxError, match="this sandbox is closed"):
        sandbox.start("launcher")
