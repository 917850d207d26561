"""Memory on a GPU: plain, and between guards.

Plain memory is one ``cuMemAlloc``. Guarded memory is a reservation of addresses of which only
parts are backed: a kernel that touches the rest faults (ILLEGAL_ADDRESS) instead of finding other
data. The parts are whole pages of the GPU (2 MiB), by ``cuMemAddressReserve``, ``cuMemCreate``,
``cuMemMap`` and ``cuMemSetAccess``.

Never run on a GPU; driven against a stand-in in ``tests/cuda``.
"""

import contextlib
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelsmith.devices.cuda import constants
from kernelsmith.devices.cuda.constants import DeviceAttribute
from kernelsmith.devices.cuda.gpu import Gpu, attribute
from kernelsmith.errors import GpuError


@dataclass(slots=True, kw_only=True)
class Memory:
    """``nbytes`` at ``address``, of which [begin, end) in ``parts`` may be touched. Close it to
    give it back; a closed one owns nothing."""

    gpu: Gpu
    address: int
    nbytes: int
    parts: tuple[tuple[int, int], ...]
    handles: list[tuple[int, int, int]] = field(default_factory=list)
    reserved: bool = False

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the memory back; a lost context has given it back already."""
        lib, address, self.address = self.gpu.lib, self.address, 0
        with contextlib.suppress(GpuError):
            if not self.reserved:
                if address:
                    lib.call("cuMemFree_v2", address)
                return
            while self.handles:
                handle, begin, nbytes = self.handles.pop()
                lib.call("cuMemUnmap", address + begin, nbytes)
                lib.call("cuMemRelease", handle)
            if address:
                lib.call("cuMemAddressFree", address, self.nbytes)


def allocate(gpu: Gpu, nbytes: int) -> Memory:
    """Plain memory, its contents undefined; the address is a multiple of 256.

    Raises:
        GpuError: the GPU has not that much left.
    """
    nbytes = max(nbytes, 1)
    address = ctypes.c_uint64()
    gpu.lib.call("cuMemAlloc_v2", ctypes.byref(address), nbytes)
    return Memory(gpu=gpu, address=address.value, nbytes=nbytes, parts=((0, nbytes),))


def page_bytes(gpu: Gpu) -> int:
    """Size of the pages that guarded memory is made of; 0 where the GPU cannot guard."""
    if not attribute(gpu.lib, gpu.device, DeviceAttribute.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED):
        return 0
    found = ctypes.c_size_t()
    gpu.lib.call(
        "cuMemGetAllocationGranularity",
        ctypes.byref(found),
        ctypes.byref(_properties(gpu)),
        constants.MEM_ALLOC_GRANULARITY_MINIMUM,
    )
    return found.value


def guarded(gpu: Gpu, nbytes: int, parts: Sequence[tuple[int, int]]) -> Memory:
    """A reservation of ``nbytes`` with memory behind ``parts`` only.

    Args:
        parts: [begin, end) in bytes, apart, ascending, whole pages (:func:`page_bytes`).

    Raises:
        GpuError: the GPU has not that much left.
    """
    lib = gpu.lib
    address = ctypes.c_uint64()
    lib.call("cuMemAddressReserve", ctypes.byref(address), nbytes, 0, 0, 0)
    found = Memory(gpu=gpu, address=address.value, nbytes=nbytes, parts=tuple(parts), reserved=True)
    properties = _properties(gpu)
    access = constants.MemAccessDesc(
        location=properties.location, flags=constants.MEM_ACCESS_FLAGS_PROT_READWRITE
    )
    try:
        for begin, end in parts:
            handle = ctypes.c_uint64()
            lib.call("cuMemCreate", ctypes.byref(handle), end - begin, ctypes.byref(properties), 0)
            try:
                lib.call("cuMemMap", address.value + begin, end - begin, 0, handle.value, 0)
            except GpuError:
                lib.call("cuMemRelease", handle.value)
                raise
            found.handles.append((handle.value, begin, end - begin))
            lib.call("cuMemSetAccess", address.value + begin, end - begin, ctypes.byref(access), 1)
    except GpuError:
        found.close()
        raise
    return found


def write(gpu: Gpu, address: int, host_address: int, nbytes: int) -> None:
    """Copies from host memory, and waits until the bytes are there.

    The driver's call returns as soon as it has read pageable memory; the bytes may still be on
    their way, and a stream that does not wait for the default one would run ahead of them.
    """
    if nbytes:
        gpu.lib.call("cuMemcpyHtoD_v2", address, host_address, nbytes)
        gpu.lib.call("cuCtxSynchronize")


def upload(memory: Memory, host_address: int) -> None:
    """Copies a host image of the whole of ``memory`` to it, the parts that may be touched."""
    for begin, end in memory.parts:
        write(memory.gpu, memory.address + begin, host_address + begin, end - begin)


def download(memory: Memory, host_address: int) -> None:
    """Copies ``memory`` to a host image of the whole of it, the parts that may be touched."""
    for begin, end in memory.parts:
        memory.gpu.lib.call(
            "cuMemcpyDtoH_v2", host_address + begin, memory.address + begin, end - begin
        )


def _properties(gpu: Gpu) -> constants.MemAllocationProp:
    return constants.MemAllocationProp(
        type=constants.MEM_ALLOCATION_TYPE_PINNED,
        location=constants.MemLocation(type=constants.MEM_LOCATION_TYPE_DEVICE, id=gpu.device),
    )
