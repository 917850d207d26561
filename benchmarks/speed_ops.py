"""The ops whose speed on the CPU device is shown, each beside torch eager of the same op.

A *side* is a callable without arguments: ``seed`` and ``hand`` run compiled code alone,
``hand_launched`` goes through Triton's ``kernel[grid](...)``, ``torch`` is torch eager on the same
tensors, ``torch_fp32`` on float32 ones. Each function here draws inputs, checks that the hand
variant has the seed's bits (or, where there is no seed, that torch agrees) and gives the sides.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from hand_variants import (
    linear_tiles,
    logprob_two_tiles,
    rms_norm_one_pass,
    swiglu_flat,
    tiles_for,
)
from native_time import Recorder, record
from speed_kernels import attention, softmax
from version_kernels import floats, load_seed

F = torch.nn.functional
EPS = 1e-6
Sides = dict[str, Callable[[], Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One op at one size."""

    op: str
    tokens: int
    dtype: torch.dtype
    sizes: dict[str, Any] = field(default_factory=dict)


def rows(dtypes: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float32)) -> Iterator[Row]:
    """All sizes: widths of Qwen3-0.6B unless they say otherwise."""
    for dtype in dtypes:
        for tokens in (1, 7, 16, 33, 128, 256):
            yield Row(op="rms_norm", tokens=tokens, dtype=dtype, sizes={"width": 1024})
        for n in (1024, 3072):
            for tokens in (1, 7, 16, 33, 64, 128, 256):
                yield Row(op="linear", tokens=tokens, dtype=dtype, sizes={"n": n, "k": 1024})
        for width, tokens in ((3072, (1, 16, 67, 256)), (768, (1, 16, 257))):
            for count in tokens:
                yield Row(op="swiglu", tokens=count, dtype=dtype, sizes={"width": width})
        # A byte-level model, a slice, Llama-2, Qwen3.
        for width, tokens in (
            (259, (48, 257)),
            (4096, (16, 33)),
            (32_000, (1, 16, 128)),
            (151_936, (1, 16, 64)),
        ):
            for count in tokens:
                yield Row(op="logprob", tokens=count, dtype=dtype, sizes={"width": width})
        for width in (1024, 1536, 2048, 4096):
            for tokens in (1, 16, 128):
                yield Row(op="softmax", tokens=tokens, dtype=dtype, sizes={"width": width})
        for head in (64, 128):
            for tokens in (128, 256, 512, 1024):
                sizes = {"heads": 8, "head_dim": head}
                yield Row(op="attention", tokens=tokens, dtype=dtype, sizes=sizes)


def normals(seed: int, shape: tuple[int, ...], dtype: torch.dtype, scale: float) -> torch.Tensor:
    """Normal values: what a formula with ``exp`` is given in practice."""
    draw = np.random.default_rng(seed)
    values = draw.standard_normal(shape, dtype=np.float32) * np.float32(scale)
    return torch.from_numpy(values).to(dtype).clone()


def sides(recorder: Recorder, row: Row) -> Sides:
    """The sides of one row."""
    return SIDES[row.op](recorder, row)


def same_bits(found: tuple[torch.Tensor, ...], wanted: tuple[torch.Tensor, ...]) -> None:
    for one, other in zip(found, wanted, strict=True):
        view = {2: torch.int16, 4: torch.int32}[other.element_size()]
        assert torch.equal(one.view(view), other.view(view)), "the hand variant changed bits"


def _rms_norm(recorder: Recorder, row: Row) -> Sides:
    seed, width = load_seed("rms_norm"), row.sizes["width"]
    x = floats(1, (row.tokens, width), row.dtype)
    weight = floats(2, (width,), row.dtype)
    x32, weight32 = x.float(), weight.float()
    same_bits((rms_norm_one_pass(x, weight, EPS),), seed.forward_infer(x, weight, EPS, None))
    return {
        "seed": record(recorder, lambda: seed.forward_infer(x, weight, EPS, None)),
        "hand": record(recorder, lambda: rms_norm_one_pass(x, weight, EPS)),
        "hand_launched": lambda: rms_norm_one_pass(x, weight, EPS),
        "torch": lambda: F.rms_norm(x, (width,), weight, EPS),
        "torch_fp32": lambda: F.rms_norm(x32, (width,), weight32, EPS),
    }


def _linear(recorder: Recorder, row: Row) -> Sides:
    seed, n, k = load_seed("linear"), row.sizes["n"], row.sizes["k"]
    x, weight = floats(3, (row.tokens, k), row.dtype), floats(4, (n, k), row.dtype)
    x32, weight32 = x.float(), weight.float()
    tiles = tiles_for(row.tokens)
    same_bits((linear_tiles(seed, x, weight, tiles),), seed.forward_infer(x, weight, None))
    return {
        "seed": record(recorder, lambda: seed.forward_infer(x, weight, None)),
        "hand": record(recorder, lambda: linear_tiles(seed, x, weight, tiles)),
        "hand_launched": lambda: linear_tiles(seed, x, weight, tiles),
        "torch": lambda: F.linear(x, weight),
        "torch_fp32": lambda: F.linear(x32, weight32),
    }


def _swiglu(recorder: Recorder, row: Row) -> Sides:
    seed, shape = load_seed("swiglu"), (row.tokens, row.sizes["width"])
    gate, up = normals(9, shape, row.dtype, 2.0), normals(10, shape, row.dtype, 1.0)
    gate32, up32 = gate.float(), up.float()
    same_bits((swiglu_flat(gate, up),), seed.forward_infer(gate, up))
    return {
        "seed": record(recorder, lambda: seed.forward_infer(gate, up)),
        "hand": record(recorder, lambda: swiglu_flat(gate, up)),
        "hand_launched": lambda: swiglu_flat(gate, up),
        "torch": lambda: F.silu(gate) * up,
        "torch_fp32": lambda: F.silu(gate32) * up32,
    }


def torch_logprob(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the seed of `logprob` computes, as it is written with torch, in the dtype of x."""
    logs = torch.log_softmax(x, -1)
    return logs.gather(-1, target[:, None])[:, 0], -(logs.exp() * logs).sum(-1)


def _logprob(recorder: Recorder, row: Row) -> Sides:
    seed, width = load_seed("logprob"), row.sizes["width"]
    x = normals(11, (row.tokens, width), row.dtype, 3.0)
    target = torch.from_numpy(np.random.default_rng(12).integers(0, width, row.tokens)).clone()
    x32 = x.float()
    same_bits(logprob_two_tiles(x, target), seed.forward_infer(x, target))
    return {
        "seed": record(recorder, lambda: seed.forward_infer(x, target)),
        "hand": record(recorder, lambda: logprob_two_tiles(x, target)),
        "hand_launched": lambda: logprob_two_tiles(x, target),
        "torch": lambda: torch_logprob(x, target),
        "torch_fp32": lambda: torch_logprob(x32, target),
        "torch_without_entropy": lambda: torch.log_softmax(x, -1).gather(-1, target[:, None]),
    }


def _softmax(recorder: Recorder, row: Row) -> Sides:
    x = normals(13, (row.tokens, row.sizes["width"]), row.dtype, 3.0)
    x32 = x.float()
    torch.testing.assert_close(softmax(x).float(), torch.softmax(x32, -1), rtol=1e-2, atol=1e-6)
    return {
        "hand": record(recorder, lambda: softmax(x)),
        "hand_launched": lambda: softmax(x),
        "torch": lambda: torch.softmax(x, -1),
        "torch_fp32": lambda: torch.softmax(x32, -1),
    }


def _attention(recorder: Recorder, row: Row) -> Sides:
    shape = (row.sizes["heads"], row.tokens, row.sizes["head_dim"])
    q, k, v = (normals(14 + i, shape, row.dtype, 1.0) for i in range(3))
    batch = [t[None] for t in (q, k, v)]
    batch32 = [t.float() for t in batch]
    expected = F.scaled_dot_product_attention(*batch32, is_causal=True)[0]
    torch.testing.assert_close(attention(q, k, v).float(), expected, rtol=2e-2, atol=2e-2)
    return {
        "hand": record(recorder, lambda: attention(q, k, v)),
        "hand_launched": lambda: attention(q, k, v),
        "torch": lambda: F.scaled_dot_product_attention(*batch, is_causal=True),
        "torch_fp32": lambda: F.scaled_dot_product_attention(*batch32, is_causal=True),
    }


SIDES: dict[str, Callable[[Recorder, Row], Sides]] = {
    "rms_norm": _rms_norm,
    "linear": _linear,
    "swiglu": _swiglu,
    "logprob": _logprob,
    "softmax": _softmax,
    "attention": _attention,
}


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
