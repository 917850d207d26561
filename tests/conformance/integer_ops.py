"""Integer arithmetic: exact, wrapping, with Triton's truncating division."""

from typing import Any

import numpy as np

from tests.conformance.case import Case
from tests.conformance.expressions import elementwise
from tests.conformance.values import INTEGERS, STORAGE, Array


def quotient(a: Array, b: Array) -> Array:
    """Toward zero; x / 0 = 0, and the least number over -1 wraps to itself."""
    out = [
        0 if y == 0 else abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    return wrapped(out, a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """The sign of the dividend; x % 0 = x."""
    out = [
        int(x) if y == 0 else abs(int(x)) % abs(int(y)) * (-1 if x < 0 else 1)
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    return wrapped(out, a.dtype)


def wrapped(values: list[int], dtype: Any) -> Array:
    """Python integers modulo two to the width."""
    bits = np.dtype(dtype).itemsize * 8
    unsigned = np.array([value % (1 << bits) for value in values], f"u{bits // 8}")
    return unsigned.view(dtype)


def high_half(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    products = [x * y >> bits for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return wrapped(products, a.dtype)


def ceiling(a: Array, b: Array) -> Array:
    return wrapped([-(-x // y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], a.dtype)


# name: (tl expression, oracle, operands, recipe)
TABLE: dict[str, tuple[str, Any, int, Any]] = {
    "add": ("a + b", np.add, 2, "any"),
    "sub": ("a - b", np.subtract, 2, "any"),
    "mul": ("a * b", np.multiply, 2, "any"),
    "floordiv": ("a // b", quotient, 2, "any"),
    "mod": ("a % b", remainder, 2, "any"),
    "and": ("a & b", np.bitwise_and, 2, "any"),
    "or": ("a | b", np.bitwise_or, 2, "any"),
    "xor": ("a ^ b", np.bitwise_xor, 2, "any"),
    "invert": ("~a", np.invert, 1, "any"),
    "minimum": ("tl.minimum(a, b)", np.minimum, 2, "any"),
    "maximum": ("tl.maximum(a, b)", np.maximum, 2, "any"),
    "lt": ("(a < b).to(tl.int8)", np.less, 2, "any"),
    "eq": ("(a == b).to(tl.int8)", np.equal, 2, "any"),
    "where": ("tl.where(a < b, a, b)", np.minimum, 2, "any"),
}
SIGNED: dict[str, tuple[str, Any, int, Any]] = {
    "neg": ("-a", np.negative, 1, "any"),
    "abs": ("tl.abs(a)", np.abs, 1, "any"),
}
WORDS: dict[str, tuple[str, Any, int, Any]] = {
    "umulhi": ("tl.umulhi(a, b)", high_half, 2, "any"),
}
POSITIVE = {
    "cdiv": ("tl.cdiv(a, b)", ceiling, 2, [("between", 0, 1 << 20), ("between", 1, 1 << 10)]),
}


def cases() -> list[Case]:
    found = []
    for dtype in INTEGERS:
        table = dict(TABLE)
        if dtype.startswith("int"):
            table |= SIGNED
        if dtype in ("uint32", "uint64"):
            table |= WORDS
        if dtype in ("int32", "int64"):
            table |= POSITIVE
        for op, (expression, oracle, count, recipe) in table.items():
            out = "int8" if ".to(tl.int8)" in expression else ""
            operands = (dtype,) * count
            found.append(
                elementwise(
                    "integer_ops", op, expression, oracle, *operands, out=out, recipe=recipe
                )
            )
        found += _shifts(dtype)
    found += [_logic(op, expression, oracle) for op, expression, oracle in LOGIC]
    found += _promotions()
    return found


def _shifts(dtype: str) -> list[Case]:
    width = np.dtype(STORAGE[dtype]).itemsize * 8
    recipe = ["any", ("below", width)]
    return [
        elementwise("integer_ops", "shl", "a << b", np.left_shift, dtype, dtype, recipe=recipe),
        elementwise("integer_ops", "shr", "a >> b", np.right_shift, dtype, dtype, recipe=recipe),
    ]


LOGIC = (
    ("and", "a & b", np.logical_and),
    ("or", "a | b", np.logical_or),
    ("xor", "a ^ b", np.logical_xor),
    ("invert", "~(a & b)", lambda a, b: ~(a & b)),
    ("where", "tl.where(a, b, ~b)", lambda a, b: np.where(a, b, ~b)),
)


def _logic(op: str, expression: str, oracle: Any) -> Case:
    return elementwise("integer_ops", op, expression, oracle, "int1", "int1", out="int1")


def _promotions() -> list[Case]:
    """Operands of different widths and signs meet as Triton says: in the wider type; unsigned
    where a signed one is not wider."""
    pairs = (("int8", "int32", "int32"), ("uint8", "int16", "int16"), ("int32", "uint32", "uint32"),
             ("uint32", "int64", "int64"), ("int16", "uint64", "uint64"))  # fmt: skip

    def oracle(out: str) -> Any:
        return lambda a, b: a.astype(STORAGE[out]) * b.astype(STORAGE[out])

    return [
        elementwise(
            "integer_ops", "mul", "a * b", oracle(out), left, right, out=out, name="promoted"
        )
        for left, right, out in pairs
    ]
