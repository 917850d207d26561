"""How jobs end: time-outs, crashes, dead templates; and that the next job does not notice."""

import os
import signal

import pytest

from kernelsmith.errors import SandboxError
from kernelsmith.model import CompileJob, CompileResult
from kernelsmith.sandbox.pipes import Pipes
from kernelsmith.sandbox.pool import Leased

from .conftest import submit

FINE = """
def forward(x):
    return x.new_empty((2, 2))
"""


def kill(worker: Leased) -> None:
    """Kills a template with its wall."""
    line = worker.worker.line
    if isinstance(line, Pipes):
        os.killpg(line.popen.pid, signal.SIGKILL)
        os.waitid(os.P_PID, line.popen.pid, os.WEXITED | os.WNOWAIT)
    else:
        line.engine.client.api.kill(line.begun.result())


def test_a_module_that_is_well_answers(frontend):
    result = submit(frontend, FINE)
    assert result.failure is None
    assert result.plans["the call"].outputs[0].meta.shape == (2, 2)


def test_an_endless_entry_is_a_timeout_of_that_call(frontend):
    failure = submit(frontend, "def forward(x):\n    while True: pass\n", timeout_s=1.0).failure
    assert failure is not None
    assert (failure.status, failure.where) == ("TIMEOUT", "the call")
    assert submit(frontend, FINE).failure is None


def test_an_endless_module_is_a_timeout_of_the_module(frontend):
    failure = submit(frontend, "while True: pass\n", timeout_s=1.0).failure
    assert failure is not None
    assert (failure.status, failure.where) == ("TIMEOUT", "module")


def test_a_segmentation_fault_is_a_crash_of_that_call(frontend):
    source = "import ctypes\ndef forward(x):\n    ctypes.string_at(0)\n"
    failure = submit(frontend, source).failure
    assert failure is not None
    assert (failure.status, failure.where) == ("CRASH", "the call")
    assert "SIGSEGV" in failure.message
    assert submit(frontend, FINE).failure is None


@pytest.mark.parametrize("status", [0, 3, 70])
def test_a_process_that_ends_itself_is_a_crash(frontend, status):
    source = f"import os\ndef forward(x):\n    os._exit({status})\n"
    failure = submit(frontend, source).failure
    assert failure is not None
    assert failure.status == "CRASH"


def test_threads_left_running_end_with_the_job(frontend):
    source = (
        "import threading, time\n"
        "def forward(x):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=False).start()\n"
        "    return x.new_empty((2, 2))\n"
    )
    assert submit(frontend, source, timeout_s=10).failure is None


def test_a_template_that_died_between_jobs_is_started_anew(frontend, walls):
    launcher = walls.sandbox_of(frontend).start("launcher")
    nothing = CompileJob(ttirs={}, device="cpu")
    launcher.submit(nothing).close()
    kill(launcher)
    reply = launcher.submit(nothing)
    assert reply.result == CompileResult(objects={})
    launcher.close()
    with pytest.raises(SandboxError, match="closed"):
        launcher.submit(nothing)


def test_an_unknown_role_says_so_when_it_is_first_used(walls, frontend):
    worker = walls.sandbox_of(frontend).start("oracle")
    with pytest.raises(SandboxError, match="died at start: ValueError: role 'oracle'"):
        worker.submit(CompileJob(ttirs={}, device="cpu"))
    worker.close()


def test_folders_of_closed_replies_are_gone(frontend):
    submit(frontend, FINE)
    assert [path.name for path in frontend.worker.folder.iterdir()] == ["warm"]


def test_users_of_a_sandbox_share_one_template_and_do_not_end_each_others(frontend, walls):
    sandbox = walls.sandbox_of(frontend)
    first, second = sandbox.start("launcher"), sandbox.start("launcher")
    assert first.worker is second.worker
    first.close()
    nothing = CompileJob(ttirs={}, device="cpu")
    reply = second.submit(nothing)
    assert reply.result == CompileResult(objects={})
    reply.close()
    with pytest.raises(SandboxError, match="closed"):
        first.submit(nothing)
