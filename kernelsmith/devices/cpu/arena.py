"""Scratch memory of running programs: one arena a thread."""

import threading
import weakref

from kernelsmith.devices.cpu.memory import (
    PAGE_BYTES,
    READ,
    WRITE,
    map_pages,
    protect,
    round_up,
    unmap,
)

ALIGN_BYTES = 64


class Arena:
    """Scratch for one thread's programs; grows, never shrinks, freed with the object.

    The usable bytes end at a guard page (to within the 64-byte alignment) and begin after
    another, so a program that leaves its scratch faults instead of corrupting a neighbour.
    """

    __slots__ = ("__weakref__", "_finalizer", "address", "nbytes")

    def __init__(self, nbytes: int = 0) -> None:
        self.nbytes = 0
        self.address = 0
        self._finalizer: weakref.finalize[..., Arena] | None = None
        self.reserve(nbytes)

    def reserve(self, nbytes: int) -> int:
        """Makes at least ``nbytes`` usable and returns their 64-byte aligned address, which a
        later, larger reserve changes. Contents are not kept.

        Raises:
            InfrastructureError: out of memory.
        """
        if nbytes <= self.nbytes and self.address:
            return self.address
        self.close()
        usable_bytes = round_up(max(nbytes, ALIGN_BYTES), ALIGN_BYTES)
        inner_bytes = round_up(usable_bytes, PAGE_BYTES)
        base = map_pages(inner_bytes + 2 * PAGE_BYTES, protection=0)
        protect(base + PAGE_BYTES, inner_bytes, READ | WRITE)
        self._finalizer = weakref.finalize(self, unmap, base, inner_bytes + 2 * PAGE_BYTES)
        self.address = base + PAGE_BYTES + inner_bytes - usable_bytes
        self.nbytes = usable_bytes
        return self.address

    def close(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
            self._finalizer = None
        self.address = 0
        self.nbytes = 0


class ThreadArenas:
    """An arena for each thread that asks."""

    __slots__ = ("_local",)

    def __init__(self) -> None:
        self._local = threading.local()

    @property
    def arena(self) -> Arena:
        """The calling thread's arena."""
        arena = getattr(self._local, "arena", None)
        if arena is None:
            arena = self._local.arena = Arena()
        return arena

    def reserve(self, nbytes: int) -> int:
        """Address of at least ``nbytes`` of the calling thread's scratch."""
        return self.arena.reserve(nbytes)
