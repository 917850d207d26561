"""Running the programs of a launch: in which order, over how many threads."""

import ctypes
import functools
import os
import random
import threading
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from struct import Struct
from typing import Literal

from kernelsmith.devices.cpu.arena import ThreadArenas
from kernelsmith.devices.cpu.report import Reporter, heard
from kernelsmith.errors import InputError

# void (const uint8_t *args, const int32_t *grid, const int32_t *order,
#       int64_t begin, int64_t end, uint8_t *arena)
KERNEL_TYPE = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
)
NativeKernel = Callable[..., None]
GRID_STRUCT = Struct("<3i")
# Handing work to another thread costs about this much, so shorter launches stay on one.
PARALLEL_FROM_NS = 150_000
CHUNKS_A_THREAD = 4
_MAX_PROGRAMS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How programs are ordered: ``threads`` > 0 means ascending chunks over that many threads."""

    kind: Literal["ascending", "descending", "shuffled"]
    seed: int = 0
    threads: int = 0

    def permutation(self, count: int) -> "array[int] | None":
        """Program ids in the order to run; None for ascending. Depends only on this and count."""
        if self.kind == "ascending":
            return None
        ids = list(range(count - 1, -1, -1))
        if self.kind == "shuffled":
            random.Random(self.seed).shuffle(ids)
        return array("i", ids)


def parse_order(text: str) -> Order:
    """Reads "ascending", "descending", "shuffled:<seed>" or "threads:<n>".

    Raises:
        InputError: anything else.
    """
    kind, _, number = text.partition(":")
    if kind in ("ascending", "descending") and not number:
        return Order(kind=kind)  # type: ignore[arg-type]
    if kind == "shuffled" and number.isdigit():
        return Order(kind="shuffled", seed=int(number))
    if kind == "threads" and number.isdigit() and int(number) > 0:
        return Order(kind="ascending", threads=int(number))
    raise InputError(
        f"no such program order: {text!r}",
        hint='one of "ascending", "descending", "shuffled:<seed>", "threads:<n>"',
    )


def count_programs(grid: tuple[int, int, int]) -> int:
    """Programs of a grid.

    Raises:
        InputError: a negative extent, or more programs than an int32 counts.
    """
    count = grid[0] * grid[1] * grid[2]
    if min(grid) < 0 or count > _MAX_PROGRAMS:
        raise InputError(f"grid {grid} is negative or has more than {_MAX_PROGRAMS} programs")
    return count


class Cost:
    """What a kernel's program was last seen to take; decides only whether threads are worth
    waking, never a result."""

    __slots__ = ("ns_a_program",)

    def __init__(self) -> None:
        self.ns_a_program = float("inf")


def _run_part(
    kernel: NativeKernel,
    reporter: Reporter | None,
    args: bytes,
    grid: bytes,
    order_address: int | None,
    begin: int,
    end: int,
    arena: int,
) -> None:
    """Programs ``begin <= i < end`` on this thread."""
    if reporter is None:
        kernel(args, grid, order_address, begin, end, arena)
        return
    call = functools.partial(kernel, args, grid, order_address, begin, end, arena)
    heard(reporter, arena, call)


class Grid:
    """Threads and scratch that launches of this process run on. Close it to end the threads."""

    def __init__(self, *, threads: int = 1, order: str = "ascending") -> None:
        self.order = parse_order(order)
        self.threads = self.order.threads or threads
        self._arenas = ThreadArenas()
        self._pool: ThreadPoolExecutor | None = None
        self._pool_pid = 0

    def run(
        self,
        kernel: NativeKernel,
        args: bytes,
        grid: tuple[int, int, int],
        arena_bytes: int,
        cost: Cost,
        reporter: Reporter | None = None,
    ) -> None:
        """Runs all programs and returns when they are done.

        Args:
            kernel: a :data:`KERNEL_TYPE`.
            args: packed 8-byte slots.
            grid: programs along x, y, z; none when one is 0.
            arena_bytes: scratch one program needs.
            cost: of this kernel; updated.
            reporter: of a kernel that prints or asserts.

        Raises:
            DeviceAssertError: an assertion of the kernel failed.
        """
        count = count_programs(grid)
        if count == 0:
            return
        packed_grid = GRID_STRUCT.pack(*grid)
        order = self.order.permutation(count)
        order_address = None if order is None else order.buffer_info()[0]
        begin_ns = time.perf_counter_ns()
        if self.threads == 1 or count == 1 or cost.ns_a_program * count < PARALLEL_FROM_NS:
            arena = self._arenas.reserve(arena_bytes)
            _run_part(kernel, reporter, args, packed_grid, order_address, 0, count, arena)
            cost.ns_a_program = (time.perf_counter_ns() - begin_ns) / count
        else:
            self._run_threads(
                kernel, args, packed_grid, order_address, count, arena_bytes, reporter
            )
            cost.ns_a_program = (time.perf_counter_ns() - begin_ns) * self.threads / count
        if reporter is not None:
            reporter.check()

    def _run_threads(
        self,
        kernel: NativeKernel,
        args: bytes,
        packed_grid: bytes,
        order_address: int | None,
        count: int,
        arena_bytes: int,
        reporter: Reporter | None,
    ) -> None:
        step = max(1, count // (self.threads * CHUNKS_A_THREAD))
        starts = iter(range(0, count, step))
        lock = threading.Lock()

        def work() -> None:
            arena = self._arenas.reserve(arena_bytes)
            while True:
                with lock:
                    start = next(starts, None)
                if start is None:
                    return
                end = min(start + step, count)
                _run_part(kernel, reporter, args, packed_grid, order_address, start, end, arena)

        others = [self._threads().submit(work) for _ in range(self.threads - 1)]
        work()
        for other in others:
            other.result()

    def _threads(self) -> ThreadPoolExecutor:
        # A forked child inherits the pool's object but none of its threads.
        if self._pool is None or self._pool_pid != os.getpid():
            self._pool = ThreadPoolExecutor(self.threads - 1, thread_name_prefix="kernelsmith-cpu")
            self._pool_pid = os.getpid()
        return self._pool

    def close(self) -> None:
        if self._pool is not None and self._pool_pid == os.getpid():
            self._pool.shutdown()
        self._pool = None
