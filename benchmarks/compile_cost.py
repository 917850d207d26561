"""What compiling costs, and what a launch costs beside the kernel itself."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from hand_variants import (
    TILE_TABLE,
    linear_tiles,
    logprob_two_tiles,
    rms_norm_one_pass,
    swiglu_flat,
)
from native_time import Recorder, record, time_by_turns
from speed_kernels import attention, softmax
from version_kernels import add, floats, load_seed

import kernelsmith.devices.cpu.compile as compiler

EPS = 1e-6


def compile_cost(repeats: int) -> list[dict[str, Any]]:
    """Milliseconds of processor time from TTIR to object code, which is one thread's work, minimum
    of ``repeats``, for every kernel of the seeds, the hand variants and the speed kernels. Triton's
    own front end, which makes the TTIR, is not in it. Needs an empty cache."""
    texts: list[str] = []
    original = compiler.compile_ttir

    def keep(text: str, **options: Any) -> Any:
        texts.append(text)
        return original(text, **options)

    compiler.compile_ttir = keep
    try:
        for dtype in (torch.bfloat16, torch.float32):
            _run_all(dtype)
    finally:
        compiler.compile_ttir = original
    return [_cost(text, repeats) for text in texts]


def _cost(text: str, repeats: int) -> dict[str, Any]:
    best_ns = 0
    for _ in range(repeats):
        begin_ns = time.process_time_ns()
        compiled = compiler.compile_ttir(text)
        spent_ns = time.process_time_ns() - begin_ns
        best_ns = min(best_ns or spent_ns, spent_ns)
    return {
        "kernel": compiled.info.symbol,
        "ms": round(best_ns / 1e6, 1),
        "object_bytes": len(compiled.code),
    }


def _run_all(dtype: torch.dtype) -> None:
    x, weight, square = (
        floats(i, shape, dtype) for i, shape in ((1, (16, 256)), (2, (256,)), (3, (256, 256)))
    )
    rms_norm, linear, swiglu, logprob = map(load_seed, ("rms_norm", "linear", "swiglu", "logprob"))
    _, rstd = rms_norm.forward_train(x, weight, EPS, None)
    rms_norm.forward_train(x, weight, EPS, x)
    rms_norm.backward(x, x, weight, rstd, x, None)
    rms_norm_one_pass(x, weight, EPS)
    linear.forward_train(x, square, weight)
    linear.backward(x, x, square, weight, None, None)
    for _, *tiles in TILE_TABLE:
        linear_tiles(linear, x, square, (tiles[0], tiles[1], tiles[2]))
    swiglu.forward_train(x, x)
    swiglu.backward(x, x, x)
    swiglu_flat(x, x)
    target = torch.zeros(16, dtype=torch.int64)
    one, entropy, lse = logprob.forward_train(x, target)
    logprob.forward_infer(x, target)
    logprob.backward(one, None, x, target, lse, None)
    logprob.backward(one, one, x, target, lse, entropy)
    logprob_two_tiles(x, target)
    for width in (1024, 1536, 4096):
        softmax(floats(4, (2, width), dtype))
    for head in (64, 128):
        q = floats(5, (2, 128, head), dtype)
        attention(q, q, q)


def launch_cost(recorder: Recorder, windows: int) -> list[dict[str, Any]]:
    """Microseconds a call: ``native_us`` the compiled code, ``launcher_us`` what this device's
    launcher adds to it (from the arguments that Triton binds to the call of the code),
    ``triton_us`` all of ``kernel[grid](...)``, host code of the wrapper included."""
    small = torch.zeros(16)
    x, weight = floats(1, (1, 64), torch.float32), floats(2, (64,), torch.float32)
    matrix = floats(3, (64, 64), torch.float32)
    target = torch.zeros(1, dtype=torch.int64)
    seeds = {name: load_seed(name) for name in ("rms_norm", "linear", "swiglu", "logprob")}
    runs: dict[str, Callable[[], Any]] = {
        "add": lambda: add[(1,)](small, small, small, 16, BLOCK=16),
        "rms_norm": lambda: seeds["rms_norm"].forward_infer(x, weight, EPS, None),
        "linear": lambda: linear_tiles(seeds["linear"], x, matrix, (1, 64, 64)),
        "swiglu": lambda: seeds["swiglu"].forward_infer(x, x),
        "logprob": lambda: seeds["logprob"].forward_infer(x, target),
    }
    found = []
    for name, run in runs.items():
        native = record(recorder, run)
        ((launcher, arguments),) = recorder.launches
        us = time_by_turns(
            {"native": native, "launcher": partial(launcher, *arguments), "triton": run}, windows
        )
        found.append(
            {
                "kernel": name,
                # Grid, stream, function, metadata and hooks come before a kernel's own.
                "arguments": len(arguments) - 9,
                "native_us": round(us["native"], 2),
                "launcher_us": round(us["launcher"] - us["native"], 2),
                "triton_us": round(us["triton"], 2),
            }
        )
    return found
