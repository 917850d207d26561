"""Elementary functions within their documented ulp of a 200-bit reference; roots to the bit."""

from typing import Any

import numpy as np

from tests.conformance.case import BITS, Case, Tolerance, ulp
from tests.conformance.exact import reference
from tests.conformance.expressions import elementwise
from tests.conformance.values import round_to

# name: (range of ordinary arguments or a recipe, documented ulp in fp32, in fp64)
FUNCTIONS: dict[str, tuple[Any, float, float]] = {
    "exp": (("between", -104, 89), 1.0, 2.0),
    "exp2": (("between", -150, 128), 1.0, 2.0),
    "log": ("any", 1.0, 2.0),
    "log2": ("any", 0.51, 2.0),
    "sin": (("between", -1000, 1000), 0.51, 2.0),
    "cos": (("between", -1000, 1000), 0.51, 2.0),
    "erf": (("between", -4, 4), 1.0, 2.0),
}
LIBRARY: dict[str, tuple[Any, float, float]] = {"tanh": (("between", -9, 9), 0.51, 2.0)}
EXACT_LIBRARY: tuple[tuple[str, str, Any], ...] = (
    ("rint", "a", np.rint),
    ("trunc", "a", np.trunc),
    ("abs", "a", np.abs),
    ("copysign", "ab", np.copysign),
    ("fmod", "ab", np.fmod),
)
POWER_ULP = {"fp32": 0.51, "fp64": 2.0}
_IMPORT = "from triton.language.extra import libdevice\n"


def reciprocal_root(dtype: str) -> Any:
    """1 / sqrt(x), both steps rounded."""
    return lambda a: 1.0 / round_to(dtype, np.sqrt(a))


def _sigmoid_bound() -> Tolerance:
    """exp within 1 ulp, then a sum and a quotient, each rounded."""
    return ulp(2.5)


def cases() -> list[Case]:
    found = []
    for name, (recipe, single, double) in FUNCTIONS.items():
        for dtype, bound in (("fp32", single), ("fp64", double)):
            found.append(
                elementwise("math_functions", name, f"tl.{name}(a)", reference(name), dtype,
                            recipe=recipe, tolerance=ulp(bound))
            )  # fmt: skip
            found.append(
                elementwise("math_functions", name, f"tl.{name}(a)", reference(name), dtype,
                            recipe=("between", -1, 1) if "log" not in name else "positive",
                            tolerance=ulp(bound), name=f"{name}_small")
            )  # fmt: skip
        for dtype in ("fp16", "bf16"):
            found.append(_half(name, dtype, recipe))
    for dtype in ("fp32", "fp64"):
        found.append(
            elementwise("math_functions", "rsqrt", "tl.rsqrt(a)", reciprocal_root(dtype), dtype,
                        tolerance=BITS)
        )  # fmt: skip
    found.append(
        elementwise("math_functions", "sigmoid", "tl.sigmoid(a)", reference("sigmoid"), "fp32",
                    recipe=("between", -30, 30), tolerance=_sigmoid_bound())
    )  # fmt: skip
    return found + _library()


def _half(name: str, dtype: str, recipe: Any) -> Case:
    """A 16-bit form is the float32 function, rounded: within a hair of half a unit."""
    spelled = {"fp16": "float16", "bf16": "bfloat16"}[dtype]
    text = f"tl.{name}(a.to(tl.float32)).to(tl.{spelled})"
    return elementwise("math_functions", name, text, reference(name), dtype,
                       recipe=recipe, tolerance=ulp(0.51))  # fmt: skip


def _library() -> list[Case]:
    found = [
        elementwise("math_functions", f"libdevice.{name}", f"libdevice.{name}(a)",
                    reference(name), dtype, recipe=recipe, tolerance=ulp(bound),
                    preamble=_IMPORT)
        for name, (recipe, *bounds) in LIBRARY.items()
        for dtype, bound in zip(("fp32", "fp64"), bounds, strict=True)
    ]  # fmt: skip

    found += [
        elementwise("math_functions", f"libdevice.{name}", f"libdevice.{name}({', '.join(names)})",
                    oracle, *(dtype,) * len(names), preamble=_IMPORT)
        for dtype in ("fp32", "fp64")
        for name, names, oracle in EXACT_LIBRARY
    ]  # fmt: skip
    found += [
        elementwise("math_functions", "libdevice.pow", "libdevice.pow(a, b)", reference("pow"),
                    dtype, dtype, recipe=[("between", 0.01, 30), ("between", -5, 5)],
                    tolerance=ulp(bound), preamble=_IMPORT)
        for dtype, bound in POWER_ULP.items()
    ]  # fmt: skip
    return found
