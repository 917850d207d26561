"""The devices that compile and run TTIR: ``cpu`` and ``cuda``.

Importing this package imports no device; each is imported when it is asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from kernelsmith.errors import InputError
from kernelsmith.model import ObjectInfo

if TYPE_CHECKING:
    from kernelsmith.devices.cpu.device import CompiledCode
    from kernelsmith.devices.cpu.kernel import LoadedKernel

_DEVICES = {
    "cpu": ("kernelsmith.devices.cpu.device", "CpuDevice"),
    "cuda": ("kernelsmith.devices.cuda", "CudaDevice"),
}


class Device(Protocol):
    """What a device can do."""

    @property
    def name(self) -> str: ...
    @property
    def num_programs(self) -> int:
        """Programs that run at once: the size of a persistent grid."""

    def describe(self) -> dict[str, Any]: ...
    def object_id(self, ttir: str) -> str: ...
    def compile_ttir(self, ttir: str) -> "CompiledCode": ...
    def assembly(self, ttir: str) -> str:
        """What :meth:`compile_ttir` makes of a text, for people and models to read."""

    def load(self, info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0) -> "LoadedKernel": ...


def names() -> tuple[str, ...]:
    """Names of all devices, also of those this machine lacks."""
    return tuple(_DEVICES)


def get(name: str) -> Device:
    """The device called ``name``.

    Raises:
        InputError: there is no such device. One that exists but that this machine lacks is
            returned; its methods raise MissingError.
    """
    if name not in _DEVICES:
        raise InputError(f"no device {name!r}", hint=f"devices: {', '.join(names())}, auto")
    module, cls = _DEVICES[name]
    device: Device = getattr(importlib.import_module(module), cls)()
    return device


def auto() -> str:
    """Name of the device to use when none is named: the CPU, the one device that runs kernels
    (``cuda`` compiles only)."""
    return "cpu"
