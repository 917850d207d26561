"""The CUDA driver as Python functions: signatures, loading, errors. Needs ctypes only.

Symbols are the versioned ones that ``cuda.h`` maps the plain names to (``cuMemAlloc`` is
``cuMemAlloc_v2``), all of them in every driver since CUDA 12.0.
"""

import contextlib
import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from kernelsmith.devices.cuda import constants
from kernelsmith.errors import GpuError, MissingError

LIBRARY = "libcuda.so.1"
# Where containers and WSL put the driver when the loader's cache does not know of it.
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/cuda/compat",
)

_INT, _UINT, _SIZE = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_PTR, _U64, _U8 = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_ubyte
_TO = ctypes.POINTER

# CUdeviceptr is a 64-bit integer, handles are pointers; all functions return CUresult, an int.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_UINT,),
    "cuDriverGetVersion": (_TO(_INT),),
    "cuGetErrorName": (_INT, _TO(ctypes.c_char_p)),
    "cuGetErrorString": (_INT, _TO(ctypes.c_char_p)),
    "cuDeviceGetCount": (_TO(_INT),),
    "cuDeviceGet": (_TO(_INT), _INT),
    "cuDeviceGetName": (ctypes.c_char_p, _INT, _INT),
    "cuDeviceGetUuid_v2": (_PTR, _INT),
    "cuDeviceGetAttribute": (_TO(_INT), _INT, _INT),
    "cuDeviceTotalMem_v2": (_TO(_SIZE), _INT),
    "cuDevicePrimaryCtxRetain": (_TO(_PTR), _INT),
    "cuDevicePrimaryCtxRelease_v2": (_INT,),
    "cuCtxSetCurrent": (_PTR,),
    "cuCtxSynchronize": (),
    "cuCtxSetLimit": (_INT, _SIZE),
    "cuCtxResetPersistingL2Cache": (),
    "cuMemAlloc_v2": (_TO(_U64), _SIZE),
    "cuMemFree_v2": (_U64,),
    "cuMemcpyHtoD_v2": (_U64, _PTR, _SIZE),
    "cuMemcpyDtoH_v2": (_PTR, _U64, _SIZE),
    "cuMemcpyDtoDAsync_v2": (_U64, _U64, _SIZE, _PTR),
    "cuMemsetD8Async": (_U64, _U8, _SIZE, _PTR),
    "cuMemAddressReserve": (_TO(_U64), _SIZE, _SIZE, _U64, _U64),
    "cuMemAddressFree": (_U64, _SIZE),
    "cuMemCreate": (_TO(_U64), _SIZE, _TO(constants.MemAllocationProp), _U64),
    "cuMemRelease": (_U64,),
    "cuMemMap": (_U64, _SIZE, _SIZE, _U64, _U64),
    "cuMemUnmap": (_U64, _SIZE),
    "cuMemSetAccess": (_U64, _SIZE, _TO(constants.MemAccessDesc), _SIZE),
    "cuMemGetAllocationGranularity": (_TO(_SIZE), _TO(constants.MemAllocationProp), _INT),
    "cuModuleLoadData": (_TO(_PTR), _PTR),
    "cuModuleUnload": (_PTR,),
    "cuModuleGetFunction": (_TO(_PTR), _PTR, ctypes.c_char_p),
    "cuFuncGetAttribute": (_TO(_INT), _INT, _PTR),
    "cuFuncSetAttribute": (_PTR, _INT, _INT),
    "cuFuncSetCacheConfig": (_PTR, _INT),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_TO(_INT), _PTR, _INT, _SIZE),
    "cuLaunchKernelEx": (_TO(constants.LaunchConfig), _PTR, _TO(_PTR), _PTR),
    "cuStreamCreate": (_TO(_PTR), _UINT),
    "cuStreamDestroy_v2": (_PTR,),
    "cuStreamSynchronize": (_PTR,),
    "cuStreamBeginCapture_v2": (_PTR, _INT),
    "cuStreamEndCapture": (_PTR, _TO(_PTR)),
    "cuEventCreate": (_TO(_PTR), _UINT),
    "cuEventDestroy_v2": (_PTR,),
    "cuEventRecordWithFlags": (_PTR, _PTR, _UINT),
    "cuEventElapsedTime": (_TO(ctypes.c_float), _PTR, _PTR),
    "cuGraphInstantiateWithFlags": (_TO(_PTR), _PTR, _U64),
    "cuGraphLaunch": (_PTR, _PTR),
    "cuGraphExecDestroy": (_PTR,),
    "cuGraphDestroy": (_PTR,),
}


class Library:
    """The driver. ``call(name, *arguments)`` raises GpuError unless the driver says success."""

    __slots__ = ("_cdll", "_functions", "path")

    def __init__(self, cdll: ctypes.CDLL, path: str) -> None:
        self.path = path
        self._cdll = cdll
        self._functions: dict[str, Callable[..., int]] = {}

    def function(self, name: str) -> Callable[..., int]:
        """A driver function with its argument types.

        Raises:
            MissingError: this driver does not have it.
        """
        found = self._functions.get(name)
        if found is None:
            try:
                found = getattr(self._cdll, name)
            except AttributeError:
                raise MissingError(
                    f"the NVIDIA driver has no {name}",
                    hint="kernelsmith needs a driver for CUDA 12.0 or newer",
                ) from None
            found.argtypes = SIGNATURES[name]
            found.restype = ctypes.c_int
            self._functions[name] = found
        return found

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a driver function.

        Raises:
            GpuError: the driver says anything but success.
            MissingError: this driver does not have the function.
        """
        code = self.function(name)(*arguments)
        if code != constants.SUCCESS:
            raise self.error(name, code)

    def error(self, name: str, code: int) -> GpuError:
        """The error for a code that ``name`` returned; says whether the kernel is to blame."""
        word, text = (self._word(which, code) for which in ("cuGetErrorName", "cuGetErrorString"))
        return GpuError(
            f"{name}: {word} ({code}): {text}",
            code=code,
            kernel_fault=code in constants.KERNEL_FAULTS,
            hint=_HINTS.get(code),
        )

    def _word(self, function: str, code: int) -> str:
        found = ctypes.c_char_p()
        answered = self.function(function)(code, ctypes.byref(found))
        if answered != constants.SUCCESS or found.value is None:
            return "unknown"
        return found.value.decode("ascii", "replace")


_HINTS = {
    2: "the GPU's memory is used up: does another process run on it? see nvidia-smi",
    46: "the GPU is busy or in exclusive mode: see nvidia-smi",
    100: "no GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES",
    209: "the code was compiled for another GPU generation",
    802: "the machine's NVSwitch fabric is not ready: is nvidia-fabricmanager running?",
    803: "driver and libcuda.so.1 are of different releases",
    999: "the driver is in a bad state: see dmesg for Xid messages",
}


@functools.cache
def open_library(path: str = LIBRARY) -> Library:
    """Loads the driver's library; calls nothing in it.

    Args:
        path: a name for the system's loader, or a file (tests name a stand-in).

    Raises:
        MissingError: it is not on this machine.
    """
    found = shared(path)
    if found is None:
        raise MissingError(
            f"this machine has no NVIDIA driver ({path} is not found)",
            hint="install the driver, start the container with --gpus all, or use --device cpu",
        )
    return Library(*found)


def shared(path: str, folders: Sequence[str] = FOLDERS) -> tuple[ctypes.CDLL, str] | None:
    """A library of the driver and what it was found as: by the system's loader, else in
    ``folders``; None: nowhere."""
    names = (path,) if "/" in path else (path, *(f"{folder}/{path}" for folder in folders))
    for name in names:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name), name
    return None
