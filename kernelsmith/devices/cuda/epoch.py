"""What decides the machine code and the bits of this device, and so belongs to a numerics epoch."""

import functools
import hashlib
import importlib.metadata
from pathlib import Path
from typing import Any

from kernelsmith.devices.canonical import canonical
from kernelsmith.devices.cuda import nvml
from kernelsmith.devices.cuda.gpu import GpuFacts
from kernelsmith.devices.cuda.tools import ptxas_release
from kernelsmith.errors import MissingError

FLAGS = "enable_fp_fusion=False, ptxas --fmad=false, no extra options"
# The sources that turn a text into code.
COMPILER_MODULES = ("compile.py", "options.py")


@functools.cache
def cache_key(arch: int) -> str:
    """Key of everything but the kernel itself: Triton, assembler, architecture, flags, and the
    sources here that drive them. No GPU is asked.

    Raises:
        MissingError: Triton is not installed.
    """
    digest = hashlib.sha256(f"{_triton()}\n{ptxas_release(arch)}\nsm_{arch}\n{FLAGS}\n".encode())
    for name in COMPILER_MODULES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()[:16]


def object_id(text: str, arch: int) -> str:
    """Hash of what decides the machine code: the canonical text with its launch options, and
    :func:`cache_key`."""
    return hashlib.sha256((cache_key(arch) + "\n" + canonical(text)).encode()).hexdigest()[:24]


def describe(facts: GpuFacts) -> dict[str, Any]:
    """JSON-able facts of the epoch of a GPU. Which one of several equal GPUs it is does not belong
    to it."""
    return {
        "device": "cuda",
        "arch": f"sm_{facts.arch}",
        "gpu": facts.name,
        "multiprocessors": facts.multiprocessors,
        "driver": nvml.driver_version(),
        "cuda": facts.cuda,
        "ptxas": ptxas_release(facts.arch),
        "triton": _triton(),
        "flags": FLAGS,
        "key": cache_key(facts.arch),
        "float": "IEEE, no contraction; tl.dot and approximations as the GPU has them",
    }


def _triton() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise MissingError("triton is not installed", hint="pip install triton") from None
