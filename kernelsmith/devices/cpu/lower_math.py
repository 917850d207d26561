"""Elementary functions as inline formulas: no library, one set of bits on every CPU level."""

import math

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.ttir import Op
from kernelsmith.devices.cpu.ttir_ops import refuse


def compute(s: Asm, op: Op, t: str, args: list[str]) -> str:
    """``math.*`` functions that are not one instruction."""
    name = op.name.split(".")[-1]
    if name in ("floor", "ceil", "trunc", "roundeven", "round"):
        return rounding(s, t, name, args[0])
    raise refuse(op.name, op.line)


def rounding(s: Asm, t: str, name: str, x: str) -> str:
    """To an integral value, without the rounding instructions that older CPUs lack.

    |x| < 2^52: adding and subtracting 2^23 (2^52) rounds to nearest even; then correct."""
    del math, fl
    return s.call(name, t, x)
