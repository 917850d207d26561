"""What NVML tells of a GPU's state: clocks, temperature, power, throttling. Optional.

Signatures and numbers are those of the public header ``nvml.h``. Where the library is missing or
refuses a question the answer is left out; nothing depends on it but what a record says.

Never run on a GPU; driven against a stand-in in ``tests/cuda``.
"""

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kernelsmith.devices.cuda.libcuda import shared

LIBRARY = "libnvidia-ml.so.1"
PROC_VERSION = Path("/proc/driver/nvidia/version")
SUCCESS = 0
CLOCK_SM, CLOCK_MEMORY = 1, 2
TEMPERATURE_GPU = 0
# One question by its name of today and by that of drivers before 535.
MASKS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
# nvmlClocksEventReasons; nvmlClocksThrottleReasons in older headers.
REASONS = {
    0x1: "idle",
    0x2: "applications clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
HARMLESS = 0x1 | 0x2
_TEXT_BYTES = 96


@functools.cache
def _library(path: str) -> ctypes.CDLL | None:
    found = shared(path)
    return found[0] if found else None


@contextmanager
def _started(path: str) -> Iterator[ctypes.CDLL | None]:
    library = _library(path)
    if library is None or library.nvmlInit_v2() != SUCCESS:
        yield None
        return
    try:
        yield library
    finally:
        library.nvmlShutdown()


def driver_version(path: str = LIBRARY) -> str:
    """The driver's release such as "570.86.15"; "" where nothing tells it."""
    with _started(path) as library:
        if library is not None:
            text = ctypes.create_string_buffer(_TEXT_BYTES)
            if library.nvmlSystemGetDriverVersion(text, len(text)) == SUCCESS:
                return text.value.decode("ascii", "replace")
    with suppress(OSError):
        words = PROC_VERSION.read_text().split()
        return next((word for word in words if word[:1].isdigit() and "." in word), "")
    return ""


def state(uuid: str, path: str = LIBRARY) -> dict[str, Any]:
    """The state of a GPU now: ``sm_mhz``, ``memory_mhz``, ``sm_mhz_max``, ``temperature_c``,
    ``power_w``, ``power_limit_w``, ``persistence``, ``throttled`` (why clocks are held down, but
    for idling and clocks that were set); what NVML refuses is left out."""
    with _started(path) as library:
        if library is None:
            return {}
        device = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)) != SUCCESS:
            return {}
        ask = functools.partial(_number, library, device)
        found = {
            "sm_mhz": ask("nvmlDeviceGetClockInfo", CLOCK_SM),
            "memory_mhz": ask("nvmlDeviceGetClockInfo", CLOCK_MEMORY),
            "sm_mhz_max": ask("nvmlDeviceGetMaxClockInfo", CLOCK_SM),
            "temperature_c": ask("nvmlDeviceGetTemperature", TEMPERATURE_GPU),
            "power_w": _thousandth(ask("nvmlDeviceGetPowerUsage")),
            "power_limit_w": _thousandth(ask("nvmlDeviceGetEnforcedPowerLimit")),
            "persistence": ask("nvmlDeviceGetPersistenceMode"),
        }
        masks = (_number(library, device, name, kind=ctypes.c_ulonglong) for name in MASKS)
        mask = next((one for one in masks if one is not None), None)
    answered: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
    if mask is not None:
        answered["throttled"] = reasons(mask)
    return answered


def reasons(mask: int) -> list[str]:
    """Why clocks are held down, but for idling and clocks that were set on purpose."""
    told = [why for bit, why in REASONS.items() if mask & bit & ~HARMLESS]
    unknown = mask & ~sum(REASONS)
    return told + ([f"0x{unknown:x}"] if unknown else [])


def _number(
    library: ctypes.CDLL, device: ctypes.c_void_p, name: str, *which: int, kind: Any = ctypes.c_uint
) -> int | None:
    function: Callable[..., int] | None = getattr(library, name, None)
    value = kind()
    if function is None or function(device, *which, ctypes.byref(value)) != SUCCESS:
        return None
    return int(value.value)


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000
