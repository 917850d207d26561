"""What decides the machine code of this device, and so belongs to a numerics epoch."""

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

from kernelsmith.devices.canonical import canonical as canonical_text
from kernelsmith.errors import MissingError

# Modules of this package that place, call, schedule, show and observe compiled code but do not make
# what computes a result.
RUNTIME_MODULES = frozenset(
    {
        "__init__.py",
        "arena.py",
        "assembly.py",
        "bench.py",
        "device.py",
        "driver.py",
        "elf.py",
        "epoch.py",
        "grid.py",
        "kernel.py",
        "launch.py",
        "memory.py",
        "observe.py",
        "observe_cell.py",
        "observe_code.py",
        "observe_lanes.py",
        "observe_launch.py",
        "observe_module.py",
        "observe_pointers.py",
        "observe_run.py",
        "observe_turns.py",
        "versions.py",
    }
)
_LEVELS = (
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ("x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "abm"}),
    ("x86-64-v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
)


@functools.cache
def cpu_facts() -> tuple[str, str, tuple[str, ...]]:
    """(model name, x86-64 level, sorted feature flags) of this machine's CPU."""
    model, flags = "unknown", frozenset[str]()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and model == "unknown":
            model = value.strip()
        if key.strip() == "flags":
            flags = frozenset(value.split())
            break
    level = "x86-64"
    for index in range(len(_LEVELS)):
        needed = frozenset[str]().union(*(flag_set for _, flag_set in _LEVELS[index:]))
        if needed <= flags:
            level = _LEVELS[index][0]
            break
    return model, level, tuple(sorted(flags))


@functools.cache
def lowering_hash() -> str:
    """Hash of the sources that lower TTIR to machine code, and of the compiler's release.

    Raises:
        MissingError: llvmlite is not installed.
    """
    digest = hashlib.sha256(_llvmlite_version().encode())
    here = Path(__file__).parent
    for path in sorted(here.glob("**/*.py")):
        if path.name not in RUNTIME_MODULES:
            digest.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _llvmlite_version() -> str:
    import importlib.metadata  # 40 ms that a timing session does not need

    try:
        return importlib.metadata.version("llvmlite")
    except importlib.metadata.PackageNotFoundError:
        raise MissingError("llvmlite is not installed", hint="pip install llvmlite") from None


@functools.cache
def cache_key() -> str:
    """Key of everything but the kernel itself; also what Triton's disk cache keys objects by."""
    text = "\n".join((lowering_hash(), *cpu_facts()[2]))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe() -> dict[str, Any]:
    """JSON-able facts of this device's epoch; imports no compiler."""
    model, level, _ = cpu_facts()
    return {
        "device": "cpu",
        "arch": "x86_64",
        "cpu": model,
        "level": level,
        "cpus": len(os.sched_getaffinity(0)),
        "llvmlite": _llvmlite_version(),
        "lowering": lowering_hash(),
        "key": cache_key(),
        "float": "IEEE, no contraction, no fast-math, subnormals kept",
    }


def canonical(ttir: str) -> str:
    """The text by :func:`kernelsmith.devices.canonical.canonical`: what is equal compiles to equal
    machine code.

    ``tt.divisibility`` of parameters is left out: the lowering does not read it, so both variants
    of a plan class, pointers aligned or not, are one object here. A test holds it to that.
    """
    return canonical_text(ttir).replace(" {tt.divisibility = 16 : i32}", "")


def object_id(ttir: str) -> str:
    """Hash of what decides the machine code: the canonical text, the lowering, this CPU."""
    return hashlib.sha256((cache_key() + "\n" + canonical(ttir)).encode()).hexdigest()[:24]
