"""The CPU as a kernelsmith device: what the launcher and the gate call."""

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING, Any

from kernelsmith.devices.cpu import epoch
from kernelsmith.devices.cpu.kernel import LoadedKernel, load
from kernelsmith.model import ObjectInfo

if TYPE_CHECKING:
    from kernelsmith.devices.cpu.compile import CompiledObject


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CpuDevice:
    """Compiles and runs TTIR on the CPU of this machine."""

    name: str = "cpu"

    @property
    def target(self) -> str:
        """``cpu``: one text for every CPU."""
        return self.name

    @property
    def num_programs(self) -> int:
        """CPUs this process may run on: the size of a persistent grid."""
        return len(os.sched_getaffinity(0))

    def describe(self) -> dict[str, Any]:
        """Facts that belong to the epoch. Imports no compiler.

        Raises:
            MissingError: llvmlite is not installed.
        """
        return epoch.describe()

    def object_id(self, ttir: str) -> str:
        """Hash of what decides the machine code: canonical text, lowering, this CPU."""
        return epoch.object_id(ttir)

    def compile_ttir(self, ttir: str, *, observed: bool = False) -> "CompiledObject":
        """Compiles a TTIR module with one public function; ``observed``: its observing build.

        Raises:
            CompileError: an op this device does not lower; names the op and the source line.
            MissingError: llvmlite is not installed.
        """
        from kernelsmith.devices.cpu.compile import compile_ttir

        compiled = compile_ttir(ttir, observed=observed)
        info = dataclasses.replace(compiled.info, id=self.object_id(ttir))
        return dataclasses.replace(compiled, info=info)

    def assembly(self, ttir: str) -> str:
        """The instructions that :meth:`compile_ttir` makes of a module, as text.

        Raises:
            CompileError, MissingError: as :meth:`compile_ttir`.
        """
        from kernelsmith.devices.cpu.assembly import assembly

        return assembly(ttir)

    def load(self, info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0) -> LoadedKernel:
        """Loads a compiled kernel; its code starts ``base_pad_bytes`` (rounded up to 64) into
        its mapping.

        Raises:
            CompileError: the object holds what the loader refuses.
            InfrastructureError: no memory, or executable memory is forbidden.
        """
        return load(info, code, base_pad_bytes=base_pad_bytes)

    def turn(self, *, alone: bool) -> contextlib.AbstractContextManager[None]:
        """Nothing to wait for: a session picks the quietest core, and its clock is its thread's."""
        return contextlib.nullcontext()
