"""Trees of processes stopped from outside: none runs on, none is lost, all go on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelsmith.sandbox import freezing

# A tree that never stands still: it forks, spins in threads, and has one child whose parent died.
TREE = """
import os, sys, threading, time
if os.fork() == 0:
    if os.fork() == 0:
        while True: pass          # an orphan of the same session
    os._exit(0)
os.wait()
for _ in range(2):
    if os.fork() == 0:
        threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
        while True: time.sleep(0.001)
if os.fork() == 0:
    # Its first thread ends: it looks like a zombie, and computes.
    import ctypes
    threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
    ctypes.CDLL(None).pthread_exit(None)
print("up", flush=True)
while True:
    if os.fork() == 0:
        time.sleep(0.01); os._exit(0)
    os.wait()
"""


@contextmanager
def tree() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", TREE], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        for each in freezing.stop([process.pid]):
            if each.state != "Z":
                os.kill(each.pid, signal.SIGKILL)
        process.kill()
        process.stdout.close()
        process.wait()


def processor_ticks(pids: list[int]) -> int:
    total = 0
    for place in (task for pid in pids for task in Path(f"/proc/{pid}/task").glob("*/stat")):
        fields = place.read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total


def test_a_tree_that_forks_and_spins_stands_still_and_goes_on() -> None:
    with tree() as process:
        stopped = freezing.stop([process.pid])
        pids = [each.pid for each in stopped]
        assert len(pids) >= 5
        before, first = processor_ticks(pids), processor_ticks(pids[:5])
        time.sleep(0.3)
        assert processor_ticks(pids) == before
        assert {each.pid for each in freezing.family([process.pid])} == set(pids)
        assert freezing.held_bytes(pids) > 1 << 20
        freezing.go_on(stopped)
        until_s = time.monotonic() + 20
        while processor_ticks(pids[:5]) <= first:
            assert time.monotonic() < until_s


def test_a_process_that_is_gone_is_no_trouble() -> None:
    with tree() as process:
        stopped = freezing.stop([process.pid])
    freezing.go_on(stopped)
    # Nobody may have waited yet for those whose parent had died.
    assert {each.state for each in freezing.stop([process.pid])} <= {"Z"}
    assert freezing.held_bytes(each.pid for each in stopped) == 0
