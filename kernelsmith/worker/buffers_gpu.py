"""A plan's buffers on a GPU, and their image in host memory.

Promises are those of :mod:`.buffers`: order and distances drawn from the poison, red zones around
every buffer, fresh memory for each set. The image is laid out like the memory on the GPU and is
what is filled, checked and read; it is copied there and back as a whole. Under the two constant
poisons every buffer lies in pages of its own between addresses that no kernel may touch, where the
GPU can do that: under ZEROS it ends at one, under ONES it starts at one.

A GPU does not say in which order it runs programs, so there is none to choose; see
:mod:`.launcher_gpu` for what is repeated instead.

Never run on a GPU; driven against a stand-in in ``tests/cuda``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kernelsmith.devices.cuda import memory
from kernelsmith.devices.cuda.gpu import Gpu
from kernelsmith.model import Plan
from kernelsmith.worker import buffers, buffers_poison
from kernelsmith.worker.buffers import ALIGN_BYTES, GAP_LINES, BufferSet
from kernelsmith.worker.buffers_guard import PAGE_BYTES, Pages, Region

# What the driver aligns its own allocations to.
BASE_ALIGN_BYTES = 256
GAP_DRAWN_PAGES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuBuffers:
    """``held`` reads and writes the image and gives addresses on the GPU; ``memory`` is there."""

    held: BufferSet
    memory: memory.Memory

    def upload(self) -> None:
        memory.upload(self.memory, self.held.region.bytes.ctypes.data)

    def download(self) -> None:
        memory.download(self.memory, self.held.region.bytes.ctypes.data)

    def close(self) -> None:
        self.memory.close()


def allocate(gpu: Gpu, plan: Plan, *, misalign_bytes: int, poison: int) -> GpuBuffers:
    """Allocates every buffer of ``plan`` and fills buffers and red zones with poison, in the image
    and on the GPU.

    Raises:
        GpuError: the GPU has not that much memory left.
    """
    page = memory.page_bytes(gpu) if poison in buffers_poison.CONSTANT else 0
    if page:
        at_end = poison == buffers_poison.ZEROS
        pages, nbytes = guarded_places(plan, misalign_bytes, page=page, at_end=at_end)
        parts = sorted({(one.begin, one.end) for one in pages.values()})
        on_gpu = memory.guarded(gpu, nbytes, parts)
    else:
        pages, nbytes = places(plan, misalign_bytes, poison)
        on_gpu = memory.allocate(gpu, nbytes)
    region = Region(bytes=np.empty(max(nbytes, 1), np.uint8), address=on_gpu.address)
    found = GpuBuffers(held=buffers.laid(plan, region, pages, poison), memory=on_gpu)
    found.upload()
    return found


def places(plan: Plan, misalign_bytes: int, poison: int) -> tuple[Mapping[int, Pages], int]:
    """Where each buffer lies in one allocation, between red zones, and how large that is."""
    draw = np.random.Generator(np.random.PCG64([poison, len(plan.buffers)]))
    found: dict[int, Pages] = {}
    at = 0
    for index in draw.permutation(len(plan.buffers)).tolist():
        nbytes = plan.buffers[index].nbytes
        zone = buffers.zone_bytes(nbytes)
        gap = int(draw.integers(0, GAP_LINES)) * ALIGN_BYTES
        start = at + _up(zone + gap, ALIGN_BYTES) + misalign_bytes
        end = _up(start + nbytes + zone, BASE_ALIGN_BYTES)
        found[index] = Pages(begin=at, start=start, nbytes=nbytes, end=end)
        at = end
    return found, at


def guarded_places(
    plan: Plan, misalign_bytes: int, *, page: int, at_end: bool
) -> tuple[Mapping[int, Pages], int]:
    """Where each buffer lies in a reservation with a page of guard around each, and its size."""
    found: dict[int, Pages] = {}
    at = page
    for index, buffer in enumerate(plan.buffers):
        room = _up(max(buffer.nbytes + misalign_bytes, 1), page)
        slack = room - buffer.nbytes - misalign_bytes
        start = at + (slack // ALIGN_BYTES * ALIGN_BYTES if at_end else 0) + misalign_bytes
        found[index] = Pages(begin=at, start=start, nbytes=buffer.nbytes, end=at + room)
        at += room + page
    return found, at


class PoolLayout:
    """Places a timing pool's buffers one after the other, as ``buffers_guard.Layout`` does but
    without guards: what is timed has been checked between red zones. ``draw(n)`` is in [0, n)."""

    __slots__ = ("_draw", "nbytes")

    def __init__(self, draw: Callable[[int], int]) -> None:
        self._draw = draw
        self.nbytes = 0

    def put(self, nbytes: int, *, before: int, align: int, shift: int, after: int) -> Pages:
        """Places a buffer with at least ``before`` and ``after`` bytes around it in its pages."""
        begin = self.nbytes + (1 + self._draw(GAP_DRAWN_PAGES)) * PAGE_BYTES
        start = begin + _up(before, align) + shift
        end = max(_up(start + nbytes + after, PAGE_BYTES), begin + PAGE_BYTES)
        self.nbytes = end
        return Pages(begin=begin, start=start, nbytes=nbytes, end=end)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
