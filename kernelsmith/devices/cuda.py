"""CUDA as a kernelsmith device: compile-only. Nothing here runs on a GPU.

:meth:`CudaDevice.cross_compile` takes TTIR to PTX and cubin through Triton's own pipeline, on a
machine without a GPU; that a kernel compiles says nothing of its bits or its speed. Whatever
would need a GPU raises MissingError.
"""

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from kernelsmith.errors import CompileError, InputError, MissingError
from kernelsmith.model import ObjectInfo

ARCHS = (80, 90, 100)
WARP_SIZE = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CudaCode:
    """A kernel compiled for one architecture; ``arch`` 90 is sm_90."""

    arch: int
    symbol: str
    ptx: str
    cubin: bytes
    shared_bytes: int
    num_warps: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CudaDevice:
    """Compiles for NVIDIA GPUs; runs nothing."""

    name: str = "cuda"

    @property
    def num_programs(self) -> int:
        """Raises MissingError: no GPU is asked how many multiprocessors it has."""
        _missing()

    def describe(self) -> dict[str, Any]:
        """Raises MissingError."""
        _missing()

    def object_id(self, ttir: str) -> str:
        """Raises MissingError: ids belong to the epoch of a GPU."""
        _missing()

    def compile_ttir(self, ttir: str) -> Any:
        """Raises MissingError; to compile without running, :meth:`cross_compile`."""
        _missing()

    def assembly(self, ttir: str) -> str:
        """Raises MissingError: which GPU it is for is not known; see :meth:`cross_compile`."""
        _missing()

    def load(self, info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0) -> Any:
        """Raises MissingError."""
        _missing()

    def cross_compile(
        self, ttir: str, *, arch: int, options: Mapping[str, int] | None = None
    ) -> CudaCode:
        """Compiles TTIR with Triton's CUDA backend, without floating-point contraction.

        Args:
            ttir: text after the ``ttir`` stage.
            arch: one of :data:`ARCHS`.
            options: ``num_warps``, ``num_stages``, ``num_ctas`` and ``maxnreg``.

        Raises:
            InputError: another architecture or option.
            CompileError: Triton or ptxas refuses the kernel.
            MissingError: an untested Triton, or none.
        """
        if arch not in ARCHS:
            raise InputError(f"no such architecture: sm_{arch}", hint=f"one of {ARCHS}")
        given = dict(options or {})
        if unknown := set(given) - {"num_warps", "num_stages", "num_ctas", "maxnreg"}:
            raise InputError(f"launch options cannot be {sorted(unknown)}")
        from kernelsmith.devices.cpu.versions import require_triton

        require_triton()
        from triton.backends.compiler import GPUTarget
        from triton.compiler import compile as triton_compile
        from triton.runtime.errors import TritonError

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.ttir"
            path.write_text(ttir)
            try:
                kernel = triton_compile(
                    str(path),
                    target=GPUTarget("cuda", arch, WARP_SIZE),
                    options={**given, "enable_fp_fusion": False},
                )
            # Passes raise RuntimeError, options ValueError or AssertionError, ptxas TritonError.
            except (RuntimeError, ValueError, AssertionError, TritonError) as error:
                raise CompileError(f"sm_{arch}: {error}", op="cuda") from error
        return CudaCode(
            arch=arch,
            symbol=kernel.metadata.name,
            ptx=kernel.asm["ptx"],
            cubin=kernel.asm["cubin"],
            shared_bytes=kernel.metadata.shared,
            num_warps=kernel.metadata.num_warps,
        )


def _missing() -> NoReturn:
    raise MissingError(
        "the cuda device only compiles so far: running kernels on an NVIDIA GPU is not built",
        hint="use --device cpu",
    )
