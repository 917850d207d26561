"""One GPU: its context in this process, memory on it, streams.

The context is the device's primary one, as torch and Triton use; it is current for the thread that
opened it. A kernel that faults (:data:`..constants.KERNEL_FAULTS`) loses the context for good:
every later call fails, so the process that ran it must end and a new one take its place.

Never run on a GPU; driven against a stand-in in ``tests/cuda``.
"""

import contextlib
import ctypes
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from kernelsmith.devices.cuda import constants
from kernelsmith.devices.cuda.constants import DeviceAttribute
from kernelsmith.devices.cuda.libcuda import Library
from kernelsmith.errors import GpuError, MissingError


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU whose context is current in this thread, with one stream of its own."""

    lib: Library
    ordinal: int
    device: int
    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """What a GPU is. ``arch`` 90 is sm_90; ``cuda`` the newest CUDA release the driver speaks;
    ``many_processes``: whether more than one process may use it at a time."""

    name: str
    uuid: str
    arch: int
    multiprocessors: int
    l2_bytes: int
    memory_bytes: int
    shared_bytes_per_block_max: int
    cuda: str
    many_processes: bool


def facts(lib: Library, ordinal: int) -> GpuFacts:
    """Asks the driver about a GPU; makes no context.

    Raises:
        MissingError: there is no such GPU, or no GPU at all.
        GpuError: the driver does not start.
    """
    device = find(lib, ordinal)
    name = ctypes.create_string_buffer(256)
    lib.call("cuDeviceGetName", name, len(name), device)
    identity = ctypes.create_string_buffer(16)
    lib.call("cuDeviceGetUuid_v2", identity, device)
    total = ctypes.c_size_t()
    lib.call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    version = ctypes.c_int()
    lib.call("cuDriverGetVersion", ctypes.byref(version))
    major = attribute(lib, device, DeviceAttribute.COMPUTE_CAPABILITY_MAJOR)
    minor = attribute(lib, device, DeviceAttribute.COMPUTE_CAPABILITY_MINOR)
    return GpuFacts(
        name=name.value.decode("utf-8", "replace"),
        uuid=f"GPU-{uuid.UUID(bytes=identity.raw)}",
        arch=10 * major + minor,
        multiprocessors=attribute(lib, device, DeviceAttribute.MULTIPROCESSOR_COUNT),
        l2_bytes=attribute(lib, device, DeviceAttribute.L2_CACHE_SIZE),
        memory_bytes=total.value,
        shared_bytes_per_block_max=attribute(
            lib, device, DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        ),
        many_processes=attribute(lib, device, DeviceAttribute.COMPUTE_MODE)
        == constants.COMPUTEMODE_DEFAULT,
        cuda=f"{version.value // 1000}.{version.value % 1000 // 10}",
    )


def find(lib: Library, ordinal: int) -> int:
    """The driver's handle of a GPU, after starting the driver in this process.

    Raises:
        MissingError: there is no such GPU.
        GpuError: the driver does not start.
    """
    count = ctypes.c_int()
    try:
        lib.call("cuInit", 0)
        lib.call("cuDeviceGetCount", ctypes.byref(count))
    except GpuError as error:
        if error.code == constants.NO_DEVICE:
            raise MissingError("the NVIDIA driver sees no GPU", hint=error.hint) from None
        raise
    if not 0 <= ordinal < count.value:
        raise MissingError(
            f"there is no GPU {ordinal}: the driver sees {count.value}",
            hint="see nvidia-smi and CUDA_VISIBLE_DEVICES",
        )
    device = ctypes.c_int()
    lib.call("cuDeviceGet", ctypes.byref(device), ordinal)
    return device.value


def attribute(lib: Library, device: int, which: DeviceAttribute) -> int:
    """One attribute of a GPU."""
    value = ctypes.c_int()
    lib.call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
    return value.value


@contextlib.contextmanager
def opened(lib: Library, ordinal: int) -> Iterator[Gpu]:
    """Makes a GPU's primary context current in this thread, and a stream on it.

    What a lost context refuses to give back is left to the end of the process.
    """
    device = find(lib, ordinal)
    context = ctypes.c_void_p()
    lib.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        lib.call("cuCtxSetCurrent", context)
        stream = new_stream(lib)
        try:
            yield Gpu(lib=lib, ordinal=ordinal, device=device, stream=stream)
        finally:
            with contextlib.suppress(GpuError):
                lib.call("cuStreamDestroy_v2", stream)
    finally:
        with contextlib.suppress(GpuError):
            lib.call("cuCtxSetCurrent", None)
            lib.call("cuDevicePrimaryCtxRelease_v2", device)


def new_stream(lib: Library) -> int:
    """A stream that does not wait for the default one; ``cuStreamDestroy_v2`` ends it."""
    stream = ctypes.c_void_p()
    lib.call("cuStreamCreate", ctypes.byref(stream), constants.STREAM_NON_BLOCKING)
    return stream.value or 0


def synchronize(gpu: Gpu) -> None:
    """Waits for all work of this context; a kernel's fault is raised here."""
    gpu.lib.call("cuCtxSynchronize")
