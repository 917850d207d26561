"""A template that dies between two jobs, as all of an engine's do at once, costs nobody a try."""

import os
import signal
from pathlib import Path

from kernelsmith.sandbox.pipes import Pipes
from kernelsmith.sandbox.pool import Pool
from kernelsmith.sandbox.process import Process
from kernelsmith.sandbox.spool import open_spool
from tests.sandbox.conftest import job_of

SOURCE = "def forward(x):\n    return (x,)\n"


def test_a_template_that_died_between_jobs_is_started_anew_without_an_error(
    tmp_path: Path,
) -> None:
    sandbox = Process(pool=Pool(spool=open_spool((tmp_path,))), limits={})
    try:
        worker = sandbox.start("frontend")
        worker.submit(job_of(SOURCE)).close()
        first = worker.worker.line
        assert isinstance(first, Pipes)
        os.kill(first.popen.pid, signal.SIGKILL)
        os.waitid(os.P_PID, first.popen.pid, os.WEXITED | os.WNOWAIT)
        worker.submit(job_of(SOURCE)).close()
        assert worker.worker.line is not first
    finally:
        sandbox.close()
