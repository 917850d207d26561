"""The stand-in for a GPU: a driver in C on host memory, and a device whose kernels are native."""

import ctypes
import dataclasses
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsmith.devices.cpu.kernel import load as load_native
from kernelsmith.devices.cuda import gpu, kernel
from kernelsmith.devices.cuda.libcuda import open_library
from kernelsmith.devices.cuda.tools import include_folder
from kernelsmith.errors import MissingError
from kernelsmith.model import ObjectInfo

SOURCE = Path(__file__).parent / "fake_libcuda.c"
NATIVE_ARENA_BYTES = 1 << 16
SCRATCH_BYTES = 64
SIZES = {"ptr": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
SIZES |= {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
SIGNED = 0x80


def why_not() -> str:
    """Why the stand-in cannot be built here, or ""."""
    if shutil.which("cc") is None:
        return "no C compiler"
    try:
        folder = include_folder()
    except MissingError as error:
        return error.message
    return "" if (folder / "cuda.h").is_file() else "Triton's wheel has no cuda.h"


def build(folder: Path) -> Path:
    """Compiles the stand-in against ``cuda.h``."""
    made = folder / "libcuda_stand_in.so"
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    command += ["-fvisibility=hidden", f"-I{include_folder()}", str(SOURCE), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


class LastLaunch(ctypes.Structure):
    """``struct launch`` of the stand-in."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("slot", ctypes.c_uint64 * 64),
        ("scratch", ctypes.c_uint64 * 2),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("cluster", ctypes.c_uint),
        ("attributes", ctypes.c_int * 4),
        ("attribute_count", ctypes.c_int),
    )


class Fake:
    """What a test asks and sets. ``path`` is for ``CudaDevice(library=...)``."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.c = ctypes.CDLL(self.path)
        self.c.fake_calls.restype = ctypes.c_char_p
        self.c.fake_last.restype = ctypes.POINTER(LastLaunch)
        self.c.fake_count.restype = ctypes.c_long

    def reset(
        self, *, devices: int = 1, arch: int = 90, guards: bool = True, mode: int = 0
    ) -> None:
        self.c.fake_reset(devices, arch, int(not guards), mode)

    def fail(self, function: str, code: int, *, after: int = 0) -> None:
        self.c.fake_fail(function.encode(), code, after)

    def calls(self) -> list[str]:
        return self.c.fake_calls().decode().split()

    def forget_calls(self) -> None:
        self.c.fake_forget_calls()

    def last(self) -> LastLaunch:
        return self.c.fake_last().contents

    def count(self, what: str) -> int:
        return int(self.c.fake_count(what.encode()))

    def leaks(self) -> dict[str, int]:
        """What the driver still holds, by kind."""
        kinds = ("allocations", "modules", "events", "graphs", "streams", "contexts")
        return {kind: self.count(kind) for kind in kinds if self.count(kind)}


@dataclass(frozen=True)
class StandInDevice:
    """A GPU whose kernels are the CPU's machine code: as the launcher sees a CudaDevice.

    ``compiles`` makes native code of a text; what the stand-in loads is its address.
    """

    library: str
    compiles: Callable[[str], Any]
    name: str = "cuda"
    target: str = "cuda:90"
    ordinal: int = 0
    num_warps: int = 4
    num_ctas: int = 1
    shared_bytes: int = 1024

    def object_id(self, ttir: str) -> str:
        return self.compiles(ttir).info.id

    def compile_ttir(self, ttir: str) -> Any:
        made = self.compiles(ttir)
        return dataclasses.replace(made, info=self.gpu_info(made.info))

    def gpu_info(self, info: ObjectInfo) -> ObjectInfo:
        stats = {
            "num_warps": self.num_warps,
            "num_ctas": self.num_ctas,
            "shared_bytes": self.shared_bytes,
        }
        return dataclasses.replace(info, arena_bytes=SCRATCH_BYTES, stats=stats)

    def load(self, info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0) -> Any:
        native = load_native(dataclasses.replace(info, arena_bytes=NATIVE_ARENA_BYTES), code)
        lib = open_library(self.library)
        made = kernel.load(lib, gpu.find(lib, self.ordinal), info, image(info, native.address))
        made.stats["native"] = native  # the code must stay mapped
        return made

    def facts(self) -> gpu.GpuFacts:
        return gpu.facts(open_library(self.library), self.ordinal)


def image(info: ObjectInfo, entry: int, *, registers: int = 32) -> bytes:
    """``struct image`` of the stand-in."""
    sizes = bytes(SIZES[kind] | (SIGNED if kind.startswith("i") else 0) for kind in info.params)
    return struct.pack(
        "<8sQIIII64s64s",
        b"FAKECUBI",
        entry,
        len(info.params),
        NATIVE_ARENA_BYTES,
        info.arena_bytes,
        registers,
        sizes,
        info.symbol.encode(),
    )
