"""What a slot holds, how many there are, and where they lie; see :mod:`.session_pool`."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from kernelsmith.model import Plan, TimedCase
from kernelsmith.worker import buffers, buffers_guard
from kernelsmith.worker.buffers_guard import Pages
from kernelsmith.worker.buffers_poison import Bytes

Side = Literal["a", "b"]
WARM_SLOTS_BYTES = 512 * 1024
WARM_SLOTS_MAX = 128
# More slots than this cost more to bind than they save.
COLD_SLOTS_MAX = 320
SLOTS_CAP_BYTES = 192 * 2**20


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
    """One replay's buffers: the pages of each input and of each private buffer."""

    inputs: dict[str, Pages]
    private: tuple[Pages, ...]


def shape_of(case: TimedCase) -> Shape:
    """What a slot of ``case`` has to hold."""
    inputs: dict[str, int] = {}
    private_of: dict[Side, tuple[int, ...]] = {}
    for side in sides():
        plan = plan_of(case, side)
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
    sizes = [[plan_of(case, side).buffers[i].nbytes for i in private_of[side]] for side in sides()]
    longest = max(len(one) for one in sizes)
    private = tuple(
        max(one[place] for one in sizes if place < len(one)) for place in range(longest)
    )
    return Shape(inputs=inputs, private=private, private_of=private_of)


def warm_slots(shape: Shape, near_bytes: int = WARM_SLOTS_BYTES) -> int:
    """How many slots a warm pool has: as many as stay in the near caches (``near_bytes`` of
    them), at least two."""
    each = max(shape.private_bytes, 1)
    if 2 * each > SLOTS_CAP_BYTES:
        return 1
    return max(2, min(WARM_SLOTS_MAX, near_bytes // each))


def cold_slots(shape: Shape, llc_bytes: int, replays: int) -> int:
    """How many slots a cold pool has: enough for two windows of ``replays`` replays, but no more
    memory than twice the last-level cache."""
    each = max(shape.private_bytes + shape.input_bytes, 1)
    if 2 * each > SLOTS_CAP_BYTES:
        return 1
    return max(2, min(COLD_SLOTS_MAX, -(-2 * llc_bytes // each), 2 * replays))


class Places(Protocol):
    """What places buffers: ``buffers_guard.Layout`` and its like."""

    def put(self, nbytes: int, *, before: int, align: int, shift: int, after: int) -> Pages: ...


def lay_out(
    shape: Shape, layout: Places, rng: random.Random, slots: int, *, own_inputs: bool
) -> list[Slot]:
    """Places the inputs of all slots and then what is written, so that no lane that is masked off
    of a store lies on an input, which cannot be written."""
    inputs = [
        {name: _put(layout, nbytes, rng) for name, nbytes in shape.inputs.items()}
        for _ in range(slots if own_inputs else 1)
    ]
    return [
        Slot(
            inputs=inputs[index % len(inputs)],
            private=tuple(_put(layout, nbytes, rng) for nbytes in shape.private),
        )
        for index in range(slots)
    ]


def _put(layout: Places, nbytes: int, rng: random.Random) -> Pages:
    # As far into its page as in a checked run, so that no address tells one from the other.
    before = buffers.zone_bytes(nbytes) + rng.randrange(buffers.GAP_LINES) * buffers.ALIGN_BYTES
    into = before % buffers_guard.PAGE_BYTES
    return layout.put(nbytes, before=into, align=buffers.ALIGN_BYTES, shift=0, after=0)


def _room(nbytes: int) -> int:
    return buffers_guard.whole_pages(max(nbytes, 1))


def where(plan: Plan, shape: Shape, side: Side, slot: Slot, index: int) -> tuple[int, int]:
    """(offset in the region, size) of a plan's buffer in ``slot``."""
    buffer = plan.buffers[index]
    if buffer.arg:
        return slot.inputs[buffer.arg].start, buffer.nbytes
    return slot.private[shape.private_of[side].index(index)].start, buffer.nbytes


def outputs_of(
    case: TimedCase, shape: Shape, side: Side, slot: Slot, read: Callable[[int, int], Bytes]
) -> list[bytes]:
    """The outputs of a side in ``slot``, contiguous; ``read(start, nbytes)`` of the region."""
    plan = plan_of(case, side)
    return [
        buffers.output_bytes(read(*where(plan, shape, side, slot, ref.buffer)), ref)
        for ref in plan.outputs
    ]


def plan_of(case: TimedCase, side: Side) -> Plan:
    """The plan of a side."""
    return case.a if side == "a" else case.b


def sides() -> tuple[Side, Side]:
    """Both sides, the incumbent's first."""
    return "a", "b"
