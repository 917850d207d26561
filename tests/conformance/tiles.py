"""Kernels over whole tiles: every operand is loaded in row-major order, every result stored."""

from collections.abc import Callable
from typing import Any

from tests.conformance.case import BITS, Buffer, Case, Tolerance, given, result
from tests.conformance.expressions import NAMES

_TEXT = """import triton
import triton.language as tl

{preamble}
@triton.jit
def kernel({params}):
{loads}
{body}
{stores}
"""


def offsets(shape: tuple[int, ...]) -> str:
    """The row-major offsets of a tile as an expression; none of a scalar."""
    terms, stride = [], 1
    for axis in reversed(range(len(shape))):
        index = ", ".join(":" if at == axis else "None" for at in range(len(shape)))
        part = f"tl.arange(0, {shape[axis]})" + (f"[{index}]" if len(shape) > 1 else "")
        terms.append(part if stride == 1 else f"{part} * {stride}")
        stride *= shape[axis]
    return "".join(f" + {term}" for term in reversed(terms))


def tile(
    family: str,
    op: str,
    body: str,
    oracle: Callable[..., Any],
    *operands: Buffer,
    out: tuple[Buffer, ...] | Buffer,
    name: str = "",
    preamble: str = "",
    tolerance: Tolerance = BITS,
    versions: tuple[str, ...] = (),
    moves: bool = False,
) -> Case:
    """A case of a few statements: ``body`` computes ``y`` (or ``y0``, ``y1``, ...) from the loaded
    ``a``, ``b``, ``c``, ``d``. A body of one expression is what is stored."""
    outs = (out,) if isinstance(out, Buffer) else out
    text = body if " = " in body else f"y = {body}"
    names = ["y"] if len(outs) == 1 else [f"y{i}" for i in range(len(outs))]
    loads = [
        f"    {NAMES[i]} = tl.load(x{i}{offsets(operand.shape)})"
        for i, operand in enumerate(operands)
    ]
    stores = [
        f"    tl.store(out{i}{offsets(buffer.shape)}, {value})"
        for i, (buffer, value) in enumerate(zip(outs, names, strict=True))
    ]
    params = [f"x{i}" for i in range(len(operands))] + [f"out{i}" for i in range(len(outs))]
    shapes = "_".join("x".join(map(str, operand.shape)) for operand in operands)
    dtypes = ".".join(dict.fromkeys(buffer.dtype for buffer in (*operands, *outs)))
    return Case(
        family=family,
        name=f"{name or op}/{dtypes}/{shapes}",
        ops=(op,),
        dtype=(*operands, *outs)[0].dtype,
        kernel=_TEXT.format(
            preamble=preamble,
            params=", ".join(params),
            loads="\n".join(loads),
            body="\n".join(f"    {line}" for line in text.strip().splitlines()),
            stores="\n".join(stores),
        ),
        args=(*operands, *outs),
        oracle=oracle,
        constants={},
        tolerance=tolerance,
        versions=versions,
        moves=moves,
    )


def one(dtype: str, shape: tuple[int, ...], recipe: Any = "ordinary") -> Buffer:
    return given(dtype, *shape, recipe=recipe)


def to(dtype: str, *shape: int) -> Buffer:
    return result(dtype, *shape)
