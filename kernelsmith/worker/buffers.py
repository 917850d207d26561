"""Memory that the launcher owns: one fresh mapping for each buffer set, red zones and guards.

Every buffer lies at a 64-byte aligned address plus the requested misalignment, between two red
zones of at least RED_ZONE_BYTES, in pages of its own between guards. Order and distances of the
buffers change with the seed, and the mapping changes with each set, so neither an address nor a
distance says anything to a kernel. Under the two constant poisons there are no zones but the rest
of a page: under ZEROS every buffer ends at a guard, under ONES it starts at one; and inputs cannot
be written, so that a kernel that writes one and puts it back is found out.
"""

import contextlib
import mmap
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsmith.errors import InputError
from kernelsmith.model import ITEMSIZE_BYTES, InputSpec, OutputRef, Plan, TensorMeta
from kernelsmith.worker import buffers_guard, buffers_poison
from kernelsmith.worker.buffers_guard import Region
from kernelsmith.worker.buffers_poison import Bytes

ALIGN_BYTES = 64
RED_ZONE_BYTES = 4096
# A store that runs past a buffer by whole rows of a tile must not jump over the zone.
RED_ZONE_MAX_BYTES = 64 * 1024
GAP_LINES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One buffer within a region: its own bytes are [start, start + nbytes), the red zones
    [zone_start, start) and [start + nbytes, zone_end)."""

    name: str
    zone_start: int
    start: int
    nbytes: int
    zone_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSet:
    """The buffers of one plan, in plan order, in one region; ``poison`` seeded their red zones."""

    region: Region
    spans: tuple[Span, ...]
    poison: int

    def view(self, index: int) -> Bytes:
        span = self.spans[index]
        return self.region.bytes[span.start : span.start + span.nbytes]

    def address(self, index: int) -> int:
        return self.region.address + self.spans[index].start


def map_region(nbytes: int, *, huge: bool = False) -> Region:
    """Maps ``nbytes`` of fresh zeroed memory; it is released with the last reference.

    ``huge`` asks for huge pages where the kernel grants them on request."""
    memory = mmap.mmap(-1, max(nbytes, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if huge and hasattr(mmap, "MADV_HUGEPAGE"):
        # A kernel without huge pages refuses: the same bytes at another speed.
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    view = np.frombuffer(memory, dtype=np.uint8)
    return Region(bytes=view, address=view.ctypes.data)


def names(plan: Plan) -> tuple[str, ...]:
    """A name for each of the plan's buffers: its argument's, "output 0" or "scratch 2"."""
    outputs: dict[int, int] = {}
    for position, ref in enumerate(plan.outputs):
        outputs.setdefault(ref.buffer, position)
    return tuple(
        buffer.arg or (f"output {outputs[index]}" if index in outputs else f"scratch {index}")
        for index, buffer in enumerate(plan.buffers)
    )


def allocate(plan: Plan, *, misalign_bytes: int, poison: int) -> BufferSet:
    """Allocates every buffer of ``plan`` and fills buffers and red zones with poison.

    Order and distances are drawn from ``poison``; see the module for what is promised."""
    draw = np.random.Generator(np.random.PCG64([poison, len(plan.buffers)]))
    # The reservation's margins and distances are fresh each time: they decide nothing that
    # a kernel may depend on, and must not be foreseen.
    layout = buffers_guard.Layout(secrets.randbelow)
    pages: dict[int, buffers_guard.Pages] = {}
    for index in draw.permutation(len(plan.buffers)).tolist():
        nbytes = plan.buffers[index].nbytes
        if poison in buffers_poison.CONSTANT:
            edge: buffers_guard.Edge = "end" if poison == buffers_poison.ZEROS else "start"
            pages[index] = layout.put_at_edge(nbytes, edge, align=ALIGN_BYTES, shift=misalign_bytes)
            continue
        zone = zone_bytes(nbytes)
        gap = int(draw.integers(0, GAP_LINES)) * ALIGN_BYTES
        pages[index] = layout.put(
            nbytes, before=zone + gap, align=ALIGN_BYTES, shift=misalign_bytes, after=zone
        )
    return laid(plan, buffers_guard.reserve(layout), pages, poison)


def laid(
    plan: Plan, region: Region, pages: Mapping[int, buffers_guard.Pages], poison: int
) -> BufferSet:
    """The buffer set of ``plan`` in a region, with each buffer in its pages, filled with poison."""
    spans = tuple(
        Span(
            name=label,
            zone_start=pages[index].begin,
            start=pages[index].start,
            nbytes=pages[index].nbytes,
            zone_end=pages[index].end,
        )
        for index, label in enumerate(names(plan))
    )
    held = BufferSet(region=region, spans=spans, poison=poison)
    for index, span in enumerate(spans):
        buffers_poison.fill(region.bytes[span.zone_start : span.zone_end], poison, index)
        # From its own start, as in a timed replay.
        buffers_poison.fill(held.view(index), poison, index)
    return held


def make_readable_only(buffers: BufferSet, indices: Iterable[int]) -> None:
    """Takes away the right to write the pages of these buffers; a store into one ends the process.

    Raises:
        InfrastructureError: the system refuses.
    """
    for index in indices:
        span = buffers.spans[index]
        pages = buffers_guard.Pages(
            begin=span.zone_start, start=span.start, nbytes=span.nbytes, end=span.zone_end
        )
        buffers_guard.protect(buffers.region, pages, mmap.PROT_READ)


def zone_bytes(nbytes: int) -> int:
    """The least that a red zone of a buffer holds."""
    return RED_ZONE_BYTES + min(RED_ZONE_MAX_BYTES, nbytes // 4)


def broken_zones(buffers: BufferSet) -> tuple[str, ...]:
    """The red zones that were written, as "NAME before" or "NAME after", in plan order."""
    found: list[str] = []
    for index, span in enumerate(buffers.spans):
        zone = buffers.region.bytes[span.zone_start : span.zone_end]
        # Compare against the whole fill, so that the pattern's place in the zone matters too.
        expected = np.empty_like(zone)
        buffers_poison.fill(expected, buffers.poison, index)
        first, last = span.start - span.zone_start, span.start - span.zone_start + span.nbytes
        if not np.array_equal(zone[:first], expected[:first]):
            found.append(f"{span.name} before")
        if not np.array_equal(zone[last:], expected[last:]):
            found.append(f"{span.name} after")
    return tuple(found)


def element_view(storage: Bytes, meta: TensorMeta, offset_bytes: int = 0) -> NDArray[np.generic]:
    """A view of a tensor's elements as unsigned integers of its item size, shape ``meta.shape``.

    Raises:
        InputError: the tensor does not fit into the storage.
    """
    item = ITEMSIZE_BYTES[meta.dtype]
    kind = np.dtype(f"u{item}")
    if 0 in meta.shape:
        return np.empty(meta.shape, kind)
    extent = item + item * sum(
        (size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True)
    )
    if offset_bytes < 0 or min(meta.strides, default=0) < 0 or offset_bytes + extent > storage.size:
        raise InputError(
            f"a tensor of shape {meta.shape}, strides {meta.strides}, {meta.dtype} at byte "
            f"{offset_bytes} does not fit into {storage.size} bytes"
        )
    return np.ndarray(
        shape=meta.shape,
        dtype=kind,
        buffer=storage.data,
        offset=offset_bytes,
        strides=tuple(stride * item for stride in meta.strides),
    )


def input_image(
    spec: InputSpec, values: NDArray[np.generic], nbytes: int, *, poison: int, salt: int
) -> Bytes:
    """The storage of one input: ``values`` at the strides of ``spec.meta``, poison between rows.

    Args:
        values: contiguous, of shape ``spec.meta.shape`` (bfloat16 as uint16).
        nbytes: size of the storage.

    Raises:
        InputError: shape or item size are not those of the spec, or it does not fit.
    """
    item = ITEMSIZE_BYTES[spec.meta.dtype]
    if values.shape != spec.meta.shape or values.dtype.itemsize != item:
        raise InputError(
            f"input {spec.name}: drawn as {values.shape} of {values.dtype}, "
            f"declared {spec.meta.shape} of {spec.meta.dtype}"
        )
    image = np.empty(nbytes, np.uint8)
    buffers_poison.fill(image, poison, salt)
    element_view(image, spec.meta)[...] = np.ascontiguousarray(values).view(f"u{item}")
    return image


def output_bytes(storage: Bytes, ref: OutputRef) -> bytes:
    """An output's elements, contiguous in row-major order."""
    return element_view(storage, ref.meta, ref.offset_bytes).tobytes()


def input_images(
    plan: Plan,
    specs: Sequence[InputSpec],
    drawn: Mapping[str, NDArray[np.generic]],
    *,
    poison: int,
) -> dict[int, Bytes]:
    """Storage images of all inputs that ``plan`` touches, by buffer index.

    Raises:
        InputError: the plan names an input that the call does not have.
    """
    by_name = {spec.name: spec for spec in specs}
    images: dict[int, Bytes] = {}
    for index, buffer in enumerate(plan.buffers):
        if not buffer.arg:
            continue
        if buffer.arg not in by_name:
            raise InputError(f"the plan reads input {buffer.arg!r}, the call has {list(by_name)}")
        spec = by_name[buffer.arg]
        images[index] = input_image(
            spec, drawn[spec.name], buffer.nbytes, poison=poison, salt=index
        )
    return images
