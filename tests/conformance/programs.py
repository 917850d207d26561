"""Random programs over tiles: their Triton source, and what numpy says of them.

A program is a list of steps; each makes one more value of the tile's shape from earlier ones. The
same list is written out as a kernel and walked in numpy, one rounding an operation, reductions and
scans in the documented order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.conformance.case import Case
from tests.conformance.float_ops import exact_fma, maximum, minimum
from tests.conformance.integer_ops import quotient, remainder
from tests.conformance.reductions import along, rounded
from tests.conformance.scans import plain
from tests.conformance.tiles import one, tile, to
from tests.conformance.values import STORAGE, Array, is_float, round_to

ELEMENTWISE_FLOAT: dict[str, tuple[str, Any]] = {
    "add": ("{a} + {b}", np.add),
    "sub": ("{a} - {b}", np.subtract),
    "mul": ("{a} * {b}", np.multiply),
    # Triton takes some of these to float32 and leaves them there.
    "div": ("({a} / {b}).to({a}.dtype)", np.divide),
    "maximum": ("tl.maximum({a}, {b}).to({a}.dtype)", maximum),
    "minimum": ("tl.minimum({a}, {b}).to({a}.dtype)", minimum),
    "where": ("tl.where({a} > {b}, {b}, {c})", lambda a, b, c: np.where(a > b, b, c)),
    "abs": ("tl.abs({a})", np.abs),
    "half": ("{a} * 0.5", lambda a: a * 0.5),
}
ONLY_WIDE: dict[str, tuple[str, Any]] = {
    "sqrt": ("tl.sqrt(tl.abs({a}))", lambda a: np.sqrt(np.abs(a))),
    "floor": ("tl.floor({a})", np.floor),
    "ceil": ("tl.ceil({a})", np.ceil),
}
ELEMENTWISE_INTEGER: dict[str, tuple[str, Any]] = {
    "add": ("{a} + {b}", np.add),
    "sub": ("{a} - {b}", np.subtract),
    "mul": ("{a} * {b}", np.multiply),
    "floordiv": ("{a} // {b}", lambda a, b: _flat(quotient, a, b)),
    "mod": ("{a} % {b}", lambda a, b: _flat(remainder, a, b)),
    "and": ("{a} & {b}", np.bitwise_and),
    "or": ("{a} | {b}", np.bitwise_or),
    "xor": ("{a} ^ {b}", np.bitwise_xor),
    "shr": ("{a} >> ({b} & 7)", lambda a, b: a >> (b & 7)),
    "maximum": ("tl.maximum({a}, {b})", np.maximum),
    "minimum": ("tl.minimum({a}, {b})", np.minimum),
    "where": ("tl.where({a} > {b}, {b}, {c})", lambda a, b, c: np.where(a > b, b, c)),
    "abs": ("tl.abs({a})", np.abs),
}
REDUCTIONS = ("sum", "max", "min")
SCANS = ("cumsum", "running_max")
_PREAMBLE = """@triton.jit
def larger(a, b):
    return tl.maximum(a, b)

"""
SHAPES = ((8, 32), (16, 16), (4, 64), (1, 128), (32, 4), (2, 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """``op`` over earlier values, counted back from the newest; along ``axis`` where it has one."""

    op: str
    back: tuple[int, int, int]
    axis: int = 0
    reverse: bool = False


def _flat(function: Any, a: Array, b: Array) -> Array:
    out: Array = function(a.ravel(), b.ravel()).reshape(a.shape)
    return out


def table(dtype: str) -> dict[str, tuple[str, Any]]:
    if not is_float(dtype):
        return ELEMENTWISE_INTEGER
    return ELEMENTWISE_FLOAT | (ONLY_WIDE if dtype in ("fp32", "fp64") else {})


def steps(dtype: str, *further: str) -> st.SearchStrategy[list[Step]]:
    """Programs of elementwise ops and of the ``further`` ones."""
    step = st.builds(
        Step,
        op=st.sampled_from((*table(dtype), *further, *further)),
        back=st.tuples(*(st.integers(0, 5),) * 3),
        axis=st.integers(0, 1),
        reverse=st.booleans(),
    )
    return st.lists(step, min_size=2, max_size=10)


def case_of(dtype: str, shape: tuple[int, int], program: list[Step]) -> Case:
    """The program over two loaded tiles; its last two values are stored."""
    names = ["a", "b"]
    lines = []
    for index, step in enumerate(program):
        operands = {letter: names[-1 - at % len(names)] for letter, at in _operands(step)}
        lines.append(f"v{index} = {_text(dtype, shape, step, operands)}")
        names.append(f"v{index}")
    lines += [f"y0 = {names[-1]}", f"y1 = {names[-2]}"]

    def oracle(a: Array, b: Array) -> tuple[Array, Array]:
        values = [a, b]
        for step in program:
            operands = {letter: values[-1 - at % len(values)] for letter, at in _operands(step)}
            values.append(_value(dtype, step, operands))
        return values[-1], values[-2]

    recipe = "any" if not is_float(dtype) else "ordinary"
    return tile(
        "programs", "program", "\n".join(lines), oracle, one(dtype, shape, recipe),
        one(dtype, shape, recipe), out=(to(dtype, *shape),) * 2, preamble=_PREAMBLE,
    )  # fmt: skip


def _operands(step: Step) -> list[tuple[str, int]]:
    return list(zip("abc", step.back, strict=True))


def _text(dtype: str, shape: tuple[int, int], step: Step, names: dict[str, str]) -> str:
    if step.op in REDUCTIONS:
        inner = f"tl.{step.op}({names['a']}, axis={step.axis}, keep_dims=True)"
        return f"tl.broadcast_to({inner}, {shape})"
    if step.op == "cumsum":
        return f"tl.cumsum({names['a']}, axis={step.axis}, reverse={step.reverse})"
    if step.op == "running_max":
        return f"tl.associative_scan({names['a']}, {step.axis}, larger, reverse={step.reverse})"
    if step.op == "fma":
        return "tl.fma({a}, {b}, {c})".format(**names)
    return table(dtype)[step.op][0].format(**names)


def _value(dtype: str, step: Step, values: dict[str, Array]) -> Array:
    a = values["a"]
    high, low = (maximum, minimum) if is_float(dtype) else (np.maximum, np.minimum)
    if step.op in REDUCTIONS:
        combine = {"sum": np.add, "max": high, "min": low}[step.op]
        total = along(step.axis, rounded(dtype, combine))(a)
        return np.broadcast_to(np.expand_dims(total, step.axis), a.shape)
    if step.op in SCANS:
        combine = np.add if step.op == "cumsum" else high
        return plain(dtype, combine, step.axis, step.reverse)(a)
    if step.op == "fma":
        flat = exact_fma(dtype, *(each.ravel() for each in values.values()))
        return flat.reshape(a.shape)
    text, function = table(dtype)[step.op]
    out = function(*(value for letter, value in values.items() if f"{{{letter}}}" in text))
    return round_to(dtype, out) if is_float(dtype) else out.astype(STORAGE[dtype])
