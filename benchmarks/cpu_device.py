"""The CPU device beside torch eager: ratios, launch cost, compile cost.

    python benchmarks/cpu_device.py [--quick]

Everything is timed in one process on one thread, kernel and torch by turns, and the minimum of
several windows is taken: what other programs on the machine add never makes a minimum smaller.
Times of kernels are of the compiled code alone (``native``) and through Triton's own
``kernel[grid](...)`` (``launched``). Writes ``benchmarks/results/cpu_device.json``.
"""

import datetime
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
from linear_variants import linear_tiles, rms_norm_one_pass, tiles_for
from version_kernels import add, floats, load_seed

from kernelsmith.devices.cpu import activated
from kernelsmith.devices.cpu.arena import Arena
from kernelsmith.devices.cpu.epoch import describe
from kernelsmith.devices.cpu.grid import GRID_STRUCT, Cost, Grid, count_programs
from kernelsmith.devices.cpu.launch import launcher_for

RESULT = Path(__file__).parent / "results" / "cpu_device.json"
TOKENS = (1, 7, 16, 33, 128, 256)
HIDDEN = 1024
# Qwen3-0.6B: k or v projection.
LINEAR_NK = (1024, 1024)
# Short windows and many of them: some are not interrupted even on a busy machine.
WINDOW_NS = 1_000_000
WINDOWS = 60
EPS = 1e-6


class Recorder:
    """Stands in for a driver's Grid: runs each launch on one thread and, while ``calls`` is a
    list, keeps it as a call without arguments. ``tensors`` keeps what launches were given, as a
    replay also writes to scratch that the host code has long let go of."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] | None = None
        self.tensors: list[Any] = []
        self._grid = Grid(threads=1)

    def launcher(self, source: Any, metadata: Any) -> Callable[..., None]:
        """What Triton calls to make a kernel's launcher."""
        launch = launcher_for(self)(source, metadata)

        def launch_and_keep(*args: Any) -> None:
            if self.calls is not None:
                self.tensors.append(args)
            launch(*args)

        return launch_and_keep

    def run(
        self, kernel: Any, args: bytes, grid: tuple[int, int, int], arena_bytes: int, cost: Cost
    ) -> None:
        """As :meth:`Grid.run`."""
        self._grid.run(kernel, args, grid, arena_bytes, cost)
        if self.calls is not None:
            arena, packed, count = Arena(arena_bytes), GRID_STRUCT.pack(*grid), count_programs(grid)
            # The default argument keeps the arena alive as long as its address is in use.
            self.calls.append(
                lambda arena=arena: kernel(args, packed, None, 0, count, arena.address)
            )


def record(recorder: Recorder, run: Callable[[], Any]) -> Callable[[], None]:
    """The launches that ``run`` makes, as one native call on the same tensors."""
    recorder.calls, recorder.tensors = [], []
    calls, keep = recorder.calls, (run(), recorder.tensors)
    recorder.calls = None

    def replay() -> None:
        for call in calls:
            call()

    replay.keep = keep  # type: ignore[attr-defined]
    return replay


def time_by_turns(sides: dict[str, Callable[[], Any]], windows: int) -> dict[str, float]:
    """Minimum time of a call in microseconds, windows of all sides taken by turns, in another order
    each round: who runs after a side that leaves the caches full of other things is slower."""
    best = dict.fromkeys(sides, float("inf"))
    counts = {}
    for name, run in sides.items():
        run()
        begin_ns = time.perf_counter_ns()
        run()
        counts[name] = max(1, WINDOW_NS // max(1, time.perf_counter_ns() - begin_ns))
    order, draw = list(sides.items()), random.Random(0)
    for _ in range(windows):
        draw.shuffle(order)
        for name, run in order:
            begin_ns = time.perf_counter_ns()
            for _ in range(counts[name]):
                run()
            spent_us = (time.perf_counter_ns() - begin_ns) / counts[name] / 1e3
            best[name] = min(best[name], spent_us)
    return best


def bench_rms_norm(
    recorder: Recorder, tokens: int, dtype: torch.dtype, windows: int
) -> dict[str, Any]:
    """Seed and one-pass rewrite beside ``torch.nn.functional.rms_norm``."""
    seed = load_seed("rms_norm")
    x, weight = floats(1, (tokens, HIDDEN), dtype), floats(2, (HIDDEN,), dtype)
    x32, weight32 = x.float(), weight.float()
    assert torch.equal(
        seed.forward_infer(x, weight, EPS, None)[0], rms_norm_one_pass(x, weight, EPS)
    ), "the rewrite changed bits"
    sides = {
        "seed": record(recorder, lambda: seed.forward_infer(x, weight, EPS, None)),
        "hand": record(recorder, lambda: rms_norm_one_pass(x, weight, EPS)),
        "hand_launched": lambda: rms_norm_one_pass(x, weight, EPS),
        "torch": lambda: torch.nn.functional.rms_norm(x, (HIDDEN,), weight, EPS),
        "torch_fp32": lambda: torch.nn.functional.rms_norm(x32, (HIDDEN,), weight32, EPS),
    }
    return _row("rms_norm", tokens, dtype, time_by_turns(sides, windows))


def bench_linear(
    recorder: Recorder, tokens: int, dtype: torch.dtype, windows: int
) -> dict[str, Any]:
    """Seed and tile table beside ``torch.nn.functional.linear``."""
    seed = load_seed("linear")
    n, k = LINEAR_NK
    x, weight = floats(3, (tokens, k), dtype), floats(4, (n, k), dtype)
    x32, weight32 = x.float(), weight.float()
    tiles = tiles_for(tokens)
    assert torch.equal(
        seed.forward_infer(x, weight, None)[0], linear_tiles(seed, x, weight, tiles)
    ), "other tiles changed bits"
    sides = {
        "seed": record(recorder, lambda: seed.forward_infer(x, weight, None)),
        "hand": record(recorder, lambda: linear_tiles(seed, x, weight, tiles)),
        "hand_launched": lambda: linear_tiles(seed, x, weight, tiles),
        "torch": lambda: torch.nn.functional.linear(x, weight),
        "torch_fp32": lambda: torch.nn.functional.linear(x32, weight32),
    }
    row = _row("linear", tokens, dtype, time_by_turns(sides, windows))
    return {**row, "n": n, "k": k, "tiles": tiles}


def bench_backward(recorder: Recorder, tokens: int, dtype: torch.dtype, windows: int) -> list[Any]:
    """Both seeds' gradients beside torch's (autograd without the forward; plain products)."""
    rms_norm, linear = load_seed("rms_norm"), load_seed("linear")
    n, k = LINEAR_NK
    x, dy = floats(5, (tokens, HIDDEN), dtype), floats(6, (tokens, HIDDEN), dtype)
    weight, matrix = floats(7, (HIDDEN,), dtype), floats(8, (n, k), dtype)
    _, rstd = rms_norm.forward_train(x, weight, EPS, None)
    found = []
    for op, seed_run in (
        ("rms_norm_backward", lambda: rms_norm.backward(dy, x, weight, rstd, None, None)),
        ("linear_backward", lambda: linear.backward(dy, x, matrix, None, None, None)),
    ):
        seed_run()
        sides = {"seed": record(recorder, seed_run)}
        for name, to in (("torch", dtype), ("torch_fp32", torch.float32)):
            sides[name] = _torch_backward(op, *(t.to(to) for t in (dy, x, weight, matrix)))
        us = time_by_turns(sides, windows)
        row = {"op": op, "tokens": tokens, "dtype": str(dtype).removeprefix("torch.")}
        ratio = round(us["seed"] / us["torch_fp32"], 3)
        rounded = {name: round(value, 2) for name, value in us.items()}
        found.append({**row, "us_min": rounded, "seed_over_torch_fp32": ratio})
    return found


def _torch_backward(
    op: str, dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, matrix: torch.Tensor
) -> Callable[[], Any]:
    if op == "linear_backward":
        return lambda: (dy @ matrix, dy.T @ x)
    leaves = (x.clone().requires_grad_(), weight.clone().requires_grad_())
    y = torch.nn.functional.rms_norm(leaves[0], (HIDDEN,), leaves[1], EPS)
    return lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)


def _row(op: str, tokens: int, dtype: torch.dtype, us: dict[str, float]) -> dict[str, Any]:
    return {
        "op": op,
        "tokens": tokens,
        "dtype": str(dtype).removeprefix("torch."),
        "us_min": {name: round(value, 2) for name, value in us.items()},
        "seed_over_torch_fp32": round(us["seed"] / us["torch_fp32"], 3),
        "hand_over_torch_fp32": round(us["hand"] / us["torch_fp32"], 3),
        "hand_over_torch": round(us["hand"] / us["torch"], 3),
        "seed_over_hand": round(us["seed"] / us["hand"], 3),
    }


def bench_launch(recorder: Recorder, windows: int) -> dict[str, float]:
    """Cost of a launch of an almost empty kernel, in microseconds."""
    x, y, out = (torch.zeros(16) for _ in range(3))

    def launched() -> None:
        add[(1,)](x, y, out, 16, BLOCK=16)

    us = time_by_turns({"native": record(recorder, launched), "launched": launched}, windows)
    return {f"{name}_us_min": round(value, 2) for name, value in us.items()}


def bench_compile() -> list[dict[str, Any]]:
    """Cost of compiling the seeds' kernels, in milliseconds, with an empty cache."""
    import kernelsmith.devices.cpu.compile as compiler

    found: list[dict[str, Any]] = []
    original = compiler.compile_ttir

    def timed(text: str) -> Any:
        begin_ns = time.perf_counter_ns()
        compiled = original(text)
        spent_ms = (time.perf_counter_ns() - begin_ns) / 1e6
        found.append({"kernel": compiled.info.symbol, "ms": round(spent_ms, 1)})
        return compiled

    compiler.compile_ttir = timed
    try:
        x, weight = floats(1, (16, 256), torch.bfloat16), floats(2, (256,), torch.bfloat16)
        rms_norm, linear = load_seed("rms_norm"), load_seed("linear")
        _, rstd = rms_norm.forward_train(x, weight, EPS, None)
        rms_norm.backward(x, x, weight, rstd, None, None)
        square = floats(3, (256, 256), torch.bfloat16)
        linear.forward_train(x, square, weight)
        linear.backward(x, x, square, weight, None, None)
    finally:
        compiler.compile_ttir = original
    return found


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    quick = "--quick" in arguments
    windows = 3 if quick else WINDOWS
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache, activated(threads=1):
        triton.knobs.cache.dir = cache
        recorder = Recorder()
        triton.runtime.driver.active.launcher_cls = recorder.launcher
        document = {
            "schema": "kernelsmith/cpu-device/1",
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "device": {**describe(), "threads": 1},
            "torch": torch.__version__,
            "triton": triton.__version__,
            "method": f"min of {windows} windows of 1 ms, sides by turns, one process, one thread",
            "compile": bench_compile(),
            "launch": bench_launch(recorder, windows),
            "ops": [
                bench(recorder, tokens, dtype, windows)
                for bench in (bench_rms_norm, bench_linear)
                for dtype in (torch.bfloat16, torch.float32)
                for tokens in TOKENS
            ],
        }
        for dtype in (torch.bfloat16, torch.float32):
            document["ops"] += bench_backward(recorder, 128, dtype, windows)
    if not quick:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps({k: v for k, v in document.items() if k != "ops"}, indent=1))
    for row in document["ops"]:
        print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
