"""The buffers of a timed case: slots that both sides use in turn.

A slot holds what one replay writes: the outputs, then scratch. The n-th of either side lies at
the same address, so that no side has the better buffers. Each slot serves one replay; then the
pool is *renewed*: outputs and scratch of all slots, to the ends of their pages, are filled with the
poison of a checked run. A replay never finds what an earlier one left, and nothing that tells it
from a checked run. Inputs cannot be written: a kernel that tries ends the session, and is named as
what ran. Beyond its buffers it finds mapped memory near by (see ``buffers_guard``); a kernel that
goes there does so in a checked run of the same case as well, where guards are.

A *warm* pool shares one set of inputs and has just a few slots, so that all of it stays in the
caches. In a *cold* pool every slot has inputs of its own, and a renewal ends with reading through
memory of one and a half times the last-level cache: each slot is then equally cold, in whatever
order they come. (An eviction before each replay would cost milliseconds for every one. The
kernel's code stays warm in both. Measured on a 32 MiB cache, one copy of 2 MiB: 25 us warm, 78 us
cold, and 78 us where four times the cache was evicted by other slots.)
"""

import collections
import ctypes
import mmap
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelsmith.errors import InputError
from kernelsmith.model import TimedCase
from kernelsmith.worker import buffers_guard, buffers_poison, clock, launcher_bind
from kernelsmith.worker.buffers_poison import Bytes
from kernelsmith.worker.launcher_bind import Entry
from kernelsmith.worker.session_slots import (
    Shape,
    Side,
    Slot,
    lay_out,
    outputs_of,
    plan_of,
    sides,
    where,
)

# A page image above this is filled in place, which then costs no more than copying it.
IMAGE_MAX_BYTES = 256 * 1024


Calls = tuple[Callable[[], None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Memory and chance that a pool is built from; ``poison`` is the seed of all its poison."""

    region: buffers_guard.Region
    rng: random.Random
    arena: int
    poison: int


class Pool:
    """Slots of one case with both sides' launches bound to each. ``cursor`` is the next slot."""

    __slots__ = (
        "_calls",
        "_case",
        "_copies",
        "_images",
        "_large",
        "_place",
        "_shape",
        "_sweep",
        "cursor",
        "slots",
        "timed_by",
    )

    def __init__(
        self,
        case: TimedCase,
        shape: Shape,
        place: Place,
        slots: Sequence[Slot],
        calls: Mapping[Side, Sequence[Calls]],
        sweep: Bytes | None,
    ) -> None:
        self.slots = slots
        self.timed_by = "thread"
        self._case = case
        self._shape = shape
        self._place = place
        self._calls = calls
        self._sweep = sweep
        self._images: dict[tuple[int, int], Bytes] = {}
        self._large: list[tuple[int, buffers_guard.Pages]] = []
        self._copies = self._plan_copies()
        self.cursor = 0

    def lay_inputs(self, images: Mapping[str, Bytes]) -> None:
        """Copies the inputs to where the slots have them; from then on nobody can write them."""
        region = self._place.region
        laid = {pages: name for slot in self.slots for name, pages in slot.inputs.items()}
        for pages, name in laid.items():
            buffers_poison.fill(region.bytes[pages.begin : pages.end], self._place.poison, 0)
            region.bytes[pages.start :][: images[name].size] = images[name]
            buffers_guard.protect(region, pages, mmap.PROT_READ)

    def settle(self) -> None:
        """Nothing: inputs cannot be written, and a core has its speed at once."""

    def close(self) -> None:
        """Nothing: the memory goes with the last reference."""

    def renew(self) -> None:
        """Fills outputs and scratch of all slots with a checked run's poison, in order of use."""
        # One pass in C: the loop costs more than the bytes where buffers are small.
        collections.deque(map(ctypes.memmove, *self._copies), maxlen=0)
        for place, pages in self._large:
            self._fill(self._place.region.bytes[pages.begin : pages.end], place, pages)
        if self._sweep is not None:
            self._sweep[: self._sweep.size // 8 * 8].view(np.uint64).sum()
        self.cursor = 0

    def _plan_copies(self) -> tuple[list[int], list[int], list[int]]:
        """To, from and how many bytes, for all buffers that are renewed from an image."""
        copies: tuple[list[int], list[int], list[int]] = ([], [], [])
        for slot in self.slots:
            for place, pages in enumerate(slot.private):
                nbytes = pages.end - pages.begin
                if nbytes > IMAGE_MAX_BYTES:
                    self._large.append((place, pages))
                    continue
                key = (place, pages.start - pages.begin)
                if key not in self._images:
                    self._images[key] = np.empty(nbytes, np.uint8)
                    self._fill(self._images[key], place, pages)
                address = self._place.region.address + pages.begin
                for column, value in zip(
                    copies, (address, self._images[key].ctypes.data, nbytes), strict=True
                ):
                    column.append(value)
        return copies

    def _fill(self, view: Bytes, place: int, pages: buffers_guard.Pages) -> None:
        poison_pages(view, self._shape, place, pages, self._place.poison)

    def time_ns(self, side: Side, first: int, take: int) -> int:
        """See :class:`.session_octets.Pool`."""
        return clock.time_ns(
            [call for one in self._calls[side][first : first + take] for call in one]
        )

    def outputs(self, side: Side, slot: Slot) -> list[bytes]:
        """See :class:`.session_octets.Pool`."""
        region = self._place.region.bytes
        return outputs_of(
            self._case, self._shape, side, slot, lambda start, nbytes: region[start:][:nbytes]
        )


def poison_pages(
    view: Bytes, shape: Shape, place: int, pages: buffers_guard.Pages, poison: int
) -> None:
    """Fills the pages of the n-th private buffer (``place``) as a checked run's are."""
    # The salt is the buffer's place in the candidate's plan, as in a run of that plan.
    own = shape.private_of["b"]
    salt = own[place] if place < len(own) else shape.private_of["a"][place]
    buffers_poison.fill(view, poison, salt)
    buffers_poison.fill(view[pages.start - pages.begin :][: pages.nbytes], poison, salt)


def build(
    case: TimedCase,
    shape: Shape,
    arena: int,
    rng: random.Random,
    images: Mapping[str, Bytes],
    entries: Mapping[str, Entry],
    object_of: Mapping[str, str],
    *,
    slots: int,
    own_inputs: bool,
    poison: int,
    sweep: Bytes | None = None,
) -> Pool:
    """Lays out a pool, copies the inputs and binds both sides' launches to every slot.

    Args:
        arena: address of the kernels' arena.
        rng: decides every distance.
        images: each input's storage bytes.
        object_of: as in :class:`kernelsmith.model.TimeJob`.
        own_inputs: a cold pool.
        poison: one seed for the whole pool, as a checked run has it.
        sweep: memory to read through at each renewal of a cold pool.
    """
    layout = buffers_guard.Layout(rng.randrange, guarded=False)
    laid = lay_out(shape, layout, rng, slots, own_inputs=own_inputs)
    place = Place(region=buffers_guard.reserve(layout), rng=rng, arena=arena, poison=poison)
    # Neighbours in memory are not neighbours in time: no prefetcher runs ahead into a slot.
    rng.shuffle(laid)
    calls: dict[Side, list[Calls]] = {}
    for side in sides():
        calls[side] = [_bind(case, shape, side, slot, place, entries, object_of) for slot in laid]
        if not calls[side][0]:
            raise InputError(f"case {case.key}: side {side} launches nothing to be timed")
    pool = Pool(case, shape, place, laid, calls, sweep)
    pool.lay_inputs(images)
    pool.renew()
    return pool


def _bind(
    case: TimedCase,
    shape: Shape,
    side: Side,
    slot: Slot,
    place: Place,
    entries: Mapping[str, Entry],
    object_of: Mapping[str, str],
) -> Calls:
    plan = plan_of(case, side)
    addresses = [
        place.region.address + where(plan, shape, side, slot, index)[0]
        for index in range(len(plan.buffers))
    ]
    bounds = launcher_bind.bind_all(plan.launches, addresses, object_of, entries, prefix=f"{side}:")
    calls = (launcher_bind.prebound(bound, place.arena) for bound in bounds)
    return tuple(call for call in calls if call is not None)
