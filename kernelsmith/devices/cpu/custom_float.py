"""Triton's ``fp8e4b15``, which MLIR does not know: conversions as integer formulas in the kernel.

The format is fp8e4nv's with an exponent bias of 15 and neither infinity nor NaN, so that its bits
are those of a float16 cut short. What Triton does for NVIDIA in inline assembly is written here in
its own language: a downcast goes through float16 (toward zero), takes magnitudes above 1.75 and NaN
to 1.75, and rounds halves away from zero.
"""

from typing import Any


def convert(arg: Any, target: Any, rounding: Any = None, _semantic: Any = None) -> Any:
    """``arg`` converted to a type of the same shape; one of the two types is fp8e4b15.

    Args:
        arg: a ``tl.tensor`` or scalar.
        target: the type to convert to.
        rounding: ignored, as on NVIDIA.
    """
    from triton.language import core as tl

    if not arg.type.scalar.is_fp8e4b15():
        return _narrow(arg, _semantic)
    word = arg.to(tl.uint8, bitcast=True, _semantic=_semantic).to(tl.uint16, _semantic=_semantic)
    sign = word.__and__(0x80, _semantic=_semantic).__lshift__(8, _semantic=_semantic)
    rest = word.__and__(0x7F, _semantic=_semantic).__lshift__(7, _semantic=_semantic)
    half = sign.__or__(rest, _semantic=_semantic).to(tl.uint16, _semantic=_semantic)
    half = half.to(tl.float16, bitcast=True, _semantic=_semantic)
    return half.to(target.scalar, _semantic=_semantic)


def _narrow(arg: Any, semantic: Any) -> Any:
    from triton.language import core as tl

    half = arg
    if not arg.type.scalar.is_fp16():
        if arg.type.scalar.primitive_bitwidth < 32:
            half = half.to(tl.float32, _semantic=semantic)
        half = half.to(tl.float16, fp_downcast_rounding="rtz", _semantic=semantic)
    word = half.to(tl.uint16, bitcast=True, _semantic=semantic).to(tl.uint32, _semantic=semantic)
    size = word.__and__(0x7FFF, _semantic=semantic)
    size = tl.minimum(size, 0x3F00, _semantic=semantic).__mul__(2, _semantic=semantic)
    size = size.__add__(0x80, _semantic=semantic)
    code = word.__and__(0x8000, _semantic=semantic).__or__(size, _semantic=semantic)
    code = code.__rshift__(8, _semantic=semantic).to(tl.uint8, _semantic=semantic)
    return code.to(tl.float8e4b15, bitcast=True, _semantic=semantic)
