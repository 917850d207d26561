"""Elementwise kernels written from one expression: loads of ``a``, ``b``, ``c``, then a store."""

import re
import zlib
from collections.abc import Callable
from typing import Any

from tests.conformance.case import BITS, Case, Tolerance, given, result

# (elements, block): whole blocks, tails of every kind, fewer elements than one vector.
SHAPES = ((1000, 256), (512, 512), (77, 128), (2049, 1024), (5, 16))
NAMES = "abcd"

_TEXT = """import triton
import triton.language as tl

{preamble}
@triton.jit
def kernel({params}, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
{loads}
{stores}
"""


def text_of(expressions: tuple[str, ...], operands: int, preamble: str = "") -> str:
    """The module's text: one output pointer an expression."""
    ins, outs = [f"x{i}" for i in range(operands)], [f"y{i}" for i in range(len(expressions))]
    loads = [f"    {NAMES[i]} = tl.load(x{i} + at, mask=inside)" for i in range(operands)]
    stores = [
        f"    tl.store(y{i} + at, {expression}, mask=inside)"
        for i, expression in enumerate(expressions)
    ]
    return _TEXT.format(
        preamble=preamble,
        params=", ".join(ins + outs),
        loads="\n".join(loads),
        stores="\n".join(stores),
    )


def elementwise(
    family: str,
    op: str,
    expression: str,
    oracle: Callable[..., Any],
    *operands: str,
    out: str = "",
    recipe: Any = "any",
    tolerance: Tolerance = BITS,
    versions: tuple[str, ...] = (),
    moves: bool = False,
    name: str = "",
    preamble: str = "",
    shape: tuple[int, int] | None = None,
) -> Case:
    """A case of one expression over operand types, in a shape that its name decides.

    ``recipe``: one for all operands, or a list with one for each."""
    full = f"{name or op}/{'.'.join(dict.fromkeys(operands))}{'-' + out if out else ''}"
    n, block = shape or SHAPES[zlib.crc32(f"{family}/{full}".encode()) % len(SHAPES)]
    recipes = recipe if isinstance(recipe, list) else [recipe] * len(operands)
    ins = [given(dtype, n, recipe=each) for dtype, each in zip(operands, recipes, strict=True)]
    used = set(re.findall(r"\b[abcd]\b", expression))
    assert used == set(NAMES[: len(operands)]), f"{full}: {expression}"
    return Case(
        family=family,
        name=full,
        ops=(op,),
        dtype=operands[0],
        kernel=text_of((expression,), len(operands), preamble),
        args=(*ins, result(out or operands[0], n), n),
        oracle=oracle,
        constants={"BLOCK": block},
        grid=(-(-n // block),),
        tolerance=tolerance,
        versions=versions,
        moves=moves,
    )
