"""``arith.constant``: exact literals, scalar or repeated over a tensor."""

from kernelsmith.devices.cpu.codegen_asm import float_text
from kernelsmith.devices.cpu.lower_float import bits_of
from kernelsmith.devices.cpu.lower_forms import Form, const
from kernelsmith.devices.cpu.ttir import BITS, FLOATS, Op
from kernelsmith.devices.cpu.ttir_text import parse_float
from kernelsmith.errors import CompileError


def constant(op: Op) -> Form:
    """``arith.constant``, scalar or dense splat."""
    text = str(op.attrs["value"])
    elem = op.results[0].ty.elem
    if text.startswith("dense<"):
        text = text[6:-1]
    if text.startswith(("[", '"')):
        raise CompileError(f"non-splat constant at {op.line}", op=op.name, line=op.line)
    if text in ("true", "false"):
        return const(1 if text == "true" else 0, elem)
    if elem in FLOATS and BITS[elem] <= 16:
        return Form("U", elem, _narrow(text, elem), 0)
    if elem in ("f32", "f64"):
        return Form("U", elem, _float_constant(text, elem), 0)
    return const(int(text, 0), elem)


def _narrow(text: str, elem: str) -> str:
    if text.startswith("0x"):
        return str(int(text, 16))
    return str(bits_of(elem, parse_float(text, elem)))


def _float_constant(text: str, elem: str) -> str:
    """Bits given in hexadecimal are kept, NaN payloads included."""
    if text.startswith("0x") and elem == "f64":
        return f"0x{int(text, 16):016X}"
    if text.startswith("0x"):
        word = int(text, 16)
        if (word >> 23) & 0xFF == 0xFF:  # inf and NaN: move the bits, do not compute
            wide = (word >> 31) << 63 | 0x7FF << 52 | (word & 0x7FFFFF) << 29
            return f"0x{wide:016X}"
    return float_text("float" if elem == "f32" else "double", parse_float(text, elem))
