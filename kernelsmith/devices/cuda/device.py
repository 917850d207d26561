"""CUDA as a kernelsmith device: what the launcher and the gate call."""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from kernelsmith.devices.cuda import epoch, gpu, kernel, lock
from kernelsmith.devices.cuda.compile import CudaCode, code_hash, compile_text
from kernelsmith.devices.cuda.cubin import code_sections, resources
from kernelsmith.devices.cuda.libcuda import LIBRARY, open_library
from kernelsmith.devices.cuda.lint import lint
from kernelsmith.devices.cuda.occupancy import occupancy
from kernelsmith.devices.cuda.options import fault
from kernelsmith.errors import CompileError, InputError, MissingError
from kernelsmith.model import ObjectInfo

ARCHS = (80, 90, 100)
SMALLER = "smaller tiles, fewer num_stages or num_warps"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCode:
    """A compiled kernel: facts, and a cubin."""

    info: ObjectInfo
    code: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CudaDevice:
    """Compiles for NVIDIA GPUs, and runs on one.

    ``arch`` 90 is sm_90; None: that of the GPU. With an ``arch`` everything but running works
    without a GPU. ``library`` is the driver's; tests name a stand-in.
    """

    name: str = "cuda"
    arch: int | None = None
    ordinal: int = 0
    library: str = LIBRARY

    @property
    def target(self) -> str:
        """The device with its architecture, as ``devices.get`` reads it: "cuda:90"."""
        return f"cuda:{self.architecture()}"

    @property
    def num_programs(self) -> int:
        """Multiprocessors of the GPU: the size of a persistent grid.

        Raises:
            MissingError: there is no GPU.
        """
        return self.facts().multiprocessors

    def facts(self) -> gpu.GpuFacts:
        """What the GPU is.

        Raises:
            MissingError: there is no driver or no GPU.
        """
        return gpu.facts(open_library(self.library), self.ordinal)

    def architecture(self) -> int:
        """The architecture to compile for.

        Raises:
            MissingError: none was given, and there is no GPU or one of a generation that nothing
                here was compiled for.
            InputError: one was given that is not in :data:`ARCHS`.
        """
        if self.arch is not None:
            if self.arch not in ARCHS:
                raise InputError(f"no such architecture: sm_{self.arch}", hint=f"one of {ARCHS}")
            return self.arch
        found = self.facts()
        if found.arch not in ARCHS:
            raise MissingError(
                f"{found.name} is sm_{found.arch}: seeds are compiled and read for "
                f"{', '.join(f'sm_{arch}' for arch in ARCHS)} only",
                hint="use --device cpu",
            )
        return found.arch

    def describe(self) -> dict[str, Any]:
        """Facts that belong to the epoch; imports no compiler.

        Raises:
            MissingError: there is no GPU, or one for a single process, or no Triton.
        """
        found = self.facts()
        self.architecture()
        if not found.many_processes:
            raise MissingError(
                f"{found.name} is set to take one process at a time: candidate and seed are run "
                "by processes of their own",
                hint="set its compute mode back: nvidia-smi -c DEFAULT",
            )
        return epoch.describe(found)

    def object_id(self, ttir: str) -> str:
        """Hash of what decides the machine code: canonical text with launch options, architecture,
        compiler, flags."""
        return epoch.object_id(ttir, self.architecture())

    def compile_ttir(self, ttir: str) -> CompiledCode:
        """Compiles a TTIR module with one public function; its first line may hold launch options
        (:mod:`.options`).

        Raises:
            CompileError: an unknown op, Triton or ptxas refuses it, or a block of it needs more
                than a multiprocessor has.
            MissingError: an untested Triton, or none.
        """
        code = _last(ttir, self.architecture())
        info = object_info(code)
        if info.stats["occupancy"]["blocks"] == 0:
            raise CompileError(too_large(info), op="resources", hint=SMALLER)
        return CompiledCode(
            info=dataclasses.replace(info, id=self.object_id(ttir)), code=code.cubin
        )

    def assembly(self, ttir: str) -> str:
        """The PTX that :meth:`compile_ttir` makes of a module."""
        return _last(ttir, self.architecture()).ptx

    def load(
        self, info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0
    ) -> kernel.LoadedKernel:
        """Loads a cubin into the context that is current in this thread (:func:`.gpu.opened`).

        The driver chooses where code lies, so ``base_pad_bytes`` does nothing here.

        Raises:
            CompileError: more shared memory than this GPU gives a block.
            GpuError: the driver refuses.
        """
        lib = open_library(self.library)
        return kernel.load(lib, gpu.find(lib, self.ordinal), info, code)

    def turn(self, *, alone: bool) -> contextlib.AbstractContextManager[None]:
        """Holds the GPU for as long as the block runs: alone for timing, shared for all else."""
        return lock.held(self.facts().uuid, alone=alone)

    def cross_compile(
        self, ttir: str, *, arch: int, options: Mapping[str, int] | None = None
    ) -> CudaCode:
        """Compiles TTIR with Triton's CUDA backend, without floating-point contraction.

        Args:
            ttir: text after the ``ttir`` stage.
            arch: one of :data:`ARCHS`.
            options: ``num_warps``, ``num_stages``, ``num_ctas`` and ``maxnreg``; they stand above
                those in the text.

        Raises:
            InputError: another architecture or option.
            CompileError: Triton or ptxas refuses the kernel.
            MissingError: an untested Triton, or none.
        """
        if arch not in ARCHS:
            raise InputError(f"no such architecture: sm_{arch}", hint=f"one of {ARCHS}")
        problem = fault(options or {})
        if problem:
            raise InputError(problem)
        return compile_text(ttir, arch, options)


@functools.lru_cache(maxsize=1)
def _last(ttir: str, arch: int) -> CudaCode:
    """A text compiled for an architecture of :data:`ARCHS`. The last one is kept: whoever wants its
    PTX asks after its binary, and a compilation takes seconds."""
    return compile_text(ttir, arch)


def too_large(info: ObjectInfo) -> str:
    """Why no multiprocessor takes a block of a compiled kernel."""
    stats = info.stats
    needs = f"{stats['shared_bytes']} bytes of shared memory, {stats['registers']} registers"
    return (
        f"kernel {info.symbol} does not fit on sm_{stats['arch']}: a block of "
        f"{stats['num_warps']} warps needs {needs} a thread"
    )


def object_info(code: CudaCode) -> ObjectInfo:
    """What launcher, gate and people need to know of compiled code; without its id.

    ``stats``: how to launch it (num_warps, num_ctas, shared_bytes), what it uses (registers,
    stack_bytes, occupancy), what stands out in its PTX (lint).

    Raises:
        CompileError: parameters of the binary are not those of the text and two pointers more.
    """
    used = resources(code.cubin, code.symbol)
    if len(used.param_bytes) != len(code.params) + kernel.SCRATCH_POINTERS:
        raise CompileError(
            f"kernel {code.symbol} takes {len(used.param_bytes)} parameters, its text has "
            f"{len(code.params)} and Triton adds {kernel.SCRATCH_POINTERS}",
            op="parameters",
            hint="this Triton calls kernels in another way",
        )
    shared = code.shared_bytes + used.shared_bytes
    fits = occupancy(
        code.arch, num_warps=code.num_warps, registers=used.registers, shared_bytes=shared
    )
    stats: dict[str, Any] = {
        "arch": code.arch,
        "num_warps": code.num_warps,
        "num_ctas": code.num_ctas,
        "shared_bytes": code.shared_bytes,
        "registers": used.registers,
        "stack_bytes": used.stack_bytes,
        "code_bytes": used.code_bytes,
        "occupancy": {"blocks": fits.blocks, "share": fits.share, "limited_by": fits.limited_by},
        "lint": {name: count for name, count in lint(code.ptx).facts().items() if count},
    }
    scratch = -(-code.scratch_bytes // code.scratch_align_bytes) * code.scratch_align_bytes
    return ObjectInfo(
        id="",
        symbol=code.symbol,
        params=code.params,
        arena_bytes=scratch * code.num_ctas,
        code_hash=code_hash(code, code_sections(code.cubin)),
        stats=stats,
    )
