"""Where and with what a session times: one core, its caches, the clock of this thread.

Measured on two cores under a load of 4 to 5, identical kernels of 11 and 168 us, 20 sessions each:
the standard deviation of a session is 23-57 % by the monotonic clock and 0.3-1.1 % by the thread's.
What the thread's clock gives on a quiet machine is in ``benchmarks/results/null_sessions.json``.
"""

import contextlib
import os
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, perf_counter_ns, process_time, thread_time_ns
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Since the process started: times the system took its core, processor time, wall time."""

    preemptions: int
    processor_s: float
    wall_s: float


def use() -> Use:
    """Now."""
    return Use(
        preemptions=resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
        processor_s=process_time(),
        wall_s=perf_counter(),
    )


def used_since(before: Use) -> dict[str, Any]:
    """Facts for the record: how much of the core this process had."""
    now = use()
    wall_s = now.wall_s - before.wall_s
    return {
        "preemptions": now.preemptions - before.preemptions,
        "processor_share": round((now.processor_s - before.processor_s) / wall_s, 4),
        "load_average": round(os.getloadavg()[0], 2),
    }


def time_ns(calls: Sequence[Callable[[], None]]) -> int:
    """Processor time of making all calls in order, nanoseconds. The loop costs both sides alike.

    This thread's time, not the wall's: a kernel here can neither sleep nor start a thread (it
    makes no system call), so the two agree while the core is its own, and while it is not, the
    wall's time holds that of whoever took it.
    """
    begin_ns = thread_time_ns()
    for call in calls:
        call()
    return thread_time_ns() - begin_ns
