"""The seeds against a float64 oracle. Accuracy is tested here; the gate knows no tolerance."""

from typing import Any

import numpy as np
import pytest
import torch

DTYPES = ["bfloat16", "float32"]
HALF_ULP = {"bfloat16": 2.0**-8, "float32": 2.0**-24}


def wide(tensors: dict[str, Any]) -> dict[str, Any]:
    return {n: t.double() if isinstance(t, torch.Tensor) else t for n, t in tensors.items()}


def worst(actual: torch.Tensor, exact: torch.Tensor, scale: torch.Tensor) -> float:
    """Largest error in units of ``scale``, element by element."""
    return float(((actual.double() - exact).abs() / scale.clamp_min(1e-300)).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("regime", ["normal", "logspace", "ties"])
@pytest.mark.parametrize(("tokens", "cols"), [(7, 1024), (5, 1000), (3, 2048), (37, 128)])
def test_rms_norm_forward(rms_norm: Any, dtype: str, regime: str, tokens: int, cols: int) -> None:
    case = rms_norm.case("residual_train", dtype, regime, M=tokens, N=cols)
    given = rms_norm.tensors(case)
    out = rms_norm.run(case, given)
    t = wide(given)
    h = (t["x"] + t["residual"]).to(given["x"].dtype)
    assert torch.equal(out["h"].view(torch.uint8), h.view(torch.uint8))
    rstd = 1 / torch.sqrt((h.double() ** 2).mean(dim=1) + t["eps"])
    y = h.double() * rstd[:, None] * t["weight"]
    assert worst(out["rstd"], rstd, rstd) < 12 * HALF_ULP["float32"]
    assert worst(out["y"], y, y.abs()) < HALF_ULP[dtype] + 16 * HALF_ULP["float32"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "cols"), [(33, 1024), (5, 1000), (37, 128)])
def test_rms_norm_backward(rms_norm: Any, dtype: str, tokens: int, cols: int) -> None:
    case = rms_norm.case("residual_backward", dtype, "normal", M=tokens, N=cols)
    given = rms_norm.tensors(case)
    out = rms_norm.run(case, given)
    t = wide(given)
    hat = t["x"] * t["rstd"][:, None]
    g = t["dy"] * t["weight"]
    mean = (g * hat).mean(dim=1, keepdim=True)
    dx = t["rstd"][:, None] * (g - hat * mean) + t["dh"]
    terms = t["rstd"][:, None] * (g.abs() + (hat * mean).abs()) + t["dh"].abs()
    assert worst(out["dx"], dx, dx.abs() * HALF_ULP[dtype] + terms * 2.0**-20) < 1
    dw_terms = (t["dy"] * hat).abs().sum(dim=0)
    assert worst(out["dw"], (t["dy"] * hat).sum(dim=0), dw_terms) < 40 * HALF_ULP["float32"]


def test_rms_norm_backward_is_the_gradient_of_forward(rms_norm: Any) -> None:
    case = rms_norm.case("backward", "float32", "normal", M=5, N=128)
    given = rms_norm.tensors(case)
    out = rms_norm.run(case, given)
    x = given["x"].double().requires_grad_()
    weight = given["weight"].double().requires_grad_()
    y = x * torch.rsqrt((x**2).mean(dim=1, keepdim=True) + 1e-6) * weight
    y.backward(given["dy"].double())
    assert x.grad is not None
    assert weight.grad is not None
    torch.testing.assert_close(out["dx"].double(), x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(out["dw"].double(), weight.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(7, 96, 128), (131, 200, 72), (1, 64, 1024)])
def test_linear_forward_and_backward(linear: Any, dtype: str, m: int, n: int, k: int) -> None:
    forward = linear.case("bias_train", dtype, "normal", M=m, N=n, K=k)
    given = linear.tensors(forward)
    t = wide(given)
    y = t["x"] @ t["weight"].T + t["bias"]
    terms = t["x"].abs() @ t["weight"].T.abs() + t["bias"].abs()
    out = linear.run(forward, given)["y"]
    assert worst(out, y, y.abs() * HALF_ULP[dtype] + terms * k * 2.0**-24) < 1

    back = linear.case("bias_backward", dtype, "normal", M=m, N=n, K=k)
    given = linear.tensors(back)
    t = wide(given)
    out = linear.run(back, given)
    dx = t["dy"] @ t["weight"]
    terms = t["dy"].abs() @ t["weight"].abs()
    assert worst(out["dx"], dx, dx.abs() * HALF_ULP[dtype] + terms * n * 2.0**-24) < 1
    terms = t["dy"].T.abs() @ t["x"].abs()
    assert worst(out["dw"], t["dy"].T @ t["x"], terms) < m * 2.0**-24 + 2.0**-24
    assert worst(out["db"], t["dy"].sum(dim=0), t["dy"].abs().sum(dim=0)) < 16 * 2.0**-24


@pytest.mark.parametrize("dtype", DTYPES)
def test_edges_come_out_as_ieee_has_them(rms_norm: Any, dtype: str) -> None:
    case = rms_norm.case("train", dtype, "special", M=10, N=1024)
    given = rms_norm.tensors(case)
    out = rms_norm.run(case, given)
    x, weight = given["x"].double().numpy(), given["weight"].double().numpy()
    with np.errstate(all="ignore"):
        rstd = 1 / np.sqrt((x * x).mean(axis=1) + 1e-6)
        y = x * rstd[:, None] * weight
    actual = out["y"].double().numpy()
    assert (np.isnan(actual) == np.isnan(y)).all()
    zero = (y == 0) & ~np.isnan(y)
    assert (actual[zero] == 0).all()
    assert (np.signbit(actual[zero]) == np.signbit(y[zero])).all()
    assert np.isnan(actual).any()
    assert zero.any()
