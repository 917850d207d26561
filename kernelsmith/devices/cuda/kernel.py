"""A compiled kernel on a GPU, and its launch. Needs ctypes and the driver only.

The launch is what Triton's own launcher does (``launchKernel`` and ``_launch`` of its
``backends/nvidia/driver.c``, the same in 3.6, 3.7 and 3.9): ``cuLaunchKernelEx`` with 32 x
num_warps threads a block, the grid's x times num_ctas, a cluster attribute where num_ctas is not
1, and after the kernel's own parameters the pointers to global and to profile scratch.

Never run on a GPU; driven against a stand-in in ``tests/cuda``.
"""

import contextlib
import ctypes
from dataclasses import dataclass
from typing import Any

from kernelsmith.devices.cuda import constants
from kernelsmith.devices.cuda.constants import DeviceAttribute, FunctionAttribute
from kernelsmith.devices.cuda.gpu import attribute
from kernelsmith.devices.cuda.libcuda import Library
from kernelsmith.errors import CompileError, GpuError, InputError
from kernelsmith.model import ObjectInfo

SLOT_BYTES = 8
SCRATCH_POINTERS = 2
WARP_THREADS = 32
GRID_MAX = (2**31 - 1, 65535, 65535)
# Up to here a block has shared memory without asking for more.
SHARED_PLAIN_BYTES = 48 * 1024
CLUSTER_PORTABLE = 8


class LoadedKernel:
    """One kernel in the current context. ``address`` is the driver's function handle. Its code
    stays loaded until :meth:`close` or the context's end; nothing unloads it by itself, since that
    could come after the context is gone."""

    __slots__ = ("_module", "address", "info", "lib", "stats")

    def __init__(self, lib: Library, info: ObjectInfo, module: int, function: int) -> None:
        self.lib = lib
        self.info = info
        self.address = function
        self.stats: dict[str, Any] = info.stats
        self._module = module

    def close(self) -> None:
        """Unloads the code; closing twice is harmless."""
        module, self._module = self._module, 0
        if module:
            _unload(self.lib, module)


def load(lib: Library, device: int, info: ObjectInfo, cubin: bytes) -> LoadedKernel:
    """Loads a cubin into the current context.

    Raises:
        CompileError: the kernel needs more shared memory than this GPU gives a block.
        GpuError: the driver refuses the code (another GPU generation, no memory).
    """
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    lib.call("cuModuleLoadData", ctypes.byref(module), cubin)
    try:
        lib.call("cuModuleGetFunction", ctypes.byref(function), module, info.symbol.encode())
        kernel = LoadedKernel(lib, info, module.value or 0, function.value or 0)
        _allow_shared(lib, device, kernel)
    except (GpuError, CompileError):
        _unload(lib, module.value or 0)
        raise
    return kernel


def _unload(lib: Library, module: int) -> None:
    with contextlib.suppress(GpuError):
        lib.call("cuModuleUnload", module)


def _allow_shared(lib: Library, device: int, kernel: LoadedKernel) -> None:
    shared = int(kernel.stats["shared_bytes"])
    most = attribute(lib, device, DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    static = function_attribute(lib, kernel, FunctionAttribute.SHARED_SIZE_BYTES)
    if shared + static > most:
        raise CompileError(
            f"kernel {kernel.info.symbol} needs {shared + static} bytes of shared memory, "
            f"a block of this GPU has {most}",
            op="shared memory",
            hint="smaller tiles or fewer num_stages",
        )
    if shared > SHARED_PLAIN_BYTES:
        function = kernel.address
        lib.call("cuFuncSetCacheConfig", function, constants.FUNC_CACHE_PREFER_SHARED)
        lib.call(
            "cuFuncSetAttribute",
            function,
            FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES,
            most - static,
        )
    if int(kernel.stats["num_ctas"]) > CLUSTER_PORTABLE:
        lib.call(
            "cuFuncSetAttribute",
            kernel.address,
            FunctionAttribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
            1,
        )


def function_attribute(lib: Library, kernel: LoadedKernel, which: FunctionAttribute) -> int:
    """What the driver says of a loaded kernel."""
    value = ctypes.c_int()
    lib.call("cuFuncGetAttribute", ctypes.byref(value), which, kernel.address)
    return value.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A launch with everything converted: call :func:`launch` as often as wanted.

    ``args`` are the packed 8-byte slots, ``params`` one address a parameter; all are kept here
    because the driver reads them at each launch.
    """

    kernel: LoadedKernel
    config: constants.LaunchConfig
    attributes: "ctypes.Array[constants.LaunchAttribute]"
    args: "ctypes.Array[ctypes.c_char]"
    scratch: "ctypes.Array[ctypes.c_uint64]"
    params: "ctypes.Array[ctypes.c_void_p]"


def scratch_bytes(info: ObjectInfo, programs: int) -> int:
    """Global memory that a launch of ``programs`` programs needs besides its arguments."""
    return info.arena_bytes * programs


def prepare(
    kernel: LoadedKernel,
    args: "ctypes.Array[ctypes.c_char]",
    grid: tuple[int, int, int],
    *,
    scratch_address: int = 0,
) -> Prepared:
    """Converts one launch.

    Args:
        args: one little-endian 8-byte slot a parameter, as the launcher packs them; the driver
            reads as many bytes of each as the parameter has.
        grid: programs along x, y, z, none of them 0.
        scratch_address: of :func:`scratch_bytes` bytes.

    Raises:
        InputError: too few arguments.
        CompileError: a grid that no GPU takes.
    """
    own = len(kernel.info.params)
    if len(args) < SLOT_BYTES * own:
        raise InputError(f"kernel {kernel.info.symbol} takes {own} arguments")
    num_ctas = int(kernel.stats["num_ctas"])
    extents = (grid[0] * num_ctas, grid[1], grid[2])
    if not all(0 < size <= most for size, most in zip(extents, GRID_MAX, strict=True)):
        raise CompileError(
            f"kernel {kernel.info.symbol} is launched on a grid of {extents}, a GPU has {GRID_MAX}",
            op="grid",
        )
    scratch = (ctypes.c_uint64 * SCRATCH_POINTERS)(scratch_address, 0)
    begin = ctypes.addressof(args)
    places = [begin + SLOT_BYTES * number for number in range(own)]
    places += [
        ctypes.addressof(scratch) + SLOT_BYTES * number for number in range(SCRATCH_POINTERS)
    ]
    attributes = _attributes(num_ctas)
    config = constants.LaunchConfig(
        grid_x=extents[0],
        grid_y=extents[1],
        grid_z=extents[2],
        block_x=WARP_THREADS * int(kernel.stats["num_warps"]),
        block_y=1,
        block_z=1,
        shared_mem_bytes=int(kernel.stats["shared_bytes"]),
        attrs=attributes,
        num_attrs=len(attributes),
    )
    return Prepared(
        kernel=kernel,
        config=config,
        attributes=attributes,
        args=args,
        scratch=scratch,
        params=(ctypes.c_void_p * len(places))(*places),
    )


def launch(prepared: Prepared, stream: int) -> None:
    """Puts one launch into a stream; returns before it has run.

    Raises:
        GpuError: the driver refuses it, or an earlier kernel faulted.
    """
    prepared.config.stream = stream
    prepared.kernel.lib.call(
        "cuLaunchKernelEx",
        ctypes.byref(prepared.config),
        prepared.kernel.address,
        prepared.params,
        None,
    )


def _attributes(num_ctas: int) -> "ctypes.Array[constants.LaunchAttribute]":
    if num_ctas == 1:
        return (constants.LaunchAttribute * 0)()
    found = (constants.LaunchAttribute * 2)()
    found[0].id = constants.LaunchAttributeId.CLUSTER_DIMENSION
    found[0].value.words[:3] = [num_ctas, 1, 1]
    found[1].id = constants.LaunchAttributeId.CLUSTER_SCHEDULING_POLICY_PREFERENCE
    found[1].value.words[0] = constants.CLUSTER_SCHEDULING_POLICY_SPREAD
    return found
