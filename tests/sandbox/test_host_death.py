"""When the host is killed nothing of it stays behind but a folder, which the next host sweeps."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelsmith.errors import MissingError
from kernelsmith.model import CompileJob, CompileResult
from kernelsmith.sandbox import freezing
from kernelsmith.sandbox.choose import choose

HOST = """
import sys, time
from kernelsmith.model import CompileJob
from kernelsmith.sandbox.choose import choose
sandbox = choose(sys.argv[1], trusted_origin=True)
worker = sandbox.start("launcher")
worker.submit(CompileJob(ttirs={}, device="cpu")).close()
print(sandbox.pool.spool.path, flush=True)
time.sleep(600)
"""


# Containers are no descendants of their host: tests/engine kills the hosts of those.
@pytest.mark.parametrize("wall", ["bubblewrap", "process"])
def test_workers_die_with_a_host_that_is_killed(wall):
    try:
        choose(wall, trusted_origin=True).close()
    except MissingError as error:
        pytest.skip(f"{wall}: {error.message}")
    host = subprocess.Popen([sys.executable, "-c", HOST, wall], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    spool = Path(host.stdout.readline().strip())
    workers = {each.pid for each in freezing.family([host.pid])} - {host.pid}
    assert workers
    # Stopped, as if busy: they cannot notice that their input has ended.
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    host.stdout.close()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    assert not left
    assert spool.exists()
    old = time.time() - 3600
    os.utime(spool, (old, old))
    choose("process", trusted_origin=True).close()
    assert not spool.exists()


def test_an_interrupted_job_leaves_no_answer_for_the_next(walls, frontend):
    sandbox = walls.sandbox_of(frontend)
    worker = sandbox.start("launcher")
    nothing = CompileJob(ttirs={}, device="cpu")
    worker.submit(nothing).close()

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        # A template that stands still cannot answer, so the wait is certain to be interrupted.
        sandbox.pause()
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        with pytest.raises(KeyboardInterrupt):
            worker.submit(nothing)
    finally:
        signal.signal(signal.SIGALRM, before)
        sandbox.resume()
    reply = worker.submit(nothing)
    assert reply.result == CompileResult(objects={})
    worker.close()
