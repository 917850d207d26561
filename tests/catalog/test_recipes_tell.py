"""Regimes make a changed order, or one ulp of a float32 intermediate, show in bfloat16 outputs."""

import numpy as np
import pytest

from kernelsmith import cases, catalog
from kernelsmith.model import Task
from kernelsmith.numerics import recipes

F32 = np.float32


@pytest.fixture(scope="module")
def norm() -> Task:
    return catalog.load_task("rms_norm", "cpu")


@pytest.fixture(scope="module")
def linear() -> Task:
    return catalog.load_task("linear", "cpu")


def bfloat16(values: np.ndarray) -> np.ndarray:
    return recipes.from_float64(values.astype(np.float64), "bfloat16")


def drawn(task: Task, call: str, regime: str, **dims: int) -> dict[str, np.ndarray]:
    case = cases.call_for(task, call, "bfloat16", dims, regime)
    tensors = recipes.draw(cases.inputs_for(task, case, 3))
    return {n: recipes.to_float64(a, "bfloat16") for n, a in tensors.items() if a.itemsize == 2}


def chain(a: np.ndarray, b: np.ndarray, ks: range | list[int]) -> np.ndarray:
    """a_MK @ b_NK^T, one rounding to float32 a step."""
    acc = np.zeros((a.shape[0], b.shape[0]), F32)
    for k in ks:
        acc = (acc.astype(np.float64) + a[:, k : k + 1] * b[:, k]).astype(F32)
    return acc


@pytest.mark.parametrize(
    ("call", "regime"),
    [(call, regime) for call in ("infer", "backward") for regime in ("cancel", "absorb")],
)
def test_another_order_of_a_product_shows_in_nearly_every_bfloat16(
    linear: Task, call: str, regime: str
) -> None:
    if call == "infer":
        t = drawn(linear, call, regime, M=9, N=40, K=256)
        a, b = t["x"], t["weight"]
    else:
        t = drawn(linear, call, regime, M=9, N=256, K=40)
        a, b = t["dy"], t["weight"].T
    seed = bfloat16(chain(a, b, range(256)))
    split = chain(a, b, range(128)) + chain(a, b, range(128, 256))
    assert (bfloat16(split) != seed).mean() > 0.9
    assert (bfloat16(chain(a, b, range(255, -1, -1))) != seed).mean() > 0.9


def test_plain_random_bfloat16_hides_an_order(linear: Task) -> None:
    t = drawn(linear, "infer", "normal", M=9, N=40, K=256)
    seed = bfloat16(chain(t["x"], t["weight"], range(256)))
    split = chain(t["x"], t["weight"], range(128)) + chain(t["x"], t["weight"], range(128, 256))
    assert (bfloat16(split) != seed).mean() < 0.01


def test_two_exchanged_terms_show_somewhere(linear: Task) -> None:
    t = drawn(linear, "infer", "cancel", M=33, N=40, K=256)
    order = list(range(256))
    order[100], order[101] = 101, 100
    seed = bfloat16(chain(t["x"], t["weight"], range(256)))
    assert (bfloat16(chain(t["x"], t["weight"], order)) != seed).any()


@pytest.mark.parametrize("cols", [128, 1024, 2048])
def test_one_ulp_of_rstd_shows_in_the_norms_bfloat16(norm: Task, cols: int) -> None:
    t = drawn(norm, "infer", "ties", M=16, N=cols)
    x, weight = t["x"].astype(F32), t["weight"].astype(F32)
    rstd = (1 / np.sqrt((t["x"] ** 2).mean(axis=1) + 1e-6)).astype(F32)[:, None]
    y = bfloat16((x * rstd) * weight)
    above = bfloat16((x * np.nextafter(rstd, F32(np.inf))) * weight)
    below = bfloat16((x * np.nextafter(rstd, F32(0))) * weight)
    assert max((above != y).mean(), (below != y).mean()) > 0.1
    assert (bfloat16(x * (rstd * weight)) != y).mean() > 0.02


def test_the_norms_gradient_is_rounding_noise_under_cancel(norm: Task) -> None:
    t = drawn(norm, "backward", "cancel", M=8, N=128)
    rstd = 1 / np.sqrt((t["x"] ** 2).mean(axis=1, keepdims=True) + 1e-6)
    g, hat = t["dy"] * t["weight"], t["x"] * rstd
    exact = rstd * (g - hat * (g * hat).mean(axis=1, keepdims=True))
    assert np.abs(exact).max() < 2.0**-20 * np.abs(rstd * g).max()
