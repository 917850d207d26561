"""``%`` on floats is C's fmod: exact for every pair of numbers."""

import math

import numpy as np
import pytest

from tests.devices.ttir_texts import apply, bf16_bits, canonical, floats, same_bits, widen


@pytest.mark.parametrize("elem", ["f32", "f64", "f16", "bf16"])
def test_the_remainder_is_exact_and_has_the_sign_of_the_dividend(elem: str) -> None:
    a, b = floats(elem, 512, 21), np.roll(floats(elem, 512, 22), 5)
    (got,) = apply((elem, elem), [("%r = arith.remf %x0, %x1 : $T(" + elem + ")", elem)], a, b,
                   shape=(512,))  # fmt: skip
    pairs = zip(widen(elem, a), widen(elem, b), strict=True)
    want = np.array([remainder(float(x), float(y)) for x, y in pairs])
    with np.errstate(all="ignore"):
        stored = bf16_bits(want.astype(np.float32)) if elem == "bf16" else want.astype(got.dtype)
    same_bits(got, canonical(elem, stored), elem)


def remainder(x: float, y: float) -> float:
    if math.isinf(x) or y == 0 or x != x or y != y:
        return math.nan
    return math.fmod(x, y)


def test_a_scalar_remainder_takes_the_same_way() -> None:
    from tests.devices.ttir_texts import function, run

    text = function(
        "k",
        ["%x: f32", "%y: f32", "%o: !tt.ptr<f32>"],
        ["%r = arith.remf %x, %y : f32", "tt.store %o, %r : !tt.ptr<f32>", "tt.return"],
    )
    out = np.zeros(1, np.float32)
    run(text, -7.5, 2.0, out)
    assert out[0] == -1.5
