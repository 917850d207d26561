"""``tl.extra.libdevice``: which of its functions this device computes, as ops of its own.

The front end writes them as ``tt.extern_elementwise`` with CUDA's symbol. Those below are the
function by their name, in this device's own formula; any other is refused by symbol, as is every
symbol that names an approximation or another rounding.
"""

import re

from kernelsmith.errors import CompileError

_FLOAT = {
    **{name: f"math.{name}" for name in (
        "tanh", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil",
        "trunc", "fma", "copysign")},
    "rint": "math.roundeven",
    "nearbyint": "math.roundeven",
    "fabs": "math.absf",
    "pow": "math.powf",
    "fmod": "arith.remf",
}  # fmt: skip
_ROUNDED = {
    "add": "arith.addf",
    "sub": "arith.subf",
    "mul": "arith.mulf",
    "div": "tt.precise_divf",
    "sqrt": "tt.precise_sqrt",
}
_EXACT = {
    "abs": "math.absi",
    "llabs": "math.absi",
    "umulhi": "tt.mulhiui",
    "umul64hi": "tt.mulhiui",
    "fmaf_rn": "math.fma",
    "fma_rn": "math.fma",
    "double2float_rn": "arith.truncf",
    **dict.fromkeys(
        ("float_as_int", "float_as_uint", "int_as_float", "uint_as_float", "double_as_longlong",
         "longlong_as_double"), "tt.bitcast"),
    **{f"{i}2{f}_rn": "arith.sitofp" for i in ("int", "ll") for f in ("float", "double")},
    **{f"{i}2{f}_rn": "arith.uitofp" for i in ("uint", "ull") for f in ("float", "double")},
    **{f"{f}2{i}_rz": "arith.fptosi" for i in ("int", "ll") for f in ("float", "double")},
    **{f"{f}2{i}_rz": "arith.fptoui" for i in ("uint", "ull") for f in ("float", "double")},
}  # fmt: skip
_SYMBOL = re.compile(r'symbol = "([^"]*)"')
_OPS: dict[str, str] = {
    **{f"__nv_{name}{suffix}": op for name, op in _FLOAT.items() for suffix in ("", "f")},
    **{f"__nv_{kind}{name}_rn": op for name, op in _ROUNDED.items() for kind in "fd"},
    **{f"__nv_{name}": op for name, op in _EXACT.items()},
}


def own_op(head: str, line: str) -> str:
    """The op that computes a ``tt.extern_elementwise``.

    Args:
        head: the op's text, with its ``symbol``.
        line: the Python source line, for the error.

    Raises:
        CompileError: a symbol that is not computed here.
    """
    found = _SYMBOL.search(head)
    symbol = found.group(1) if found else ""
    op = _OPS.get(symbol)
    if op is None:
        where = f" at {line}" if line else ""
        raise CompileError(
            f"op tt.extern_elementwise{where} calls {symbol or 'a library'}, which is not computed "
            "on the cpu device",
            op="tt.extern_elementwise",
            line=line,
            hint="use tl ops; of libdevice there are " + ", ".join(sorted(_FLOAT)),
        )
    return op
