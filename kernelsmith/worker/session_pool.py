"""The buffers of a timed case: slots that both sides use in turn.

A slot holds what one replay writes: the outputs, then scratch. The n-th of either side lies at
the same address, so that no side has the better buffers. Each slot serves one replay; then the
pool is *renewed*: outputs and scratch of all slots are filled with a byte that changes. A replay
never finds what an earlier one left.

A *warm* pool shares one set of inputs and has just a few slots, so that all of it stays in the
caches. In a *cold* pool every slot has inputs of its own, all slots together are up to twice the
last-level cache, and after a renewal as much memory as one and a half last-level caches is read
through: each slot is then equally cold, in whatever order they come. (An eviction before each
replay would cost milliseconds for every one. The kernel's code stays warm in both. Measured on a
32 MiB cache, one copy of 2 MiB: 25 us warm, 78 us cold, and 78 us with four times the memory.)
"""

import ctypes
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelsmith.errors import InputError
from kernelsmith.model import Plan, TimedCase
from kernelsmith.worker import buffers, clock, launcher_bind
from kernelsmith.worker.buffers_poison import Bytes
from kernelsmith.worker.launcher_bind import Entry

Side = Literal["a", "b"]
Calls = tuple[Callable[[], None], ...]

WARM_SLOTS_BYTES = 512 * 1024
WARM_SLOTS_MAX = 128
# More slots than this cost more to bind than they save.
COLD_SLOTS_MAX = 384
SLOTS_CAP_BYTES = 192 * 2**20
GAP_MAX_LINES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What both sides' plans need: input sizes by argument, sizes of the private buffers in slot
    order, and for each side which plan buffer is the n-th private one."""

    inputs: dict[str, int]
    private: tuple[int, ...]
    private_of: dict[Side, tuple[int, ...]]

    @property
    def private_bytes(self) -> int:
        return sum(_room(nbytes) for nbytes in self.private)

    @property
    def input_bytes(self) -> int:
        return sum(_room(nbytes) for nbytes in self.inputs.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One replay's buffers: offset of each input and private buffer within the region, and the
    span [begin, end) that holds the private ones and nothing else."""

    inputs: dict[str, int]
    private: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Memory and chance that a pool is built from. ``base`` is where it may start."""

    region: buffers.Region
    base: int
    rng: random.Random
    arena: int


class Pool:
    """Slots of one case with both sides' launches bound to each. ``cursor`` is the next slot."""

    __slots__ = ("_calls", "_case", "_place", "_shape", "_sweep", "cursor", "nbytes", "slots")

    def __init__(
        self,
        case: TimedCase,
        shape: Shape,
        place: Place,
        slots: Sequence[Slot],
        calls: Mapping[Side, Sequence[Calls]],
        sweep: Bytes | None,
    ) -> None:
        self._case = case
        self._shape = shape
        self._place = place
        self._calls = calls
        self._sweep = sweep
        self.slots = slots
        self.nbytes = sum(slot.end - slot.begin for slot in slots)
        self.cursor = 0

    def lay_inputs(self, images: Mapping[str, Bytes]) -> None:
        """Copies the inputs to where the slots have them."""
        for starts in {tuple(slot.inputs.items()): None for slot in self.slots}:
            for name, start in starts:
                self._place.region.bytes[start : start + images[name].size] = images[name]

    def renew(self) -> None:
        """Fills outputs and scratch of all slots with another byte, in the order of use."""
        value = self._place.rng.randrange(0x21, 0xFF)
        for slot in self.slots:
            address = self._place.region.address + slot.begin
            ctypes.memset(address, value, slot.end - slot.begin)
        if self._sweep is not None:
            self._sweep[: self._sweep.size // 8 * 8].view(np.uint64).sum()
        self.cursor = 0

    def replay(self, side: Side, replays: int, pick: int | None = None) -> tuple[int, list[bytes]]:
        """Replays one side, each time in a slot of its own; renewing is not timed.

        Returns:
            Nanoseconds of all replays, and the outputs of replay ``pick`` (none without one).
        """
        total_ns, done, picked = 0, 0, []
        while done < replays:
            if self.cursor == len(self.slots):
                self.renew()
            first = self.cursor
            take = min(replays - done, len(self.slots) - first)
            calls = [call for one in self._calls[side][first : first + take] for call in one]
            total_ns += clock.time_ns(calls)
            if pick is not None and done <= pick < done + take:
                picked = self.outputs(side, self.slots[first + pick - done])
            self.cursor += take
            done += take
        return total_ns, picked

    def outputs(self, side: Side, slot: Slot) -> list[bytes]:
        """The outputs that ``side`` left in ``slot``, contiguous."""
        plan = _plan(self._case, side)
        found = []
        for ref in plan.outputs:
            start, nbytes = _where(plan, self._shape, side, slot, ref.buffer)
            found.append(buffers.output_bytes(self._place.region.bytes[start:][:nbytes], ref))
        return found

    def changed_inputs(self, images: Mapping[str, Bytes], slots: int) -> list[str]:
        """Inputs that no longer hold their bytes, in ``slots`` slots drawn at random."""
        changed = set()
        for slot in self._place.rng.sample(list(self.slots), min(slots, len(self.slots))):
            for name, start in slot.inputs.items():
                image = images[name]
                if not np.array_equal(self._place.region.bytes[start:][: image.size], image):
                    changed.add(name)
        return sorted(changed)


def shape_of(case: TimedCase) -> Shape:
    """What a slot of ``case`` has to hold."""
    inputs: dict[str, int] = {}
    private_of: dict[Side, tuple[int, ...]] = {}
    for side in sides():
        plan = _plan(case, side)
        for buffer in plan.buffers:
            if buffer.arg:
                inputs[buffer.arg] = max(inputs.get(buffer.arg, 0), buffer.nbytes)
        written = [ref.buffer for ref in plan.outputs if not plan.buffers[ref.buffer].arg]
        scratch = [
            index
            for index, buffer in enumerate(plan.buffers)
            if not buffer.arg and index not in written
        ]
        private_of[side] = tuple(dict.fromkeys(written + scratch))
    sizes = [[_plan(case, side).buffers[i].nbytes for i in private_of[side]] for side in sides()]
    longest = max(len(one) for one in sizes)
    private = tuple(
        max(one[place] for one in sizes if place < len(one)) for place in range(longest)
    )
    return Shape(inputs=inputs, private=private, private_of=private_of)


def warm_slots(shape: Shape) -> int:
    """How many slots a warm pool has: as many as stay in the near caches, at least two."""
    each = max(shape.private_bytes, 1)
    if 2 * each > SLOTS_CAP_BYTES:
        return 1
    return max(2, min(WARM_SLOTS_MAX, WARM_SLOTS_BYTES // each))


def cold_slots(shape: Shape, llc_bytes: int) -> int:
    """How many slots a cold pool has; see the module."""
    each = max(shape.private_bytes + shape.input_bytes, 1)
    wanted = -(-2 * llc_bytes // each)
    return max(2, min(COLD_SLOTS_MAX, wanted, max(2, SLOTS_CAP_BYTES // each)))


def room_bytes(shape: Shape, slots: int, *, own_inputs: bool) -> int:
    """Region bytes that a pool of ``slots`` slots needs at most."""
    inputs = shape.input_bytes * (slots if own_inputs else 1)
    return inputs + slots * shape.private_bytes + 2 * buffers.ALIGN_BYTES


def build(
    case: TimedCase,
    shape: Shape,
    place: Place,
    images: Mapping[str, Bytes],
    entries: Mapping[str, Entry],
    object_of: Mapping[str, str],
    *,
    slots: int,
    own_inputs: bool,
    sweep: Bytes | None = None,
) -> Pool:
    """Lays out a pool, copies the inputs and binds both sides' launches to every slot.

    Args:
        images: each input's storage bytes.
        object_of: as in :class:`kernelsmith.model.TimeJob`.
        own_inputs: a cold pool.
        sweep: memory to read through at each renewal of a cold pool.
    """
    laid = _lay_out(shape, place, slots, own_inputs=own_inputs)
    # Neighbours in memory are not neighbours in time: no prefetcher runs ahead into a slot.
    place.rng.shuffle(laid)
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
    plan = _plan(case, side)
    addresses = [
        place.region.address + _where(plan, shape, side, slot, index)[0]
        for index in range(len(plan.buffers))
    ]
    bounds = launcher_bind.bind_all(plan.launches, addresses, object_of, entries, prefix=f"{side}:")
    calls = (launcher_bind.prebound(bound, place.arena) for bound in bounds)
    return tuple(call for call in calls if call is not None)


def _lay_out(shape: Shape, place: Place, slots: int, *, own_inputs: bool) -> list[Slot]:
    offset = place.base
    shared: dict[str, int] = {}
    found = []
    for index in range(slots):
        inputs = dict(shared)
        if own_inputs or index == 0:
            for name, nbytes in shape.inputs.items():
                inputs[name], offset = _put(offset, nbytes, place.rng)
            shared = inputs
        begin = offset
        private = []
        for nbytes in shape.private:
            start, offset = _put(offset, nbytes, place.rng)
            private.append(start)
        found.append(Slot(inputs=inputs, private=tuple(private), begin=begin, end=offset))
    return found


def _put(offset: int, nbytes: int, rng: random.Random) -> tuple[int, int]:
    """(start, end) of a buffer behind ``offset``: 64-byte aligned, at a random distance."""
    lines = 1 + rng.randrange(GAP_MAX_LINES)
    start = -(-offset // buffers.ALIGN_BYTES) * buffers.ALIGN_BYTES + lines * buffers.ALIGN_BYTES
    return start, start + nbytes


def _room(nbytes: int) -> int:
    return nbytes + (GAP_MAX_LINES + 2) * buffers.ALIGN_BYTES


def _where(plan: Plan, shape: Shape, side: Side, slot: Slot, index: int) -> tuple[int, int]:
    """(offset in the region, size) of a plan's buffer in ``slot``."""
    buffer = plan.buffers[index]
    if buffer.arg:
        return slot.inputs[buffer.arg], buffer.nbytes
    return slot.private[shape.private_of[side].index(index)], buffer.nbytes


def _plan(case: TimedCase, side: Side) -> Plan:
    return case.a if side == "a" else case.b


def sides() -> tuple[Side, Side]:
    """Both sides, the incumbent's first."""
    return "a", "b"
