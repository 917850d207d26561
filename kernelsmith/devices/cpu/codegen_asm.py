"""Instructions on one scalar or on one vector: the same formula serves both.

An :class:`Asm` fixes the stream and whether operands are scalars or vectors of ``lanes``; the
formulas in :mod:`lower_float` and :mod:`lower_math` are written once against it.
"""

import struct
from dataclasses import dataclass

from kernelsmith.devices.cpu.codegen_text import Emitter
from kernelsmith.devices.cpu.lower_forms import llvm


@dataclass(frozen=True, slots=True)
class Asm:
    """``lanes`` 0 means scalar operands."""

    em: Emitter
    level: int
    lanes: int

    def ty(self, llvm_type: str) -> str:
        return f"<{self.lanes} x {llvm_type}>" if self.lanes else llvm_type

    def of(self, elem: str) -> str:
        """LLVM type of operands with a TTIR element type."""
        return self.ty(llvm(elem))

    def const(self, llvm_type: str, value: int | float) -> str:
        """A constant operand, repeated over the lanes. Floats are exact."""
        text = str(value) if isinstance(value, int) else float_text(llvm_type, value)
        return f"splat ({llvm_type} {text})" if self.lanes else text

    def op(self, text: str) -> str:
        return self.em.op(self.level, text)

    def bin(self, name: str, llvm_type: str, a: str, b: str) -> str:
        return self.op(f"{name} {self.ty(llvm_type)} {a}, {b}")

    def cmp(self, name: str, llvm_type: str, a: str, b: str) -> str:
        """``name`` is "icmp slt", "fcmp olt", ..."""
        return self.op(f"{name} {self.ty(llvm_type)} {a}, {b}")

    def select(self, cond: str, llvm_type: str, a: str, b: str) -> str:
        t = self.ty(llvm_type)
        return self.op(f"select {self.ty('i1')} {cond}, {t} {a}, {t} {b}")

    def cast(self, name: str, source: str, value: str, target: str) -> str:
        return self.op(f"{name} {self.ty(source)} {value} to {self.ty(target)}")

    def call(self, name: str, llvm_type: str, *args: str) -> str:
        """An intrinsic whose operands and result share one type, e.g. ``sqrt`` or ``fabs``."""
        t = self.ty(llvm_type)
        suffix = {"float": "f32", "double": "f64"}.get(llvm_type, llvm_type)
        full = f"llvm.{name}." + (f"v{self.lanes}{suffix}" if self.lanes else suffix)
        self.em.declare(full, f"{t} @{full}({', '.join([t] * len(args))})")
        return self.op(f"call {t} @{full}({', '.join(f'{t} {a}' for a in args)})")


def float_text(llvm_type: str, value: float) -> str:
    """An LLVM literal with exactly the bits of ``value`` in the type (a double in hexadecimal)."""
    if llvm_type == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
