"""Scratch memory: aligned, grown on demand, and fenced."""

import ctypes
import signal
import subprocess
import sys
import threading

import pytest

from kernelsmith.devices.cpu.arena import Arena, ThreadArenas


def test_reserve_gives_aligned_writable_bytes_and_keeps_them_until_it_must_grow() -> None:
    arena = Arena(100)
    first = arena.address
    assert first % 64 == 0
    assert arena.nbytes == 128
    ctypes.memset(first, 7, 128)
    assert arena.reserve(64) == first
    grown = arena.reserve(1_000_000)
    assert grown % 64 == 0
    ctypes.memset(grown, 7, 1_000_000)
    assert arena.nbytes >= 1_000_000


@pytest.mark.parametrize("offset", [128, -4096])
def test_writing_past_either_end_faults(offset: int) -> None:
    script = (
        "import ctypes; from kernelsmith.devices.cpu.arena import Arena\n"
        "arena = Arena(128); ctypes.memset(arena.address, 1, 128)\n"
        f"print('inside', flush=True); ctypes.memset(arena.address + {offset}, 1, 1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == "inside\n"
    assert done.returncode == -signal.SIGSEGV


def test_each_thread_has_its_own_arena() -> None:
    arenas = ThreadArenas()
    seen = {arenas.reserve(64)}
    thread = threading.Thread(target=lambda: seen.add(arenas.reserve(64)))
    thread.start()
    thread.join()
    assert len(seen) == 2
    assert arenas.reserve(64) in seen
