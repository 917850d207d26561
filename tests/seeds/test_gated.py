"""swiglu and logprob against float64, against their gradients, and at their edges."""

from typing import Any

import numpy as np
import pytest
import torch

DTYPES = ["bfloat16", "float32"]
HALF_ULP = {"bfloat16": 2.0**-8, "float32": 2.0**-24}
F32 = np.float32


def close(actual: torch.Tensor, exact: torch.Tensor, terms: torch.Tensor, dtype: str) -> bool:
    """Within the rounding to ``dtype`` and a few float32 roundings of the terms."""
    allowed = exact.abs() * HALF_ULP[dtype] + terms.abs() * 2.0**-20 + 1e-40
    return bool(((actual.double() - exact).abs() <= allowed).all())


def pairs(x: np.ndarray) -> np.ndarray:
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def lanes(x: np.ndarray, block: int = 1024) -> np.ndarray:
    acc = np.zeros((x.shape[0], block), F32)
    for start in range(0, x.shape[1], block):
        part = x[:, start : start + block]
        acc[:, : part.shape[1]] += part
    return acc


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("regime", ["normal", "ties", "absorb"])
def test_swiglu_is_silu_times_up_and_backward_its_gradient(
    swiglu: Any, dtype: str, regime: str
) -> None:
    case = swiglu.case("backward", dtype, regime, M=5, N=1000)
    given = swiglu.tensors(case)
    gate = given["gate"].double().requires_grad_()
    up = given["up"].double().requires_grad_()
    y = torch.nn.functional.silu(gate) * up
    y.backward(given["dy"].double())
    assert gate.grad is not None
    assert up.grad is not None
    out = swiglu.run(case, given)
    (got,) = swiglu.module.forward_train(given["gate"], given["up"])
    # A sigmoid below 2**-126 is subnormal; an exponential that overflows makes it zero.
    slack = (up * given["dy"].double()).detach().abs() * 2.0**-12 * (gate.detach() < -80)
    size = (gate * up).detach() + up.detach() * 2.0**-20
    assert close(got, y.detach(), y.detach(), dtype) or regime == "absorb"
    factor = (given["dy"].double() * up).detach()
    sigmoid = torch.sigmoid(gate.detach())
    terms = factor.abs() * (sigmoid + (gate.detach() * sigmoid * (1 - sigmoid)).abs()) + slack
    assert close(out["dgate"], gate.grad, terms + size.abs() * 1e-30, dtype)


def test_swiglu_saturates_and_overflows_without_a_trap(swiglu: Any) -> None:
    gate = torch.tensor([[100.0, -100.0, 0.0, -0.0, float("inf"), float("-inf"), float("nan")]])
    (y,) = swiglu.module.forward_infer(gate, torch.ones_like(gate))
    assert y[0, 0] == 100.0
    assert y[0, 1] == 0.0
    assert torch.signbit(y[0, 1])
    assert y[0, 2] == 0.0
    assert torch.signbit(y[0, 3])
    assert y[0, 4] == float("inf")
    assert torch.isnan(y[0, 5:]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("regime", ["normal", "absorb", "cancel", "ties", "logspace"])
@pytest.mark.parametrize("cols", [259, 2100])
def test_logprob_and_entropy(logprob: Any, dtype: str, regime: str, cols: int) -> None:
    case = logprob.case("train", dtype, regime, M=9, N=cols)
    given = logprob.tensors(case)
    out = logprob.run(case, given)
    x = given["x"].double()
    logs = torch.log_softmax(x, dim=1)
    chosen = logs.gather(1, given["target"][:, None])[:, 0]
    size = x.abs().max(dim=1).values + 16
    assert close(out["logprob"], chosen, size, "float32")
    assert close(out["lse"], torch.logsumexp(x, dim=1), size, "float32")
    terms = torch.where(logs.exp() > 0, logs.exp() * logs, 0.0)
    assert close(out["entropy"], -terms.sum(dim=1), size, "float32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_logprobs_backward_is_the_gradient_of_forward(logprob: Any, dtype: str) -> None:
    case = logprob.case("entropy_backward", dtype, "normal", M=5, N=259)
    given = logprob.tensors(case)
    x = given["x"].double().requires_grad_()
    logs = torch.log_softmax(x, dim=1)
    chosen = logs.gather(1, given["target"][:, None])[:, 0]
    entropy = -(logs.exp() * logs).sum(dim=1)
    loss = chosen * given["dlogprob"].double() + entropy * given["dentropy"].double()
    loss.sum().backward()
    assert x.grad is not None
    out = logprob.run(case, given)["dx"]
    bound = (given["dlogprob"].abs() + 8 * given["dentropy"].abs()).double()[:, None]
    assert close(out, x.grad, bound.expand_as(x), dtype)


@pytest.mark.parametrize("regime", ["normal", "absorb", "cancel", "ties"])
@pytest.mark.parametrize("cols", [259, 2100])
def test_logprob_sums_in_lanes_of_1024_then_adjacent_pairs(
    logprob: Any, regime: str, cols: int
) -> None:
    case = logprob.case("train", "float32", regime, M=9, N=cols)
    given = logprob.tensors(case)
    # With exponentials that the device itself computed, the order is all that is left.
    below = given["x"] - given["x"].max(dim=1, keepdim=True).values
    shifted = torch.zeros(below.numel(), 2)
    shifted[:, 0] = below.reshape(-1)
    zeros = torch.zeros(below.numel())
    (exps,) = logprob.module.backward(
        zeros - 1.0, None, shifted, torch.ones(below.numel(), dtype=torch.int64), zeros, None
    )
    e = exps[:, 0].reshape(below.shape).numpy()
    z = pairs(lanes(e))
    products = pairs(lanes(np.where(e > 0, e * below.numpy(), F32(0))))
    out = logprob.run(case, given)
    log_z = out["lse"].numpy() - given["x"].max(dim=1).values.numpy()
    if regime in ("absorb", "cancel"):  # the maximum is 0, so lse is log(z) itself
        entropy = log_z - (products / z).astype(F32)
        assert out["entropy"].numpy().tobytes() == entropy.tobytes()
        assert np.allclose(np.exp(log_z.astype(np.float64)), z, rtol=3e-7, atol=0)
    else:
        assert np.allclose(np.exp(log_z.astype(np.float64)), z, rtol=2e-5, atol=0)


def test_tokens_that_cannot_be_chosen_add_nothing(logprob: Any) -> None:
    x = torch.tensor([[1.0, float("-inf"), 2.0, float("-inf")], [0.0, 0.0, 0.0, 0.0]])
    target = torch.tensor([1, 3])
    chosen, entropy, lse = logprob.module.forward_train(x, target)
    kept = torch.log_softmax(x[:1, [0, 2]].double(), dim=1)
    assert chosen[0] == float("-inf")
    assert float(entropy[0]) == pytest.approx(float(-(kept.exp() * kept).sum()), rel=1e-6)
    ones = torch.ones(2)
    (dx,) = logprob.module.backward(ones, ones, x, target, lse, entropy)
    assert torch.isfinite(dx).all()
    assert dx[0, 3] == 0.0


def test_rows_without_a_finite_maximum_are_nan(logprob: Any) -> None:
    x = torch.zeros(3, 40)
    x[0, 3], x[1, 3] = float("inf"), float("nan")
    x[2] = float("-inf")
    outputs = logprob.module.forward_infer(x, torch.zeros(3, dtype=torch.int64))
    for output in outputs:
        assert torch.isnan(output).all()
