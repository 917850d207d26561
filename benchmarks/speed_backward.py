"""Gradients of the seeds beside torch's: autograd without the forward, plain products for
`linear`. Sides as in :mod:`speed_ops`; there are no hand variants of backward passes."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from native_time import Recorder, record
from speed_ops import EPS, F, Row, Sides, normals, torch_logprob
from version_kernels import floats, load_seed


def backward_rows() -> Iterator[Row]:
    """Gradients of the seeds at one size each."""
    for dtype in (torch.bfloat16, torch.float32):
        yield Row(op="rms_norm_backward", tokens=128, dtype=dtype, sizes={"width": 1024})
        yield Row(op="linear_backward", tokens=128, dtype=dtype, sizes={"n": 1024, "k": 1024})
        yield Row(op="swiglu_backward", tokens=67, dtype=dtype, sizes={"width": 3072})
        for width, tokens in ((4096, 33), (151_936, 16)):
            sizes = {"width": width}
            yield Row(op="logprob_backward", tokens=tokens, dtype=dtype, sizes=sizes)
            yield Row(op="logprob_entropy_backward", tokens=tokens, dtype=dtype, sizes=sizes)


def backward_sides(recorder: Recorder, row: Row) -> Sides:
    """Seed beside torch: autograd without the forward, plain products for `linear`."""
    run, torch_of = _BACKWARD[row.op](row)
    run()
    return {
        "seed": record(recorder, run),
        "torch": torch_of(row.dtype),
        "torch_fp32": torch_of(torch.float32),
    }


Pair = tuple[Callable[[], Any], Callable[[torch.dtype], Callable[[], Any]]]


def _gradient(
    inputs: tuple[torch.Tensor, ...],
    grads: tuple[torch.Tensor, ...],
    forward: Callable[..., Any],
) -> Callable[[torch.dtype], Callable[[], Any]]:
    """torch's gradient by all floating inputs, for inputs and gradients cast to a dtype."""

    def of(dtype: torch.dtype) -> Callable[[], Any]:
        leaves = tuple(t.to(dtype).clone().requires_grad_() for t in inputs)
        outputs = forward(*leaves)
        given = tuple(g.to(y.dtype) for g, y in zip(grads, outputs, strict=True))
        return lambda: torch.autograd.grad(outputs, leaves, given, retain_graph=True)

    return of


def _rms_norm_backward(row: Row) -> Pair:
    seed, width = load_seed("rms_norm"), row.sizes["width"]
    x, dy = (floats(i, (row.tokens, width), row.dtype) for i in (5, 6))
    weight = floats(7, (width,), row.dtype)
    _, rstd = seed.forward_train(x, weight, EPS, None)
    return (
        lambda: seed.backward(dy, x, weight, rstd, None, None),
        _gradient((x, weight), (dy,), lambda x, w: (F.rms_norm(x, (width,), w, EPS),)),
    )


def _linear_backward(row: Row) -> Pair:
    seed, n, k = load_seed("linear"), row.sizes["n"], row.sizes["k"]
    x, dy = floats(5, (row.tokens, k), row.dtype), floats(6, (row.tokens, n), row.dtype)
    weight = floats(8, (n, k), row.dtype)

    def products(dtype: torch.dtype) -> Callable[[], Any]:
        g, a, w = (t.to(dtype) for t in (dy, x, weight))
        return lambda: (g @ w, g.T @ a)

    return lambda: seed.backward(dy, x, weight, None, None, None), products


def _swiglu_backward(row: Row) -> Pair:
    seed, shape = load_seed("swiglu"), (row.tokens, row.sizes["width"])
    gate, up, dy = (normals(20 + i, shape, row.dtype, 2.0 - i / 2) for i in range(3))
    return (
        lambda: seed.backward(dy, gate, up),
        _gradient((gate, up), (dy,), lambda g, u: (F.silu(g) * u,)),
    )


def _logprob_backward(row: Row) -> Pair:
    seed, width = load_seed("logprob"), row.sizes["width"]
    with_entropy = "entropy" in row.op
    x = normals(23, (row.tokens, width), row.dtype, 3.0)
    target = torch.from_numpy(np.random.default_rng(24).integers(0, width, row.tokens)).clone()
    grads = tuple(normals(25 + i, (row.tokens,), torch.float32, 1.0) for i in range(2))
    _, entropy, lse = seed.forward_train(x, target)

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if with_entropy:
            return torch_logprob(x, target)
        return (torch.log_softmax(x, -1).gather(-1, target[:, None])[:, 0],)

    second = (grads[1], entropy) if with_entropy else (None, None)
    return (
        lambda: seed.backward(grads[0], second[0], x, target, lse, second[1]),
        _gradient((x,), grads if with_entropy else grads[:1], forward),
    )


_BACKWARD: dict[str, Callable[[Row], Pair]] = {
    "rms_norm_backward": _rms_norm_backward,
    "linear_backward": _linear_backward,
    "swiglu_backward": _swiglu_backward,
    "logprob_backward": _logprob_backward,
    "logprob_entropy_backward": _logprob_backward,
}
