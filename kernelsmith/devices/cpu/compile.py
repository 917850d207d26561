"""TTIR text to object bytes: the entry point of the CPU device's compiler."""

import hashlib
import sys
from dataclasses import dataclass
from typing import Any

from kernelsmith.devices.cpu import observe_module
from kernelsmith.devices.cpu.codegen_target import compile_ir, features_of
from kernelsmith.devices.cpu.epoch import canonical
from kernelsmith.devices.cpu.lower_function import lower
from kernelsmith.devices.cpu.report import as_stats
from kernelsmith.devices.cpu.ttir_parse import parse
from kernelsmith.errors import CompileError
from kernelsmith.model import ObjectInfo

_RECURSION = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledObject:
    """A relocatable ELF object and what its loader needs to know."""

    info: ObjectInfo
    code: bytes


def compile_ttir(text: str, *, cpu: str = "host", observed: bool = False) -> CompiledObject:
    """Compiles the one kernel of a TTIR module.

    Args:
        text: the module, with or without locations.
        cpu: "host" or an x86-64 level ("x86-64-v2", "x86-64-v3", "x86-64-v4"). The bits that a
            kernel computes do not depend on it.
        observed: the observing build, which only :mod:`observe_run` can run; its ``stats`` name
            the sites and the parameters.

    Returns:
        The object. Its one exported function has the kernel's name and the device's ABI.

    Raises:
        CompileError: an op that is not lowered; names op and Python source line.
    """
    features = features_of(cpu)
    # Formulas are followed from result to operands; a loop that was written out is a long one.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        module = parse(text)
        symbol = module.kernel.name
        facts: dict[str, Any] = {}
        if observed:
            module, sites = observe_module.observed(module)
            facts = observe_module.stats(module, sites)
        lowered = lower(module, features, symbol, plain=observed)
        if lowered.reports:
            facts["reports"] = as_stats(lowered.reports)
        code = compile_ir(lowered.ir, features)
    except (AssertionError, LookupError, ValueError, RuntimeError, RecursionError) as error:
        # A form that the lowering did not foresee. The kernel may be right; this device cannot
        # run it, and says so as for an op that is not on its list.
        raise CompileError(
            f"the cpu device failed to lower this kernel ({type(error).__name__}: {error})",
            op="lowering",
            hint="this is a gap in the device: please report it with the kernel",
        ) from error
    finally:
        sys.setrecursionlimit(limit)
    identity = hashlib.sha256(f"{features.cpu}\n{canonical(text)}".encode()).hexdigest()
    info = ObjectInfo(
        id=identity[:32],
        symbol=symbol,
        params=tuple(arg.ty.elem for arg in module.kernel.args),
        arena_bytes=lowered.arena_bytes,
        code_hash=hashlib.sha256(code).hexdigest(),
        stats={"cpu": features.cpu, "object_bytes": len(code), **facts},
    )
    return CompiledObject(info=info, code=code)
