"""Triton's view of this device's compiler: the stages ttir -> obj.

``import triton`` imports this module and takes the one concrete ``BaseBackend`` subclass in it,
so it imports nothing heavy and nothing of Triton but the base class.
"""

import functools
import hashlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget

BACKEND = "cpu"
OBSERVED_ARCH = "x86_64-observed"
"""Of the target whose kernels are observing builds."""
FP8_TYPES = ("fp8e5", "fp8e4nv", "fp8e4b15", "fp8e4b8", "fp8e5b16")
DOT_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


# No slots and not keyword-only: Triton reads options through ``__dict__``.
@dataclass(frozen=True)
class CpuOptions:
    """What a launch may set. A program is one thread here, so warps, stages and registers are
    accepted, take part in Triton's cache key and change nothing. Every ``tl.dot`` is IEEE."""

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    maxnreg: int | None = None
    warp_size: int = 1
    enable_fp_fusion: bool = False
    launch_cooperative_grid: bool = False
    debug: bool = False
    sanitize_overflow: bool = False
    arch: str = "x86_64"
    backend_name: str = BACKEND
    supported_fp8_dtypes: tuple[str, ...] = FP8_TYPES
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = DOT_PRECISIONS
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[tuple[str, str], ...] = ()
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False

    def hash(self) -> str:
        key = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(key.encode()).hexdigest()


LAUNCH_OPTIONS = frozenset(
    {
        "num_warps",
        "num_ctas",
        "num_stages",
        "maxnreg",
        "debug",
        "sanitize_overflow",
        "launch_cooperative_grid",
    }
)


def _min_dot_size(lhs_type: Any, rhs_type: Any) -> tuple[int, int, int]:
    return (1, 1, 1)


class CpuBackend(BaseBackend):  # type: ignore[misc]
    """Compiles for the CPU of this machine."""

    binary_ext = "obj"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return bool(target.backend == BACKEND)

    def hash(self) -> str:
        from kernelsmith.devices.cpu.epoch import cache_key

        return f"{cache_key()}-{self.target.arch}"

    def parse_options(self, options: dict[str, Any]) -> CpuOptions:
        """Options that this device fixes (fp fusion, dot precisions, ...) are not taken over: a
        kernel tuned for a GPU runs unmodified and stays strictly IEEE."""
        given = {k: v for k, v in options.items() if k in LAUNCH_OPTIONS and v is not None}
        # Without ``debug`` the checks' assertions are left out: so are their sums, then.
        given["sanitize_overflow"] = bool(
            given.get("debug") and given.get("sanitize_overflow", True)
        )
        return CpuOptions(**given)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return (metadata.num_warps, metadata.num_ctas, metadata.shared)

    def get_codegen_implementation(self, options: CpuOptions) -> dict[str, Any]:
        from kernelsmith.devices.cpu.custom_float import convert

        return {
            "min_dot_size": lambda lhs, rhs: _min_dot_size(lhs, rhs),
            "convert_custom_types": convert,
        }

    def get_module_map(self) -> dict[str, ModuleType]:
        """``tl.extra.libdevice`` is CUDA's: the symbols it names are read by :mod:`ttir_parse`."""
        from triton.language.extra.cuda import libdevice

        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context: Any) -> None:
        """Nothing beyond the dialects that Triton itself loads."""

    def add_stages(self, stages: dict[str, Any], options: CpuOptions, language: Any = None) -> None:
        from kernelsmith.devices.cpu.emit import run_ttir_passes

        stages["ttir"] = lambda module, metadata: run_ttir_passes(module)
        observed = self.target.arch == OBSERVED_ARCH
        stages["obj"] = functools.partial(_make_object, observed=observed)


def _make_object(module: Any, metadata: dict[str, Any], *, observed: bool) -> bytes:
    """Lowers a TTIR module; the launcher's needs go into ``metadata``, which Triton keeps as
    JSON beside the object in its cache."""
    from kernelsmith.devices.cpu.compile import compile_ttir
    from kernelsmith.devices.cpu.emit import module_text

    compiled = compile_ttir(module_text(module), observed=observed)
    info = compiled.info
    metadata["name"] = info.symbol
    metadata["shared"] = 0
    metadata["object_id"] = info.id
    metadata["params"] = list(info.params)
    metadata["arena_bytes"] = info.arena_bytes
    metadata["reports"] = info.stats.get("reports", [])
    metadata["observed"] = {key: info.stats[key] for key in ("sites", "names") if observed}
    return bytes(compiled.code)
