"""The ops whose speed on the CPU device is shown, each beside torch eager of the same op.

A *side* is a callable without arguments: ``seed`` and ``hand`` run compiled code alone,
``hand_launched`` goes through Triton's ``kernel[grid](...)``, ``torch`` is torch eager on the same
tensors, ``torch_fp32`` on float32 ones. Inputs are drawn from fixed seeds; the hand variant must
have the seed's bits, or, where there is no seed, torch must agree with it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One op on drawn inputs. ``infer``: arguments of the seed's ``forward_infer``, None where
    there is no seed. ``torch_of``: torch eager on the inputs in a dtype."""

    hand: Callable[[], Any]
    torch_of: Callable[[torch.dtype], Callable[[], Any]]
    infer: tuple[Any, ...] | None = None
    others: Sides = field(default_factory=dict)


def sides(recorder: Recorder, row: Row, winner: ModuleType | None = None) -> Sides:
    """The sides of one row, with ``winner``'s too if given: a module with the seed's entries."""
    work = WORK[row.op](row)
    found: Sides = {}
    if work.infer is None:
        wanted = work.torch_of(torch.float32)()
        torch.testing.assert_close(work.hand().float(), wanted, rtol=2e-2, atol=2e-2)
    else:
        arguments, seed = work.infer, load_seed(row.op)
        wanted = seed.forward_infer(*arguments)
        same_bits(work.hand(), wanted)
        found["seed"] = record(recorder, lambda: seed.forward_infer(*arguments))
        if winner is not None:
            same_bits(winner.forward_infer(*arguments), wanted)
            found["winner"] = record(recorder, lambda: winner.forward_infer(*arguments))
    return {
        **found,
        "hand": record(recorder, work.hand),
        "hand_launched": work.hand,
        "torch": work.torch_of(row.dtype),
        "torch_fp32": work.torch_of(torch.float32),
        **work.others,
    }


def same_bits(found: tuple[torch.Tensor, ...], wanted: tuple[torch.Tensor, ...]) -> None:
    """Whether two results are equal byte for byte.

    Raises:
        AssertionError: they are not.
    """
    for one, other in zip(found, wanted, strict=True):
        view = {2: torch.int16, 4: torch.int32}[other.element_size()]
        assert torch.equal(one.view(view), other.view(view)), "other bits than the seed's"


def _rms_norm(row: Row) -> Work:
    width = row.sizes["width"]
    x, weight = floats(1, (row.tokens, width), row.dtype), floats(2, (width,), row.dtype)

    def torch_of(dtype: torch.dtype) -> Callable[[], Any]:
        a, w = x.to(dtype), weight.to(dtype)
        return lambda: F.rms_norm(a, (width,), w, EPS)

    return Work(
        infer=(x, weight, EPS, None),
        hand=lambda: (rms_norm_one_pass(x, weight, EPS),),
        torch_of=torch_of,
    )


def _linear(row: Row) -> Work:
    n, k = row.sizes["n"], row.sizes["k"]
    x, weight = floats(3, (row.tokens, k), row.dtype), floats(4, (n, k), row.dtype)
    seed, tiles = load_seed("linear"), tiles_for(row.tokens)

    def torch_of(dtype: torch.dtype) -> Callable[[], Any]:
        a, w = x.to(dtype), weight.to(dtype)
        return lambda: F.linear(a, w)

    return Work(
        infer=(x, weight, None),
        hand=lambda: (linear_tiles(seed, x, weight, tiles),),
        torch_of=torch_of,
    )


def _swiglu(row: Row) -> Work:
    shape = (row.tokens, row.sizes["width"])
    gate, up = normals(9, shape, row.dtype, 2.0), normals(10, shape, row.dtype, 1.0)

    def torch_of(dtype: torch.dtype) -> Callable[[], Any]:
        g, u = gate.to(dtype), up.to(dtype)
        return lambda: F.silu(g) * u

    return Work(infer=(gate, up), hand=lambda: (swiglu_flat(gate, up),), torch_of=torch_of)


def torch_logprob(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the seed of `logprob` computes, as it is written with torch, in the dtype of x."""
    logs = torch.log_softmax(x, -1)
    return logs.gather(-1, target[:, None])[:, 0], -(logs.exp() * logs).sum(-1)


def _logprob(row: Row) -> Work:
    width = row.sizes["width"]
    x = normals(11, (row.tokens, width), row.dtype, 3.0)
    target = torch.from_numpy(np.random.default_rng(12).integers(0, width, row.tokens)).clone()

    def torch_of(dtype: torch.dtype) -> Callable[[], Any]:
        logits = x.to(dtype)
        return lambda: torch_logprob(logits, target)

    def without_entropy() -> Any:
        return torch.log_softmax(x, -1).gather(-1, target[:, None])

    return Work(
        infer=(x, target),
        hand=lambda: logprob_two_tiles(x, target),
        torch_of=torch_of,
        others={"torch_without_entropy": without_entropy},
    )


def _softmax(row: Row) -> Work:
    x = normals(13, (row.tokens, row.sizes["width"]), row.dtype, 3.0)

    def torch_of(dtype: torch.dtype) -> Callable[[], Any]:
        a = x.to(dtype)
        return lambda: torch.softmax(a, -1)

    return Work(hand=lambda: softmax(x), torch_of=torch_of)


def _attention(row: Row) -> Work:
    shape = (row.sizes["heads"], row.tokens, row.sizes["head_dim"])
    q, k, v = (normals(14 + i, shape, row.dtype, 1.0) for i in range(3))

    def torch_of(dtype: torch.dtype) -> Callable[[], Any]:
        # Without a batch dimension torch takes its slower way.
        batch = [t.to(dtype)[None] for t in (q, k, v)]
        return lambda: F.scaled_dot_product_attention(*batch, is_causal=True)[0]

    return Work(hand=lambda: attention(q, k, v), torch_of=torch_of)


WORK: dict[str, Callable[[Row], Work]] = {
    "rms_norm": _rms_norm,
    "linear": _linear,
    "swiglu": _swiglu,
    "logprob": _logprob,
    "softmax": _softmax,
    "attention": _attention,
}
