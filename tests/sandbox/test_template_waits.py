"""The template's wait for a job: a time-out ends it, whoever is quicker."""

import subprocess
import sys

PROGRAM = """
import os, signal, time
from kernelsmith.worker import template

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
found = set()
for _ in range(300):
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        time.sleep(60)
    try:
        os.setpgid(child, child)
    except PermissionError:
        pass
    status, timed_out = template._wait(child, 0.0)
    found.add((os.waitstatus_to_exitcode(status), timed_out))
    template._kill_group(child)
print(found)
"""


def test_a_child_that_dies_at_once_when_killed_keeps_its_status() -> None:
    """Reaped while its group was killed, it had none left: the worker died of it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("{(-9, True)}", "")
