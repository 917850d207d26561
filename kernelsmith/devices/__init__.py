"""The devices that compile and run TTIR: ``cpu`` and ``cuda``.

Importing this package imports no device; each is imported when it is asked for.
"""

import importlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from kernelsmith.errors import InputError
from kernelsmith.model import ObjectInfo

if TYPE_CHECKING:
    from kernelsmith.devices.cpu.compile import CompiledObject as CpuCode
    from kernelsmith.devices.cpu.kernel import LoadedKernel as CpuKernel
    from kernelsmith.devices.cuda.device import CompiledCode as CudaCode
    from kernelsmith.devices.cuda.kernel import LoadedKernel as CudaKernel

_DEVICES = {
    "cpu": ("kernelsmith.devices.cpu.device", "CpuDevice"),
    "cuda": ("kernelsmith.devices.cuda.device", "CudaDevice"),
}


class Device(Protocol):
    """What a device can do."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> str:
        """The name by which :func:`get` finds it in a worker: "cpu", "cuda:90"."""

    @property
    def num_programs(self) -> int:
        """Programs that run at once: the size of a persistent grid."""

    def describe(self) -> dict[str, Any]: ...
    def object_id(self, ttir: str) -> str: ...
    def compile_ttir(self, ttir: str) -> "CpuCode | CudaCode": ...
    def assembly(self, ttir: str) -> str:
        """What :meth:`compile_ttir` makes of a text, for people and models to read."""

    def load(
        self, info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0
    ) -> "CpuKernel | CudaKernel": ...
    def turn(self, *, alone: bool) -> AbstractContextManager[None]:
        """Holds the device while the block runs, alone or with others, where that is a thing."""


def names() -> tuple[str, ...]:
    """Names of all devices, also of those this machine lacks."""
    return tuple(_DEVICES)


def get(name: str) -> Device:
    """The device called ``name``: "cpu", "cuda", or "cuda:90" for one that compiles for sm_90
    whether or not this machine has a GPU.

    Raises:
        InputError: there is no such device. One that exists but that this machine lacks is
            returned; its methods raise MissingError.
    """
    kind, colon, arch = name.partition(":")
    if kind not in _DEVICES or (colon and not (kind == "cuda" and arch.isdecimal())):
        raise InputError(f"no device {name!r}", hint=f"devices: {', '.join(names())}, auto")
    module, cls = _DEVICES[kind]
    made = getattr(importlib.import_module(module), cls)
    device: Device = made(arch=int(arch)) if colon else made()
    return device


def auto() -> str:
    """Name of the device to use when none is named: the CPU. ``cuda`` has not been run on a GPU
    yet (``benchmarks/gpu_check.py`` does that first), so it is used when it is named."""
    return "cpu"
