"""Runs an observing build: one launch after another over the same buffers, one program at a time.

Within a launch two programs that touch a byte are held against each other; between launches only
bounds count, and whether what is read was ever written.
"""

import ctypes
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelsmith.devices.cpu import observe
from kernelsmith.devices.cpu.observe import Site
from kernelsmith.errors import InputError
from kernelsmith.model import Finding, FindingKind, ObjectInfo

CELLS_MAX_BYTES = 1 << 30
"""Most memory that cells may take. Above it nothing is observed: an error, not a pass."""
_KINDS: dict[int, FindingKind] = {
    observe.OUTSIDE_READ: "out_of_bounds",
    observe.OUTSIDE_WRITE: "out_of_bounds",
    observe.GAP_READ: "gap",
    observe.GAP_WRITE: "gap",
    observe.UNWRITTEN_READ: "unwritten",
    observe.RACE: "race",
    observe.ATOMIC_RACE: "race",
    observe.LANES: "race",
    observe.ATOMIC_ORDER: "atomic_order",
    observe.FLOAT_ATOMIC: "float_atomic",
}
_SPAN = struct.Struct("<3Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A buffer. ``holds``: its bytes are inputs, written before the first launch. ``inside``: for
    each byte 1 if it is part of an element, 0 if it lies in a gap between rows; None: no gaps."""

    name: str
    address: int
    nbytes: int
    holds: bool
    inside: NDArray[np.uint8] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One launch: what :func:`..compile.compile_ttir` says of the observing build, the address of
    its entry, the packed arguments, the grid, and the buffer of each pointer parameter."""

    info: ObjectInfo
    entry: int
    args: bytes
    grid: tuple[int, int, int]
    buffers: dict[int, int]


class UnobservableError(InputError):
    """The buffers of a call need cells of more than CELLS_MAX_BYTES, or a kernel has more than
    TABLE_MAX parameters: a matter of the kernel and its call, nothing of the machine."""


class MisalignedError(Exception):
    """An access that is not a multiple of the granule: observe again with single bytes."""


def observe_steps(
    buffers: Sequence[Watched],
    steps: Sequence[Step],
    *,
    arena: int,
    seconds: float,
    bytewise: bool = False,
) -> tuple[Finding, ...]:
    """Runs launches in order and returns what was found, in order, up to the first program that
    does not end.

    The granule of what is kept is the smallest element that any of the kernels accesses, or one
    byte if ``bytewise``.

    Args:
        arena: address of scratch for the largest of the kernels.
        seconds: for all launches together; then the loop under way is stopped.

    Raises:
        UnobservableError: as it says.
        MisalignedError: as it says; ``seconds`` and contents of the buffers are then used up.
    """
    sizes = [site.size for step in steps for site in observe.sites_of(step.info.stats) if site.size]
    shift = min(sizes, default=1).bit_length() - 1
    if bytewise or any((buffer.address | buffer.nbytes) & ((1 << shift) - 1) for buffer in buffers):
        shift = 0
    return _Observation(buffers, steps, shift, arena).run(seconds)


class _Observation:
    """Cells and block of one sequence of launches."""

    def __init__(
        self, buffers: Sequence[Watched], steps: Sequence[Step], shift: int, arena: int
    ) -> None:
        self._buffers, self._steps, self._arena = buffers, steps, arena
        self._block = np.zeros(observe.BLOCK_WORDS, np.int64)
        self._block[observe.SHIFT] = shift
        wanted = [
            index for index in range(len(buffers)) if _needs_cells(index, buffers[index], steps)
        ]
        nbytes = sum((buffers[index].nbytes >> shift) * observe.CELL_BYTES for index in wanted)
        if nbytes > CELLS_MAX_BYTES:
            raise UnobservableError(
                f"to observe this call takes {nbytes} bytes, at most {CELLS_MAX_BYTES} are allowed",
                hint="use less scratch, of wider elements, or give the task a smaller case",
            )
        self._cells = {index: _cells(buffers[index], shift) for index in wanted}

    def run(self, seconds: float) -> tuple[Finding, ...]:
        found: list[Finding] = []
        until = time.monotonic() + seconds
        for number, step in enumerate(self._steps):
            self._forget()
            self._lay(step)
            _call(step, self._block, self._arena, until - time.monotonic())
            if self._block[observe.MISALIGNED]:
                raise MisalignedError
            found += self._found(number, step)
            if self._block[observe.STOP]:
                found.append(self._endless(number, step))
                break
        return tuple(found)

    def _forget(self) -> None:
        """Between launches: who touched what; what was written stays."""
        for cells in self._cells.values():
            cells[:, :22] = 0
            cells[:, 22] &= observe.INSIDE | observe.HOLDS
            cells[:, 23] = 0
        shift = self._block[observe.SHIFT]
        self._block[:] = 0
        self._block[observe.SHIFT] = shift
        self._block[observe.TURN_SITE] = -1
        self._block[observe.LAST_SITE] = -1

    def _lay(self, step: Step) -> None:
        count = len(step.info.params)
        if count > observe.TABLE_MAX:
            raise UnobservableError(
                f"a kernel of {count} parameters cannot be observed, at most "
                f"{observe.TABLE_MAX} are allowed",
                hint="pass fewer arguments to the kernel",
            )
        self._block[observe.ENTRIES] = count
        table = self._block[observe.TABLE :].view(np.uint64)
        for param, index in step.buffers.items():
            buffer = self._buffers[index]
            cells = self._cells.get(index)
            at = param * observe.TABLE_WORDS
            table[at] = buffer.address
            table[at + 1] = buffer.address + buffer.nbytes
            table[at + 2] = 0 if cells is None else cells.ctypes.data

    def _found(self, number: int, step: Step) -> list[Finding]:
        sites = observe.sites_of(step.info.stats)
        found = []
        for place in range(int(self._block[observe.FOUND])):
            at = observe.FINDINGS + place * observe.FINDING_WORDS
            kind, site, other, pid, opid, _, low, high, count = map(int, self._block[at : at + 9])
            one = self._finding(number, step, _KINDS[kind], sites[site], pid, (low, high))
            found.append(
                replace(
                    one,
                    count=self._accesses(kind, count, sites[site]),
                    other_line=sites[other].line if other >= 0 else "",
                    other_does=sites[other].does if other >= 0 else "",
                    other_program=_program(opid, step.grid) if opid >= 0 else None,
                )
            )
        return found

    def _accesses(self, kind: int, count: int, site: Site) -> int:
        """Cells count granules, of which an access may take several."""
        if kind in (observe.OUTSIDE_READ, observe.OUTSIDE_WRITE, observe.LANES):
            return count
        return -(-(count << int(self._block[observe.SHIFT])) // site.size)

    def _finding(
        self,
        number: int,
        step: Step,
        kind: FindingKind,
        site: Site,
        pid: int,
        span: tuple[int, int] | None,
    ) -> Finding:
        index, param = None, site.param
        if span is not None:
            index, param = self._place(step, param, span[0])
        buffer = self._buffers[index] if index is not None else None
        start = buffer.address if buffer else 0
        names = step.info.stats.get("names", ())
        return Finding(
            kind=kind,
            kernel=step.info.symbol,
            line=site.line,
            does=site.does,
            launch=number,
            program=_program(pid, step.grid),
            argument=names[param] if 0 <= param < len(names) else "",
            buffer=buffer.name if buffer else "",
            buffer_bytes=buffer.nbytes if buffer else 0,
            item_bytes=site.size,
            begin=span[0] - start if span else 0,
            end=span[1] - start if span else 0,
        )

    def _place(self, step: Step, param: int, address: int) -> tuple[int | None, int]:
        """The buffer and the parameter that an address is told by."""
        if param >= 0:
            return step.buffers.get(param), param
        for other, index in step.buffers.items():
            buffer = self._buffers[index]
            if buffer.address <= address < buffer.address + buffer.nbytes:
                return index, other
        return None, -1

    def _endless(self, number: int, step: Step) -> Finding:
        sites = observe.sites_of(step.info.stats)
        block = self._block
        kind: FindingKind = "unfinished"
        loop = sites[int(block[observe.LOOP_SITE])]
        pid, turns = int(block[observe.LOOP_PROGRAM]), int(block[observe.LOOP_TURNS])
        waits = int(block[observe.LAST_SITE])
        if block[observe.STOP] != observe.SPINNING:
            return replace(self._finding(number, step, kind, loop, pid, None), count=turns)
        if waits < 0:
            return replace(self._finding(number, step, "endless", loop, pid, None), count=turns)
        on = sites[waits]
        at = int(block[observe.LAST_AT])
        one = self._finding(number, step, "spin", on, pid, (at, at + on.size))
        return replace(one, line=loop.line, other_line=on.line, count=turns)


def _needs_cells(index: int, buffer: Watched, steps: Sequence[Step]) -> bool:
    """Whether a buffer's accesses must be kept: it has gaps, holds nothing at first, or some
    launch may write it."""
    if buffer.inside is not None or not buffer.holds:
        return True
    for step in steps:
        bound = [param for param, at in step.buffers.items() if at == index]
        for site in observe.sites_of(step.info.stats):
            if bound and site.writes and (site.param < 0 or site.param in bound):
                return True
    return False


def _cells(buffer: Watched, shift: int) -> NDArray[np.uint8]:
    count = buffer.nbytes >> shift
    cells = np.zeros((max(count, 1), observe.CELL_BYTES), np.uint8)
    flags = observe.HOLDS if buffer.holds else 0
    if buffer.inside is None:
        cells[:, 22] = flags | observe.INSIDE
    else:
        inside = buffer.inside.reshape(count, 1 << shift).all(axis=1)
        cells[:count, 22] = flags | np.where(inside, observe.INSIDE, 0).astype(np.uint8)
    return cells


def _program(number: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)


def _call(step: Step, block: NDArray[np.int64], arena: int, seconds: float) -> None:
    """All programs in ascending order; a loop that runs longer is told to stop."""
    programs = step.grid[0] * step.grid[1] * step.grid[2]
    if programs == 0:
        return
    signature = (ctypes.c_void_p,) * 3 + (ctypes.c_int64,) * 2 + (ctypes.c_void_p,)
    function = ctypes.CFUNCTYPE(None, *signature)(step.entry)
    args = step.args[: 8 * len(step.info.params)] + struct.pack("<Q", block.ctypes.data)
    grid = struct.pack("<3i", *step.grid)
    done = threading.Event()

    def work() -> None:
        function(args, grid, None, 0, programs, arena)
        done.set()

    runner = threading.Thread(target=work, name="observed", daemon=True)
    runner.start()
    if not done.wait(max(0.0, seconds)):
        block[observe.STOP] = observe.OUT_OF_TIME
    runner.join()
