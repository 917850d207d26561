"""Where and with what a session times: one core, its caches, the monotonic clock."""

import contextlib
import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

# Where the system does not say: the L3 of one core complex on common servers.
LLC_FALLBACK_BYTES = 32 * 2**20
# Larger caches are shared by many cores; to evict more costs a session more than it shows.
LLC_CAP_BYTES = 64 * 2**20
PROBE_NS = 2_000_000
PROBED_CORES = 4


def pin(draw_core: Callable[[int], int]) -> dict[str, Any]:
    """Pins this process to the quietest of a few allowed cores.

    Args:
        draw_core: draws an index below its argument; breaks up habits of always using core 0.

    Returns:
        Facts for the record: the core and whether pinning was permitted.
    """
    cores = sorted(os.sched_getaffinity(0))
    start = draw_core(len(cores))
    probed = [cores[(start + step) % len(cores)] for step in range(min(PROBED_CORES, len(cores)))]
    try:
        rounds = {core: _spin_on(core) for core in probed}
        core = max(probed, key=rounds.__getitem__)
        os.sched_setaffinity(0, {core})
    except OSError as error:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, set(cores))
        return {"pinned": False, "core": None, "why": str(error)}
    return {"pinned": True, "core": core}


def _spin_on(core: int) -> int:
    """How many rounds of a short loop this core gives us in PROBE_NS of wall time."""
    os.sched_setaffinity(0, {core})
    rounds = 0
    end_ns = perf_counter_ns() + PROBE_NS
    while perf_counter_ns() < end_ns:
        rounds += 1
    return rounds


def llc_bytes() -> int:
    """Size of the last-level cache, at most LLC_CAP_BYTES."""
    found = 0
    for size in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = size.read_text().strip()
            unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1)
            found = max(found, int(text.rstrip("KMG")) * unit)
    return min(found or LLC_FALLBACK_BYTES, LLC_CAP_BYTES)


def preemptions() -> int:
    """Times the system has taken the core from this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def time_ns(calls: Sequence[Callable[[], None]]) -> int:
    """Wall time of making all calls in order, nanoseconds. The loop costs both sides the same."""
    begin_ns = perf_counter_ns()
    for call in calls:
        call()
    return perf_counter_ns() - begin_ns
