"""The error of every math function of the CPU device, in units of the last place.

    python benchmarks/math_ulp.py

float32 and float64: dense samples of every exponent, subnormals, the neighbours of integers, of
powers of two and of multiples of pi/2, and of the range where the function changes. float16 and
bfloat16 (the float32 function, rounded): every argument there is. All points are screened against
a format that is wider than the result; the worst of them, and a random part, are measured against
mpmath with 200 bits. Writes ``benchmarks/results/math_ulp.json``; exits 1 where a function is
further off than its documented bound, or a special value is wrong. A CPU figure.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))
RESULT = ROOT / "benchmarks" / "results" / "math_ulp.json"
WORST, RANDOM = 1500, 300  # points measured with 200 bits
PER_EXPONENT = {"fp32": 2048, "fp64": 96}
STORED = {"fp32": np.uint32, "fp64": np.uint64}
LAYOUT = {"fp32": (23, 255), "fp64": (52, 2047)}
BLOCK = 1024
Array = Any


def functions() -> list[tuple[str, str, Callable[..., Array], tuple[float, float], int]]:
    """(name, tl expression, screening reference, range of interest, operands)."""
    return [
        ("exp", "tl.exp({0})", np.exp, (-105, 90), 1),
        ("exp2", "tl.exp2({0})", np.exp2, (-151, 129), 1),
        ("log", "tl.log({0})", np.log, (0.4, 2.5), 1),
        ("log2", "tl.log2({0})", np.log2, (0.4, 2.5), 1),
        ("sin", "tl.sin({0})", np.sin, (-30, 30), 1),
        ("cos", "tl.cos({0})", np.cos, (-30, 30), 1),
        ("tanh", "libdevice.tanh({0})", np.tanh, (-10, 10), 1),
        ("erf", "tl.erf({0})", scipy.special.erf, (-6, 6), 1),
        ("sqrt", "tl.sqrt({0})", np.sqrt, (0, 4), 1),
        ("rsqrt", "tl.rsqrt({0})", lambda x: 1 / np.sqrt(x), (0, 4), 1),
        ("pow", "libdevice.pow({0}, {1})", np.power, (0, 40), 2),
        ("div", "{0} / {1}", np.divide, (-4, 4), 2),
    ]


def documented() -> dict[tuple[str, str], float]:
    """Bounds that docs/devices.md states, by function and type."""
    from tests.conformance.math_functions import FUNCTIONS, LIBRARY, POWER_ULP

    bounds: dict[tuple[str, str], float] = {("pow", dtype): ulp for dtype, ulp in POWER_ULP.items()}
    for name, (_, single, double) in {**FUNCTIONS, **LIBRARY}.items():
        bounds[name, "fp32"], bounds[name, "fp64"] = single, double
    for dtype in ("fp32", "fp64"):
        bounds["sqrt", dtype] = bounds["div", dtype] = 0.5
        bounds["rsqrt", dtype] = 1.5  # 1 / sqrt(x), both rounded
    for name in {name for name, _ in bounds}:
        bounds[name, "fp16"] = bounds[name, "bf16"] = 0.501
    return bounds


def points(dtype: str, low: float, high: float, rng: np.random.Generator) -> Array:
    """Arguments of every exponent and of the places where functions go wrong, as float64."""
    fraction_bits, last = LAYOUT[dtype]
    count = PER_EXPONENT[dtype]
    fields = np.arange(last, dtype=np.uint64)  # without infinities and NaN
    fractions = rng.integers(0, 1 << fraction_bits, (last, count), dtype=np.uint64)
    fractions[:, :4] = [0, 1, 2, (1 << fraction_bits) - 1]
    words = (fields[:, None] << np.uint64(fraction_bits) | fractions).ravel()
    plain = words.astype(STORED[dtype]).view({"fp32": np.float32, "fp64": np.float64}[dtype])
    kind = plain.dtype
    near = np.concatenate([
        np.arange(-1100, 1100), np.exp2(np.arange(-30.0, 30)), np.arange(-200, 200) + 0.5,
        np.arange(1, 20000) * (np.pi / 2), np.exp2(np.arange(1, 60)) * np.pi, [1.0] * 8,
    ]).astype(kind)  # fmt: skip
    around = [near]
    for direction in (-np.inf, np.inf):
        step = near
        for _ in range(6):
            step = np.nextafter(step, kind.type(direction))
            around.append(step)
    dense = rng.uniform(low, high, 400_000).astype(kind)
    ones = (1 + rng.uniform(-1e-3, 1e-3, 50_000)).astype(kind)
    both = np.concatenate(
        [plain, -plain, *around, dense, ones, kind.type([np.inf, -np.inf, np.nan])]
    )
    return np.ascontiguousarray(both)


def pairs(dtype: str, name: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two arguments at random: magnitudes of every kind, and ordinary ones."""
    kind = {"fp32": np.float32, "fp64": np.float64}[dtype]
    size = 600_000
    wide = np.exp2(rng.uniform(-120, 120, size)) * rng.uniform(1, 2, size)
    if name == "div":
        other = np.exp2(rng.uniform(-120, 120, size)) * rng.choice([-1, 1], size)
        return wide.astype(kind), (other * rng.uniform(1, 2, size)).astype(kind)
    base = np.where(np.arange(size) % 2 == 0, wide, rng.uniform(0.01, 40, size))
    power = rng.uniform(-1, 1, size) * 130 / np.maximum(np.abs(np.log2(base)), 1e-3)
    power = np.where(np.arange(size) % 3 == 0, rng.integers(-20, 20, size), np.clip(power, -99, 99))
    return base.astype(kind), power.astype(kind)


def evaluate(expression: str, dtype: str, *arguments: Array) -> Array:
    """The device's results for stored arguments of a type, as Triton launches them."""
    from tests.conformance.case import stored_of, tensor_of, written
    from tests.conformance.expressions import text_of

    names = ("a", "b")[: len(arguments)]
    if dtype in ("fp16", "bf16"):
        names = tuple(f"{name}.to(tl.float32)" for name in names)
    text = text_of((expression.format(*names),), len(arguments), _IMPORT)
    tensors = [tensor_of(dtype, array) for array in arguments]
    out = torch.empty_like(tensors[0])
    size = arguments[0].size
    written(text)[(-(-size // BLOCK),)](*tensors, out, size, BLOCK=BLOCK)
    return stored_of(dtype, out)


_IMPORT = "from triton.language.extra import libdevice\n"


def measure(
    name: str, dtype: str, reference: Callable[..., Array], got: Array, arguments: tuple[Array, ...]
) -> dict[str, Any]:
    """The largest error, where it is, and how many results were wrong where none may be."""
    from tests.conformance.case import spacing
    from tests.conformance.exact import exactly, extended
    from tests.conformance.values import narrow, widen

    wide = tuple(widen(dtype, each) for each in arguments)
    value = widen(dtype, got)
    screen = np.longdouble if dtype == "fp64" and name != "erf" else np.float64
    target = reference(*(each.astype(screen) for each in wide))
    rounded = widen(dtype, narrow(dtype, target))
    odd = ~np.isfinite(rounded) | ~np.isfinite(value)
    same = (value[odd] == rounded[odd]) | (np.isnan(value[odd]) & np.isnan(rounded[odd]))
    error = np.abs(value - target) / spacing(dtype, np.where(odd, 1.0, rounded))
    error = np.where(odd | np.isnan(error), 0.0, error).astype(np.float64)
    rng = np.random.default_rng(1)
    finite = np.nonzero(~odd)[0]
    chosen = np.unique(
        np.concatenate([np.argsort(error)[-WORST:], rng.choice(finite, min(RANDOM, finite.size))])
    )
    worst, at = 0.0, 0
    for index in chosen[~odd[chosen]]:
        exact = extended(exactly(name, *(float(each[index]) for each in wide)))
        unit = spacing(dtype, np.array(float(exact)))
        off = float(abs(np.longdouble(value[index]) - exact) / unit)
        if off > worst:
            worst, at = off, int(index)
    return {
        "function": name,
        "dtype": dtype,
        "ulp_max": round(worst, 4),
        "at": [repr(float(each[at])) for each in wide],
        "points": int(got.size),
        "measured_with_200_bits": len(chosen),
        "wrong_specials": int((~same).sum()),
        "not_correctly_rounded": int((error > 0.5).sum()),
    }


def rows() -> list[dict[str, Any]]:
    """A row for each function and type."""
    from tests.conformance.values import STORAGE

    rng = np.random.default_rng(2026)
    found = []
    for name, expression, reference, (low, high), count in functions():
        for dtype in ("fp32", "fp64"):
            if count == 2:
                arguments = pairs(dtype, name, rng)
            else:
                arguments = (points(dtype, low, high, rng),)
            got = evaluate(expression, dtype, *arguments)
            found.append(measure(name, dtype, reference, got, arguments))
        if count == 1:
            for dtype in ("fp16", "bf16"):
                every = np.arange(1 << 16, dtype=np.uint16).view(STORAGE[dtype])
                got = evaluate(expression, dtype, every)
                found.append(measure(name, dtype, reference, got, (every,)))
    return found


def main() -> int:
    """Returns the exit status."""
    import triton

    from kernelsmith.devices.cpu import activated
    from kernelsmith.devices.cpu.epoch import describe

    with warnings.catch_warnings(), np.errstate(all="ignore"), tempfile.TemporaryDirectory() as at:
        warnings.simplefilter("ignore")
        triton.knobs.cache.dir = at
        with activated():
            found = rows()
    bounds = documented()
    problems = []
    for row in found:
        row["documented"] = bounds[row["function"], row["dtype"]]
        what = f"{row['function']} of {row['dtype']}"
        if row["ulp_max"] > row["documented"]:
            problems.append(
                f"{what}: {row['ulp_max']} ulp at {row['at']}, {row['documented']} said"
            )
        if row["wrong_specials"]:
            problems.append(f"{what}: {row['wrong_specials']} special values are wrong")
    document = {
        "schema": "kernelsmith/math-ulp/1",
        "device": {k: v for k, v in describe().items() if k != "key"},
        "triton": triton.__version__,
        "reference": "mpmath, 200 bits",
        "rows": found,
        "problems": problems,
    }
    RESULT.write_text(json.dumps(document, indent=1) + "\n")
    for row in found:
        print(f"{row['function']:6} {row['dtype']:5} {row['ulp_max']:8.4f} ulp at {row['at']}")
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
