"""A compiled kernel in memory, ready to run. Needs ctypes only: neither numpy nor a compiler."""

import ctypes
import functools
from array import array
from collections.abc import Callable
from typing import Union

from kernelsmith.devices.cpu.arena import Arena, ThreadArenas
from kernelsmith.devices.cpu.elf import Image, link
from kernelsmith.devices.cpu.grid import (
    GRID_STRUCT,
    KERNEL_TYPE,
    Cost,
    Grid,
    count_programs,
    parse_order,
)
from kernelsmith.devices.cpu.report import Reporter, from_stats, heard
from kernelsmith.errors import InputError
from kernelsmith.model import ObjectInfo

Args = Union[bytes, "ctypes.Array[ctypes.c_char]"]
# Without declared argument types, ctypes passes instances of its own types as they are.
_UNTYPED = ctypes.CFUNCTYPE(None)


class LoadedKernel:
    """One kernel. Its code stays mapped until :meth:`close` or until nothing refers to it."""

    __slots__ = ("_arenas", "_function", "_image", "_reporter", "address", "info")

    def __init__(self, info: ObjectInfo, image: Image) -> None:
        self.info = info
        self._image = image
        self.address = image.address(info.symbol)
        self._function = KERNEL_TYPE(self.address)
        self._arenas = ThreadArenas()
        sites = from_stats(info.stats.get("reports", ()))
        self._reporter = Reporter(info.symbol, sites) if sites else None

    def run(
        self,
        args: Args,
        grid: tuple[int, int, int],
        *,
        order: "str | array[int] | None" = None,
        begin: int = 0,
        end: int | None = None,
        arena: Arena | None = None,
    ) -> None:
        """Runs programs ``begin <= i < end`` and returns when they are done.

        Args:
            args: packed 8-byte slots, one a parameter (:func:`..launch.pack_args`).
            grid: programs along x, y, z.
            order: "ascending", "descending", "shuffled:<seed>", "threads:<n>", or the program
                ids themselves as an ``array("i")`` with one entry a program; None: ascending.
            begin, end: the part of the order to run; None: to its end.
            arena: scratch to use; None: this kernel's own for the calling thread.

        Raises:
            InputError: the arguments, the order or the range do not fit the kernel and grid.
            DeviceAssertError: an assertion of the kernel failed.
        """
        if isinstance(order, str) and order.startswith("threads:"):
            self._run_threads(args, grid, order, begin, end)
            return
        self.bind(args, grid, order=order, begin=begin, end=end, arena=arena)()

    def bind(
        self,
        args: Args,
        grid: tuple[int, int, int],
        *,
        order: "str | array[int] | None" = None,
        begin: int = 0,
        end: int | None = None,
        arena: Arena | None = None,
    ) -> Callable[[], None]:
        """Like :meth:`run`, as a callable without arguments that has nothing left to convert.

        It runs on the calling thread, with the scratch of the thread that bound it, and keeps
        all it needs alive. A mutable ``args`` buffer may be rewritten between calls. An ``arena``
        that is shared with other kernels must not grow afterwards: growing moves it.
        """
        if len(args) < 8 * len(self.info.params):
            raise InputError(
                f"kernel {self.info.symbol} takes {len(self.info.params)} arguments, "
                f"{len(args)} bytes were packed"
            )
        count = count_programs(grid)
        if isinstance(order, str):
            parsed = parse_order(order)
            if parsed.threads:
                raise InputError('order "threads:<n>" cannot be bound to one call')
            order = parsed.permutation(count)
        if order is not None and len(order) != count:
            raise InputError(f"order has {len(order)} entries, the grid {count} programs")
        end = count if end is None else end
        if not 0 <= begin <= end <= count:
            raise InputError(f"programs {begin}..{end} do not lie in a grid of {count}")
        scratch = self._arenas.arena if arena is None else arena
        function = _UNTYPED(self.address)
        # The converted arguments hold addresses only; this keeps what they point at.
        function.keep = (self, scratch, order, args)  # type: ignore[attr-defined]
        call = functools.partial(
            function,
            args if isinstance(args, bytes) else ctypes.c_void_p(ctypes.addressof(args)),
            GRID_STRUCT.pack(*grid),
            None if order is None else ctypes.c_void_p(order.buffer_info()[0]),
            ctypes.c_int64(begin),
            ctypes.c_int64(end),
            ctypes.c_void_p(scratch.reserve(self.info.arena_bytes)),
        )
        if self._reporter is None:
            return call
        return functools.partial(_heard, self._reporter, scratch.address, call)

    def _run_threads(
        self, args: Args, grid: tuple[int, int, int], order: str, begin: int, end: int | None
    ) -> None:
        if begin or end not in (None, count_programs(grid)):
            raise InputError('order "threads:<n>" runs whole grids only')
        runner = Grid(order=order)
        try:
            runner.run(
                self._function, bytes(args), grid, self.info.arena_bytes, Cost(), self._reporter
            )
        finally:
            runner.close()

    def close(self) -> None:
        self._image.close()


def _heard(reporter: Reporter, arena: int, call: Callable[[], None]) -> None:
    """One call of a kernel that prints or asserts."""
    heard(reporter, arena, call)
    reporter.check()


def load(info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0) -> LoadedKernel:
    """Loads an object into this process (see :func:`..elf.link` for what it raises)."""
    return LoadedKernel(info, link(code, base_pad_bytes=base_pad_bytes))
