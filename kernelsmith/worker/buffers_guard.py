"""Guards: buffers lie in pages of their own, between pages that nobody may touch.

One reservation without access holds everything; only the pages of buffers are opened. Distances
are drawn, so an access beyond a buffer finds no other buffer: it ends the process.

That is for checked runs. A timing pool has its gaps open: a processor takes a vector access whose
lanes are masked off for a page that may not be touched as a fault to be suppressed, which costs
hundreds of cycles (a seed's tile of 128 rows, one of them real, took four times as long). What is
timed has been run between guards on the same case and the same poison, and nothing in its buffers
tells a timed launch from a checked one.
"""

import ctypes
import functools
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelsmith.errors import InfrastructureError
from kernelsmith.worker.buffers_poison import Bytes

PAGE_BYTES = mmap.PAGESIZE
GUARD_DRAWN_BITS = 13
# Between the buffers of a timing pool, and open after the last: what tiles reach beyond an end.
GAP_DRAWN_PAGES = 8
SLACK_PAGES = 512
# Nothing else of the process lies at a foreseeable distance from a buffer. Address space is what
# the sandbox limits: two reservations at a time must fit.
MARGIN_MIN_PAGES = 1 << 15
MARGIN_DRAWN_PAGES = 1 << 15

Edge = Literal["start", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A private anonymous mapping: ``bytes`` views it, ``address`` is where it lies; ``keep``
    holds it. In a reservation only opened pages may be touched."""

    bytes: Bytes
    address: int
    keep: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """A buffer at [start, start + nbytes) within pages [begin, end) of its own; all in bytes."""

    begin: int
    start: int
    nbytes: int
    end: int


class Layout:
    """Places buffers one after the other, a drawn number of guard pages before each.

    ``draw(n)`` gives an integer in [0, n); ``guarded``: whether gaps are guards. ``nbytes`` is
    what a reservation needs to hold all.
    """

    __slots__ = ("_at", "_draw", "guarded", "pages")

    def __init__(self, draw: Callable[[int], int], *, guarded: bool = True) -> None:
        self._draw = draw
        self.guarded = guarded
        self._at = (MARGIN_MIN_PAGES + draw(MARGIN_DRAWN_PAGES)) * PAGE_BYTES
        self.pages: list[Pages] = []

    @property
    def nbytes(self) -> int:
        return self._at + (MARGIN_MIN_PAGES + self._draw(MARGIN_DRAWN_PAGES)) * PAGE_BYTES

    def put(self, nbytes: int, *, before: int, align: int, shift: int, after: int) -> Pages:
        """Places a buffer with at least ``before`` and ``after`` bytes around it in its pages, at
        a multiple of ``align`` plus ``shift``."""
        begin = self._next()
        start = begin + -(-before // align) * align + shift
        end = max(whole_pages(start + nbytes + after), begin + PAGE_BYTES)
        return self._take(begin, start, nbytes, end)

    def put_at_edge(self, nbytes: int, edge: Edge, *, align: int, shift: int = 0) -> Pages:
        """Places a buffer whose start or end is as close to a guard as the alignment permits."""
        begin = self._next()
        end = begin + whole_pages(max(nbytes + shift, 1))
        slack = (end - begin - nbytes - shift) // align * align if edge == "end" else 0
        return self._take(begin, begin + slack + shift, nbytes, end)

    def _next(self) -> int:
        # Guards of all lengths: no distance between two buffers is a timing pool's alone.
        most = 1 << self._draw(GUARD_DRAWN_BITS) if self.guarded else GAP_DRAWN_PAGES
        gap = 1 + self._draw(most)
        return self._at + gap * PAGE_BYTES

    def _take(self, begin: int, start: int, nbytes: int, end: int) -> Pages:
        self._at = end
        self.pages.append(Pages(begin=begin, start=start, nbytes=nbytes, end=end))
        return self.pages[-1]


def whole_pages(nbytes: int) -> int:
    """``nbytes`` rounded up to pages."""
    return -(-nbytes // PAGE_BYTES) * PAGE_BYTES


def reserve(layout: Layout) -> Region:
    """Maps a reservation for ``layout`` and opens the pages of its buffers; without guards also
    all between them and SLACK_PAGES after, each page in memory."""
    nbytes = layout.nbytes
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    # Without access there is nothing that could count against memory.
    memory = mmap.mmap(-1, nbytes, flags=flags, prot=0)
    keep = np.frombuffer(memory, dtype=np.uint8)
    address = keep.ctypes.data
    view = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
    region = Region(bytes=view, address=address, keep=keep)
    opened = layout.pages
    if not layout.guarded and opened:
        begin, end = opened[0].begin, opened[-1].end + SLACK_PAGES * PAGE_BYTES
        opened = [Pages(begin=begin, start=begin, nbytes=end - begin, end=end)]
    for pages in opened:
        protect(region, pages, mmap.PROT_READ | mmap.PROT_WRITE)
        if not layout.guarded:
            region.bytes[pages.begin : pages.end : PAGE_BYTES] = 0
    return region


def protect(region: Region, pages: Pages, access: int) -> None:
    """Sets what may be done to a buffer's pages: an or of ``mmap.PROT_*``.

    Raises:
        InfrastructureError: the system refuses.
    """
    if _mprotect()(region.address + pages.begin, pages.end - pages.begin, access):
        raise InfrastructureError(
            f"the system refuses to protect pages: errno {ctypes.get_errno()}",
            hint="a mapping needs two areas a buffer: see vm.max_map_count, 65530 by default",
        )


@functools.cache
def _mprotect() -> Callable[[int, int, int], int]:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    return function
