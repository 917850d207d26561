"""The benchmark that ``triton.autotune`` uses on this device."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

BUDGET_S = 0.05
MIN_CALLS = 3
MAX_CALLS = 1000


def benchmark(
    kernel_call: Callable[[], Any], *, quantiles: Sequence[float] = (0.5, 0.2, 0.8), **_: Any
) -> list[float]:
    """Times a call for about 50 ms.

    Args:
        kernel_call: called once untimed, then at least three times.
        quantiles: in 0..1.

    Returns:
        The quantiles of the time of a call, in milliseconds.
    """
    kernel_call()
    times_ms: list[float] = []
    end_s = time.perf_counter() + BUDGET_S
    while len(times_ms) < MIN_CALLS or (len(times_ms) < MAX_CALLS and time.perf_counter() < end_s):
        begin_ns = time.perf_counter_ns()
        kernel_call()
        times_ms.append((time.perf_counter_ns() - begin_ns) / 1e6)
    return [_quantile(times_ms, q) for q in quantiles]


def _quantile(values: list[float], q: float) -> float:
    if q == 0.5:
        return statistics.median(values)
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]
