"""Elementary functions: accuracy against float64, special values, equal bits on all levels."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from tests.devices.ttir_texts import Array, apply, floats

# name -> reference, range of random arguments (None: all bit patterns), ulp bound in float32
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, float] | None, float]] = {
    "exp": (np.exp, (-110, 95), 1.0),
    "exp2": (np.exp2, (-155, 130), 1.0),
    "log": (np.log, None, 1.0),
    "log2": (np.log2, None, 0.51),
    "sin": (np.sin, None, 0.51),
    "cos": (np.cos, None, 0.51),
    "tanh": (np.tanh, (-12, 12), 0.51),
    "erf": (scipy.special.erf, (-5, 5), 1.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), None, 1.5),
}
SIZE = 4096


def arguments(name: str) -> Array:
    span = FUNCTIONS[name][1]
    rng = np.random.default_rng(4)
    x = floats("f32", SIZE, 9)
    if span is not None:
        x[17:] = rng.uniform(*span, SIZE - 17)
        x[-500:] = rng.standard_normal(500) * np.exp(rng.uniform(-20, 0, 500))
    if name in ("sin", "cos"):
        x[1000:2000] = rng.uniform(-1000, 1000, 1000)
        x[2000:3000] = rng.integers(1, 1 << 26, 1000) * np.float32(np.pi)
    return x


def largest_ulp(got: Array, want: Array) -> float:
    """Largest distance in units of the last place; special values must agree."""
    rounded = want.astype(got.dtype)
    ordinary = np.isfinite(rounded)
    odd = ~ordinary
    assert ((got[odd] == rounded[odd]) | (np.isnan(got[odd]) & np.isnan(rounded[odd]))).all()
    unit = np.spacing(np.abs(rounded[ordinary])).astype(np.float64)
    return float(np.max(np.abs(got[ordinary].astype(np.float64) - want[ordinary]) / unit))


def test_float32_functions_stay_within_their_bounds() -> None:
    with np.errstate(all="ignore"):
        for name, (reference, _, bound) in FUNCTIONS.items():
            x = arguments(name)
            body = f"%r = math.{name} %x0 : $T(f32)"
            (got,) = apply(("f32",), [(body, "f32")], x, shape=(SIZE,))
            ulp = largest_ulp(got, reference(x.astype(np.float64)))
            assert ulp <= bound, f"{name}: {ulp} ulp"


def test_float64_functions_stay_within_their_bounds() -> None:
    names = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf")
    with np.errstate(all="ignore"):
        for name in names:
            x = arguments(name).astype(np.float64)
            if name in ("sin", "cos"):
                x[::2] = floats("f64", SIZE, 3)[::2]
            body = f"%r = math.{name} %x0 : $T(f64)"
            (got,) = apply(("f64",), [(body, "f64")], x, shape=(SIZE,))
            assert largest_ulp(got, FUNCTIONS[name][0](x)) <= 2.0, name


@pytest.mark.parametrize(("elem", "bound"), [("f32", 0.51), ("f64", 2.0)])
def test_pow_stays_within_its_bound_and_has_the_cases_of_c(elem: str, bound: float) -> None:
    dtype = np.float32 if elem == "f32" else np.float64
    edges = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 2.5, -2.5, 1e30,
                      -1e30, np.inf, -np.inf, np.nan, 1e-40, 16777217.0], dtype)  # fmt: skip
    pairs = np.array(np.meshgrid(edges, edges)).reshape(2, -1)
    rng = np.random.default_rng(8)
    x, y = np.ones((2, SIZE), dtype)
    x[: pairs.shape[1]], y[: pairs.shape[1]] = pairs
    x[-3000:] = np.exp(rng.uniform(-10, 10, 3000))
    y[-3000:] = rng.uniform(-12, 12, 3000)
    x[-500:] = -np.abs(x[-500:])
    y[-500:] = rng.integers(-9, 9, 500)
    (got,) = apply((elem, elem), [(f"%r = math.powf %x0, %x1 : $T({elem})", elem)], x, y,
                   shape=(SIZE,))  # fmt: skip
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
        assert largest_ulp(got, want) <= bound
    zeros = want == 0
    assert (np.signbit(got[zeros]) == np.signbit(want[zeros])).all()


@pytest.mark.parametrize(
    ("name", "x", "want"),
    [
        ("exp", -0.0, 1.0),
        ("exp", math.inf, math.inf),
        ("exp", -math.inf, 0.0),
        ("exp2", 10.0, 1024.0),
        ("exp2", -149.0, 2.0**-149),
        ("log", 0.0, -math.inf),
        ("log", 1.0, 0.0),
        ("log2", 2.0**-149, -149.0),
        ("log2", 8.0, 3.0),
        ("sin", -0.0, -0.0),
        ("tanh", -0.0, -0.0),
        ("erf", -math.inf, -1.0),
    ],
)
def test_exact_values(name: str, x: float, want: float) -> None:
    given = np.full(16, x, np.float32)
    body = f"%r = math.{name} %x0 : $T(f32)"
    (got,) = apply(("f32",), [(body, "f32")], given, shape=(16,))
    assert got.tobytes() == np.full(16, want, np.float32).tobytes()
