"""``tl.extra.libdevice``: a function that is computed here has the bits of this device's own op."""

import numpy as np
import pytest

from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.errors import CompileError
from tests.devices.ttir_texts import apply, floats, function, same_bits


def called(symbol: str, operands: str, ins: list[str], out: str) -> str:
    """The op as every Triton prints it."""
    given = ", ".join(f"$T({t})" for t in ins)
    attrs = f'{{libname = "", libpath = "", pure = true, symbol = "{symbol}"}}'
    return f"%r = tt.extern_elementwise {operands} {attrs} : ({given}) -> $T({out})"


@pytest.mark.parametrize("elem", ["f32", "f64"])
def test_functions_have_the_bits_of_the_ops(elem: str) -> None:
    suffix = "f" if elem == "f32" else ""
    a, b = floats(elem, 256, 1), floats(elem, 256, 2)
    names = {"tanh": "math.tanh", "rint": "math.roundeven", "log2": "math.log2"}
    outs = []
    for name, op in names.items():
        outs.append((called(f"__nv_{name}{suffix}", "%x0", [elem], elem), elem))
        outs.append((f"%r = {op} %x0 : $T({elem})", elem))
    outs.append((called(f"__nv_fmod{suffix}", "%x0, %x1", [elem] * 2, elem), elem))
    outs.append((f"%r = arith.remf %x0, %x1 : $T({elem})", elem))
    rounded = "__nv_fdiv_rn" if elem == "f32" else "__nv_ddiv_rn"
    outs.append((called(rounded, "%x0, %x1", [elem] * 2, elem), elem))
    outs.append((f"%r = tt.precise_divf %x0, %x1 : $T({elem})", elem))
    results = apply((elem, elem), outs, a, b)
    for got, want in zip(results[::2], results[1::2], strict=True):
        same_bits(got, want, elem)


def test_casts_and_integer_functions() -> None:
    x = floats("f32", 256, 3)
    outs = [
        (called("__nv_float_as_int", "%x0", ["f32"], "i32"), "i32"),
        (called("__nv_float2int_rz", "%x0", ["f32"], "i32"), "i32"),
        ("%r = arith.fptosi %x0 : $T(f32) to $T(i32)", "i32"),
    ]
    bits, cut, want = apply(("f32",), outs, x)
    plain = ~np.isnan(x)
    assert (bits[plain] == x.view(np.int32)[plain]).all()
    same_bits(cut, want, "float2int_rz")


@pytest.mark.parametrize("symbol", ["__nv_lgammaf", "__nv_fast_expf", "__nv_fadd_rz", "getpid", ""])
def test_any_other_symbol_is_refused_by_name_and_line(symbol: str) -> None:
    line = called(symbol, "%i", ["i32"], "i32").replace("$T(i32)", "tensor<16xi32>")
    lines = [
        "%i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>",
        f'{line} loc("kernel.py":12:8)',
        "tt.return",
    ]
    with pytest.raises(CompileError, match=symbol or "a library") as caught:
        compile_ttir(function("k", [], lines))
    assert caught.value.op == "tt.extern_elementwise"
    assert caught.value.line == "kernel.py:12"
    assert "tanh" in str(caught.value.hint)
