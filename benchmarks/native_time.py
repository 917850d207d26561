"""Times of the compiled code alone and of other callables, by turns in one process."""

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from kernelsmith.devices.cpu.arena import Arena
from kernelsmith.devices.cpu.grid import GRID_STRUCT, Cost, Grid, count_programs
from kernelsmith.devices.cpu.launch import launcher_for
from kernelsmith.devices.cpu.report import Reporter

# Short windows and many of them: some are not interrupted even on a busy machine.
WINDOW_NS = 1_000_000
# Calls that take longer than a window are windows of their own; fewer of them are enough.
ROW_BUDGET_NS = 4_000_000_000
WINDOWS_MIN = 8


class Recorder:
    """Stands in for a driver's Grid: runs each launch on one thread and, while ``calls`` is a
    list, keeps it as a call without arguments. ``tensors`` keeps what launches were given, as a
    replay also writes to scratch that the host code has long let go of."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] | None = None
        self.launches: list[tuple[Any, tuple[Any, ...]]] = []
        self._grid = Grid(threads=1)

    def launcher(self, source: Any, metadata: Any) -> Callable[..., None]:
        """What Triton calls to make a kernel's launcher."""
        launch = launcher_for(self)(source, metadata)

        def launch_and_keep(*args: Any) -> None:
            if self.calls is not None:
                self.launches.append((launch, args))
            launch(*args)

        return launch_and_keep

    def run(
        self,
        kernel: Any,
        args: bytes,
        grid: tuple[int, int, int],
        arena_bytes: int,
        cost: Cost,
        reporter: Reporter | None = None,
    ) -> None:
        """As :meth:`Grid.run`."""
        self._grid.run(kernel, args, grid, arena_bytes, cost, reporter)
        if self.calls is not None:
            arena, packed, count = Arena(arena_bytes), GRID_STRUCT.pack(*grid), count_programs(grid)
            # The default argument keeps the arena alive as long as its address is in use.
            self.calls.append(
                lambda arena=arena: kernel(args, packed, None, 0, count, arena.address)
            )


def record(recorder: Recorder, run: Callable[[], Any]) -> Callable[[], None]:
    """The launches that ``run`` makes, as one native call on the same tensors."""
    recorder.calls, recorder.launches = [], []
    calls, keep = recorder.calls, (run(), recorder.launches)
    recorder.calls = None

    def replay() -> None:
        for call in calls:
            call()

    replay.keep = keep  # type: ignore[attr-defined]
    return replay


def time_by_turns(sides: Mapping[str, Callable[[], Any]], windows: int) -> dict[str, float]:
    """Minimum time of a call in microseconds, windows of all sides taken by turns, in another order
    each round: who runs after a side that leaves the caches full of other things is slower. Slow
    calls get fewer windows, as a minimum of few long ones is as good."""
    best = dict.fromkeys(sides, float("inf"))
    counts = {}
    round_ns = 0
    for name, run in sides.items():
        run()
        begin_ns = time.perf_counter_ns()
        run()
        spent_ns = max(1, time.perf_counter_ns() - begin_ns)
        counts[name] = max(1, WINDOW_NS // spent_ns)
        round_ns += spent_ns * counts[name]
    order, draw = list(sides.items()), random.Random(0)
    for _ in range(min(windows, max(WINDOWS_MIN, ROW_BUDGET_NS // round_ns))):
        draw.shuffle(order)
        for name, run in order:
            begin_ns = time.perf_counter_ns()
            for _ in range(counts[name]):
                run()
            spent_us = (time.perf_counter_ns() - begin_ns) / counts[name] / 1e3
            best[name] = min(best[name], spent_us)
    return best
