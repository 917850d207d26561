"""The buffers of a timed case on a GPU; promises are those of :mod:`.session_pool`.

All slots lie in one allocation. Outputs and scratch of all slots are renewed by one copy from an
image that was laid once, on the GPU. Replays are timed on the GPU's own clock, as one graph of
all launches between two events (:mod:`kernelsmith.devices.cuda.graph`); a graph is made when a
window first needs it and replayed after that, on inputs that have changed since it was made:
calibration runs on the inputs turned round, what counts on the case's own, laid over them in
place. A kernel that kept what it first saw brings back wrong outputs.

A *warm* pool shares one set of inputs; outputs and scratch stay within a part of the L2 cache. In
a *cold* pool every slot has inputs of its own, and a renewal ends with writing through twice the
L2 cache. Lines that a kernel asked to persist in it are released at every renewal.

Never run on a GPU; driven against a stand-in in ``tests/cuda``.
"""

import contextlib
import math
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelsmith.devices.cuda import gpu as gpus
from kernelsmith.devices.cuda import graph, kernel, memory
from kernelsmith.devices.cuda.gpu import Gpu
from kernelsmith.errors import GpuError, InfrastructureError, InputError
from kernelsmith.model import ITEMSIZE_BYTES, TimedCase
from kernelsmith.worker import (
    buffers_gpu,
    buffers_poison,
    launcher_bind,
    launcher_gpu,
    session_pool,
)
from kernelsmith.worker.buffers_poison import Bytes
from kernelsmith.worker.launcher_bind import Entry
from kernelsmith.worker.session_octets import replay
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

GRAPHS_KEPT = 48
# Clocks rise from idle within this time of work; it is spent once a pool.
SETTLE_S = 0.05
EVICT_BY_L2 = 2
EVICT_VALUE = 0x5A


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all pools of a session use: the GPU, memory to write through, and what is told which
    side runs which case; ``graphs``: whether they are used."""

    gpu: Gpu
    evict: memory.Memory
    mark: Callable[[str], None]
    graphs: bool = True


class Pool:
    """Slots of one case with both sides' launches bound to each; see the module."""

    def __init__(
        self,
        ground: Ground,
        case: TimedCase,
        shape: Shape,
        slots: Sequence[Slot],
        held: Mapping[str, memory.Memory],
        launches: Mapping[Side, Sequence[Sequence[kernel.Prepared]]],
        *,
        cold: bool,
    ) -> None:
        self.slots = slots
        self.cursor = 0
        self.timed_by: str = "graph"
        self._ground, self._case, self._shape = ground, case, shape
        self._held, self._launches, self._cold = held, launches, cold
        self._inputs_end = min(page.begin for slot in slots for page in slot.private)
        self._inputs: Bytes | None = None
        self._replays: OrderedDict[tuple[Side, int, int], graph.Replay] = OrderedDict()

    def lay_inputs(self, images: Mapping[str, Bytes], poison: int) -> None:
        """Lays the inputs turned round, for calibration; :meth:`settle` lays them as they are."""
        self._inputs = self._input_image(images, poison)
        self._upload(self._input_image(turned(self._case, images), poison))

    def settle(self) -> None:
        """Lays the case's own inputs over those of calibration, and lets clocks rise."""
        assert self._inputs is not None
        self._upload(self._inputs)
        end_s = time.perf_counter() + SETTLE_S
        while not self._cold and time.perf_counter() < end_s:
            for side in sides():
                replay(self, side, len(self.slots))
        self.renew()

    def renew(self) -> None:
        """Fills outputs and scratch of all slots with a checked run's poison; evicts if cold."""
        gpu, slots, first = self._ground.gpu, self._held["slots"], self._inputs_end
        # Before what is written through the cache, which lines that persist would outlive. A GPU
        # in parts (MIG) has none and may refuse; a context that is lost says so below.
        with contextlib.suppress(GpuError):
            gpu.lib.call("cuCtxResetPersistingL2Cache")
        gpu.lib.call(
            "cuMemcpyDtoDAsync_v2",
            slots.address + first,
            self._held["image"].address,
            slots.nbytes - first,
            gpu.stream,
        )
        if self._cold:
            evict = self._ground.evict
            gpu.lib.call("cuMemsetD8Async", evict.address, EVICT_VALUE, evict.nbytes, gpu.stream)
        gpus.synchronize(gpu)
        self.cursor = 0

    def outputs(self, side: Side, slot: Slot) -> list[bytes]:
        """See :class:`.session_octets.Pool`."""
        return outputs_of(self._case, self._shape, side, slot, self._download)

    def close(self) -> None:
        """Frees graphs and memory.

        Raises:
            InfrastructureError: the inputs are not what was laid. Both sides ran on them.
        """
        laid = self._inputs
        changed = laid is not None and not np.array_equal(self._download(0, self._inputs_end), laid)
        self.free()
        if changed:
            raise InfrastructureError(
                f"case {self._case.key}: a timed replay wrote its inputs",
                hint="both sides left them alone in checked runs; is the GPU's memory sound?",
            )

    def free(self) -> None:
        """Frees graphs and memory; closing twice is harmless."""
        while self._replays:
            self._replays.popitem()[1].close()
        for one in self._held.values():
            one.close()

    def time_ns(self, side: Side, first: int, take: int) -> int:
        """See :class:`.session_octets.Pool`."""
        key = (side, first, take)
        found = self._replays.pop(key, None)
        if found is None:
            launches = [one for slot in self._launches[side][first : first + take] for one in slot]
            found = graph.Replay(self._ground.gpu, launches, graphs=self._ground.graphs)
            if found.by == "events":
                self.timed_by = found.by
        self._replays[key] = found
        if len(self._replays) > GRAPHS_KEPT:
            self._replays.popitem(last=False)[1].close()
        return found.time_ns()

    def _input_image(self, images: Mapping[str, Bytes], poison: int) -> Bytes:
        image = np.empty(self._inputs_end, np.uint8)
        buffers_poison.fill(image, poison, 0)
        for slot in self.slots:
            for name, pages in slot.inputs.items():
                image[pages.start :][: images[name].size] = images[name]
        return image

    def _upload(self, image: Bytes) -> None:
        memory.write(self._ground.gpu, self._held["slots"].address, image.ctypes.data, image.size)

    def _download(self, start: int, nbytes: int) -> Bytes:
        image = np.empty(nbytes, np.uint8)
        if nbytes:
            self._ground.gpu.lib.call(
                "cuMemcpyDtoH_v2", image.ctypes.data, self._held["slots"].address + start, nbytes
            )
        return image


def turned(case: TimedCase, images: Mapping[str, Bytes]) -> dict[str, Bytes]:
    """The images with the elements of dense float tensors in reverse: other data of the same kind.
    Integers stay: an index or an offset means something where it stands."""
    found = dict(images)
    for spec in case.inputs.tensors:
        item, image = ITEMSIZE_BYTES[spec.meta.dtype], images.get(spec.name)
        dense = image is not None and image.size == item * math.prod(spec.meta.shape)
        if image is not None and dense and "float" in spec.meta.dtype:
            found[spec.name] = image.view(f"u{item}")[::-1].copy().view(np.uint8)
    return found


def build(
    ground: Ground,
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
    sweep: Any = None,
) -> Pool:
    """Lays out a pool, lays inputs and poison, binds both sides' launches to every slot and runs
    each side once. Arguments as ``session_pool.build`` has them; ``arena`` and ``sweep`` are the
    CPU's.

    Raises:
        InputError: a side launches nothing.
        GpuError: a kernel faulted, or the memory does not suffice.
    """
    layout = buffers_gpu.PoolLayout(rng.randrange)
    laid = lay_out(shape, layout, rng, slots, own_inputs=own_inputs)
    first = min(page.begin for slot in laid for page in slot.private)
    # Where buffers lie in memory is not the order in which they are used.
    rng.shuffle(laid)
    gpu = ground.gpu
    with contextlib.ExitStack() as stack:
        held = {"slots": stack.enter_context(memory.allocate(gpu, layout.nbytes))}
        held["image"] = stack.enter_context(memory.allocate(gpu, layout.nbytes - first))
        _lay_poison(gpu, held["image"], shape, laid, first, poison)
        bounds = {
            side: [
                _bind(case, shape, side, slot, held["slots"].address, entries, object_of)
                for slot in laid
            ]
            for side in sides()
        }
        wanted = max(
            kernel.scratch_bytes(one.entry.info, one.programs)
            for lists in bounds.values()
            for slot in lists
            for one in slot
        )
        held["scratch"] = stack.enter_context(memory.allocate(gpu, wanted))
        launches = {
            side: [launcher_gpu.prepare_all(slot, held["scratch"].address) for slot in lists]
            for side, lists in bounds.items()
        }
        for side, lists in launches.items():
            if not lists[0]:
                raise InputError(f"case {case.key}: side {side} launches nothing to be timed")
        pool = Pool(ground, case, shape, laid, held, launches, cold=own_inputs)
        pool.lay_inputs(images, poison)
        pool.renew()
        _run_once(ground, case, launches)
        pool.renew()
        stack.pop_all()
    return pool


def _lay_poison(
    gpu: Gpu, image: memory.Memory, shape: Shape, laid: Sequence[Slot], first: int, poison: int
) -> None:
    host = np.empty(image.nbytes, np.uint8)
    buffers_poison.fill(host, poison, 0)
    for slot in laid:
        for place, pages in enumerate(slot.private):
            view = host[pages.begin - first : pages.end - first]
            session_pool.poison_pages(view, shape, place, pages, poison)
    memory.write(gpu, image.address, host.ctypes.data, host.size)


def _run_once(
    ground: Ground,
    case: TimedCase,
    launches: Mapping[Side, Sequence[Sequence[kernel.Prepared]]],
) -> None:
    """Code is put on the GPU when it first runs, which must not happen while a graph is made."""
    for side, lists in launches.items():
        ground.mark(f"{side}:{case.key}")
        for one in lists[0]:
            kernel.launch(one, ground.gpu.stream)
        gpus.synchronize(ground.gpu)


def _bind(
    case: TimedCase,
    shape: Shape,
    side: Side,
    slot: Slot,
    base: int,
    entries: Mapping[str, Entry],
    object_of: Mapping[str, str],
) -> list[launcher_bind.Bound]:
    plan = plan_of(case, side)
    addresses = [
        base + where(plan, shape, side, slot, index)[0] for index in range(len(plan.buffers))
    ]
    return launcher_bind.bind_all(plan.launches, addresses, object_of, entries, prefix=f"{side}:")
