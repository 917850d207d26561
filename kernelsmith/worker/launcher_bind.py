"""From a traced launch to a call of machine code: argument block, class by alignment, order.

The native entry of a kernel is ``void f(const uint8_t *args, const int32_t *grid, const int32_t
*order, int64_t begin, int64_t end, uint8_t *arena)``; see :mod:`kernelsmith.devices`.
"""

import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsmith.errors import InputError
from kernelsmith.model import Launch, LaunchArg, ObjectInfo
from kernelsmith.worker.buffers import ALIGN_BYTES, map_region
from kernelsmith.worker.buffers_guard import Region

SLOT_BYTES = 8
_POINTER = struct.Struct("<Q")
POINTER_ALIGN_BYTES = 16

_SIGNATURE = (
    None,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A loaded kernel: ``address`` of its entry; ``keep`` holds the code in memory."""

    info: ObjectInfo
    address: int
    keep: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A launch ready to run. ``args`` is the packed block, ``grid`` three int32."""

    entry: Entry
    args: ctypes.Array[ctypes.c_char]
    grid: ctypes.Array[ctypes.c_int32]
    programs: int


def load_entry(device: Any, info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0) -> Entry:
    """Loads one object through the device."""
    kernel = device.load(info, code, base_pad_bytes=base_pad_bytes)
    return Entry(info=info, address=kernel.address, keep=kernel)


def pick_class(launch: Launch, addresses: Sequence[int]) -> str:
    """The plan class this launch runs at these buffer addresses: the aligned one only when every
    pointer it is given is a multiple of 16."""
    aligned = all(
        (addresses[arg.buffer] + arg.offset_bytes) % POINTER_ALIGN_BYTES == 0
        for arg in launch.args
        if arg.kind == "ptr"
    )
    return launch.plan_class if aligned else launch.plan_class_unaligned


def bind(launch: Launch, entry: Entry, addresses: Sequence[int]) -> Bound:
    """Packs the launch's arguments for buffers at ``addresses`` (plan order).

    Raises:
        InputError: the launch does not fit the compiled function.
    """
    block = bytearray(_block(launch, entry.info.symbol, tuple(entry.info.params)))
    for place, arg in enumerate(launch.args):
        if arg.kind == "ptr":
            _POINTER.pack_into(block, place * SLOT_BYTES, addresses[arg.buffer] + arg.offset_bytes)
    return Bound(
        entry=entry,
        args=(ctypes.c_char * len(block)).from_buffer(block),
        grid=(ctypes.c_int32 * 3)(*launch.grid),
        programs=launch.grid[0] * launch.grid[1] * launch.grid[2],
    )


@functools.lru_cache(maxsize=64)
def _block(launch: Launch, symbol: str, params: tuple[str, ...]) -> bytes:
    """The launch's arguments with null pointers: a session binds one launch to many slots."""
    kinds = tuple(arg.kind for arg in launch.args)
    if kinds != params:
        raise InputError(f"kernel {symbol} takes {params}, the launch passes {kinds}")
    return b"".join(_slot(arg) for arg in launch.args) or bytes(SLOT_BYTES)


def arena(nbytes: int) -> tuple[Region, int]:
    """A 64-byte aligned arena for one thread: its region and address."""
    region = map_region(nbytes + ALIGN_BYTES)
    return region, -(-region.address // ALIGN_BYTES) * ALIGN_BYTES


def program_order(order: str, programs: int) -> NDArray[np.int32] | None:
    """The program ids in the order asked for; None is ascending.

    Raises:
        InputError: an unknown order.
    """
    kind, _, number = order.partition(":")
    if kind in ("ascending", "threads"):
        return None
    if kind == "descending":
        return np.arange(programs - 1, -1, -1, dtype=np.int32)
    if kind == "shuffled":
        draw = np.random.Generator(np.random.PCG64(int(number)))
        return draw.permutation(programs).astype(np.int32)
    raise InputError(f"unknown program order {order!r}")


def launch(bound: Bound, *, order: str, arenas: Sequence[int]) -> None:
    """Runs all programs of one launch; returns when the last has ended.

    Args:
        order: as in :class:`kernelsmith.model.Run`; "threads:<n>" splits the programs into n
            runs of neighbours that execute at the same time.
        arenas: one arena address a thread.
    """
    if bound.programs == 0:
        return
    function = ctypes.CFUNCTYPE(*_SIGNATURE)(bound.entry.address)
    ids = program_order(order, bound.programs)
    pointer = None if ids is None else ids.ctypes.data
    args, grid = ctypes.addressof(bound.args), ctypes.addressof(bound.grid)
    if not order.startswith("threads:"):
        function(args, grid, pointer, 0, bound.programs, arenas[0])
        return
    threads = min(thread_count(order), bound.programs)
    edges = [bound.programs * part // threads for part in range(threads + 1)]
    gate = threading.Barrier(threads)

    def work(part: int) -> None:
        gate.wait()
        function(args, grid, None, edges[part], edges[part + 1], arenas[part])

    workers = [threading.Thread(target=work, args=(part,)) for part in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def thread_count(order: str) -> int:
    """How many threads, and so arenas, a program order needs."""
    kind, _, number = order.partition(":")
    return max(1, int(number)) if kind == "threads" else 1


def prebound(bound: Bound, arena_address: int) -> Callable[[], None] | None:
    """A call of the whole launch on this thread with everything converted beforehand, or None
    for an empty grid. It keeps the interpreter lock: nothing else may run while it is timed."""
    if bound.programs == 0:
        return None
    # Without argument types ctypes passes ready-made instances on without a conversion; the
    # arrays go as themselves, which keeps them alive.
    function = ctypes.PYFUNCTYPE(None)(bound.entry.address)
    function.keep = bound.entry  # type: ignore[attr-defined]  # the code, as long as the call
    return functools.partial(
        function,
        bound.args,
        bound.grid,
        ctypes.c_void_p(None),
        ctypes.c_int64(0),
        ctypes.c_int64(bound.programs),
        ctypes.c_void_p(arena_address),
    )


def bind_all(
    launches: Sequence[Launch],
    addresses: Sequence[int],
    object_of: Mapping[str, str],
    entries: Mapping[str, Entry],
    *,
    prefix: str = "",
) -> list[Bound]:
    """Binds all launches of a plan at these addresses.

    Raises:
        InputError: the job has no object for a class the alignment asks for.
    """
    bounds: list[Bound] = []
    for item in launches:
        key = prefix + pick_class(item, addresses)
        if object_of.get(key) not in entries:
            raise InputError(f"the job has no object for plan class {key!r}")
        bounds.append(bind(item, entries[object_of[key]], addresses))
    return bounds


def _slot(arg: LaunchArg) -> bytes:
    if arg.kind == "ptr":
        return bytes(SLOT_BYTES)
    if arg.kind.startswith(("i", "u")):
        return struct.pack("<Q", int(arg.value) & (1 << 64) - 1)
    if arg.kind == "f64":
        return struct.pack("<d", arg.value)
    if arg.kind in ("f32", "fp32"):
        return struct.pack("<fI", np.float32(arg.value), 0)
    if arg.kind in ("f16", "fp16"):
        return struct.pack("<eHI", np.float16(arg.value), 0, 0)
    if arg.kind in ("bf16",):
        return struct.pack("<HHI", _bfloat16(arg.value), 0, 0)
    raise InputError(f"a scalar argument of type {arg.kind!r} is not known")


def _bfloat16(value: float) -> int:
    """The bfloat16 bits nearest to ``value`` as float32, ties to even."""
    bits = int(np.float32(value).view(np.uint32))
    if np.isnan(value):
        return bits >> 16 | 0x40
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16
