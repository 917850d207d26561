"""Elementary functions to 200 bits (mpmath), as the reference of every accuracy claim."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from tests.conformance.values import Array

BITS = 200
CONTEXT = mpmath.mp.clone()
CONTEXT.prec = BITS

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": CONTEXT.exp,
    "exp2": lambda x: CONTEXT.power(2, x),
    "log": CONTEXT.log,
    "log2": lambda x: CONTEXT.log(x) / CONTEXT.log(2),
    "sin": CONTEXT.sin,
    "cos": CONTEXT.cos,
    "tanh": CONTEXT.tanh,
    "erf": CONTEXT.erf,
    "sqrt": CONTEXT.sqrt,
    "rsqrt": lambda x: 1 / CONTEXT.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + CONTEXT.exp(-x)),
    "pow": CONTEXT.power,
    "div": lambda x, y: x / y,
}
# What the functions are where mpmath has no number for it, or none that says its sign.
_SPECIAL: dict[str, Callable[..., float | None]] = {
    "log": lambda x: -np.inf if x == 0 else np.nan if x < 0 else None,
    "log2": lambda x: -np.inf if x == 0 else np.nan if x < 0 else None,
    "sqrt": lambda x: x if x == 0 else np.nan if x < 0 else None,
    "rsqrt": lambda x: np.copysign(np.inf, x) if x == 0 else np.nan if x < 0 else None,
    "sin": lambda x: np.nan if np.isinf(x) else x if x == 0 else None,
    "cos": lambda x: np.nan if np.isinf(x) else None,
    "tanh": lambda x: np.copysign(1.0, x) if np.isinf(x) else x if x == 0 else None,
    "erf": lambda x: np.copysign(1.0, x) if np.isinf(x) else x if x == 0 else None,
    "exp": lambda x: np.inf if x > 800 else 0.0 if x < -800 else None,
    "exp2": lambda x: np.inf if x > 1100 else 0.0 if x < -1200 else None,
    "sigmoid": lambda x: 1.0 if x > 800 else 0.0 if x < -800 else None,
}


def exactly(name: str, *arguments: float) -> Any:
    """The value as an mpf of 200 bits, or a float where it is infinite, NaN or a signed zero."""
    if any(x != x for x in arguments):
        return np.nan
    special = _SPECIAL.get(name, lambda *_: None)(*arguments)
    if special is not None:
        return special
    return FUNCTIONS[name](*(CONTEXT.mpf(float(x)) for x in arguments))


def reference(name: str) -> Callable[..., Array]:
    """The function over arrays, in extended precision (64 bits of the 200)."""

    def values(*arrays: Array) -> Array:
        flat = [array.ravel().tolist() for array in arrays]
        found = [extended(exactly(name, *each)) for each in zip(*flat, strict=True)]
        return np.array(found, np.longdouble).reshape(arrays[0].shape)

    return values


def extended(value: Any) -> Any:
    """An mpf as numpy's extended float, rounded once."""
    if isinstance(value, float):
        return np.longdouble(value)
    if CONTEXT.isinf(value) or CONTEXT.isnan(value):
        return np.longdouble(float(value))
    man, exp = int(value.man), int(value.exp)  # man carries no sign in some releases
    if man == 0:
        return np.longdouble(0)
    drop = max(abs(man).bit_length() - 64, 0)
    head = (abs(man) + ((1 << drop) >> 1)) >> drop
    out = np.ldexp(np.longdouble(head), exp + drop)
    return -out if value < 0 else out
