"""Stages about speed: seeds and winners against torch, the fixed product, copies, row sums."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu import bits, machine, plans
from kernelsmith import catalog
from kernelsmith.model import Case

# Peak of dense bf16 is not asked of the driver: ratios to cuBLAS are what counts.
Keep = Callable[[dict[str, Any]], None]
GEMM_SHAPES = ((16, 4096, 4096), (256, 4096, 4096), (4096, 4096, 4096), (8192, 4096, 4096))
COPY_BYTES = 1 << 30


def seeds_and_winners(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """Time of every timed case: seed, winners, and torch's own operation where it has one; warm
    caches, noise for inputs, CUDA graphs on both sides. A dry run compiles them for sm_90."""
    report: dict[str, Any] = {"tasks": {}}
    names = ("rms_norm",) if dry_run else ("rms_norm", "linear", "swiglu", "logprob")
    target = "cuda:90" if dry_run else f"cuda:{machine.architecture(False)}"
    ready: list[tuple[str, str, Any]] = []
    for name in names:
        task = catalog.load_task(name, "cuda")
        timed = [case for case in task.cases if case.weight > 0]
        if dry_run:
            timed = timed[-1:]
        for label, source in plans.sources(name).items():
            try:
                traced = plans.prepared(label, task, source, timed, target, aligned=True)
            except RuntimeError as error:
                report["tasks"].setdefault(name, {})[label] = {"failed": str(error)}
                keep(report)
                continue
            ready.append((name, label, (traced, timed)))
    for name, label, (traced, timed) in ready:
        entry = {"compile_s": round(traced.compile_s, 2), "cases": {}}
        report["tasks"].setdefault(name, {})[label] = entry
        if dry_run:
            entry["kernels"] = len(traced.objects)
            continue
        with machine.opened(False) as where:
            for case in timed:
                time_once, free = plans.timers(where.gpu, traced, case)
                entry["cases"][case.id] = round(plans.median_us(time_once), 3)
                free()
        keep(report)
    for name in () if dry_run else names:
        report["tasks"][name]["torch"] = _torch_cases(name)
        keep(report)
    return report


def _torch_cases(name: str) -> dict[str, Any]:
    """Microseconds of torch's operation by case; a text where it fails."""
    found: dict[str, Any] = {}
    for case in catalog.load_task(name, "cuda").cases:
        if case.weight == 0:
            continue
        # Whatever torch does not like must not cost the figures that are there.
        try:
            taken_us = beside(name, case)
        except Exception as error:
            found[case.id] = f"{type(error).__name__}: {error}"[:200]
            continue
        if taken_us is not None:
            found[case.id] = round(taken_us, 3)
    return found


def beside(name: str, case: Case) -> float | None:
    """Microseconds of torch's own operation for a case, by CUDA graph; None: it has none."""
    import torch
    from torch.nn import functional

    dims = dict(case.dims)
    dtype = torch.bfloat16 if case.dtype == "bfloat16" else torch.float32

    def new(*shape: int) -> Any:
        return torch.randn(shape, device="cuda").to(dtype)

    if name == "linear" and "backward" not in case.call:
        x, w = new(dims["M"], dims["K"]), new(dims["N"], dims["K"])
        return torch_us(lambda: functional.linear(x, w))
    if name == "rms_norm" and case.call in ("train", "infer"):
        x, w = new(dims["M"], dims["N"]), new(dims["N"])
        return torch_us(lambda: functional.rms_norm(x, (dims["N"],), w))
    if name == "swiglu" and case.call == "infer":
        gate, up = new(dims["M"], dims["N"]), new(dims["M"], dims["N"])
        return torch_us(lambda: functional.silu(gate) * up)
    return None


def torch_us(operation: Any, rounds: int = 20) -> float:
    """Microseconds of a torch call within a CUDA graph of ``rounds`` of them."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            operation()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            operation()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def once() -> float:
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3 / rounds

    return plans.median_us(once, budget_s=0.2)


def products(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """The fixed 128 x 128 x 64 product against cuBLAS, and copies against the memory: TFLOP/s and
    GB/s."""
    wanted = [
        bits.matmul_of((128, 128, 64), 8, 3),
        machine.Wanted(
            kernel="copy",
            signature={"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
            constants={"BLOCK": 1024},
            options={"num_warps": 4},
            divisible=("n",),
        ),
    ]
    fixed, copied = machine.compile_all(wanted, machine.architecture(dry_run))
    shapes = ((16, 128, 64),) if dry_run else GEMM_SHAPES
    report: dict[str, Any] = {"products": {}, "kernel": machine.brief(fixed)}
    with machine.opened(dry_run) as where:
        for m, n, k in shapes:
            a, w = (
                machine.noise("bfloat16", 2 * rows * k).view(np.uint16).reshape(rows, k)
                for rows in (m, n)
            )
            out = np.zeros((m, n), np.float32)
            grid = (-(-m // 128), -(-n // 128), 1)
            _, taken_us = where.run(fixed, [a, w, out, m, n, k], grid, times=3 if dry_run else 10)
            entry = {"fixed_us": round(taken_us, 2)}
            entry["fixed_tflops"] = round(2 * m * n * k / taken_us / 1e6, 2)
            report["products"][f"{m}x{n}x{k}"] = entry
            keep(report)
        nbytes = 1 << 16 if dry_run else COPY_BYTES
        x = machine.noise("float32", nbytes).view(np.float32)
        grid = (-(-x.size // 1024), 1, 1)
        _, taken_us = where.run(copied, [x, x.copy(), x.size], grid, times=3)
        report["copy_gb_per_s"] = round(2 * nbytes / taken_us / 1e3, 1)
        keep(report)
    for m, n, k in () if dry_run else shapes:
        entry = report["products"][f"{m}x{n}x{k}"]
        try:
            taken_us = _cublas_us(m, n, k)
        except Exception as error:
            entry["cublas"] = f"{type(error).__name__}: {error}"[:200]
            continue
        entry["cublas_us"] = round(taken_us, 2)
        entry["fixed_by_cublas"] = round(entry["fixed_us"] / taken_us, 3)
    return report


def _cublas_us(m: int, n: int, k: int) -> float:
    import torch

    a = torch.randn((m, k), device="cuda").to(torch.bfloat16)
    w = torch.randn((n, k), device="cuda").to(torch.bfloat16)
    return torch_us(lambda: torch.nn.functional.linear(a, w))


def row_sums(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """``tree_sum`` against ``tl.sum`` over rows of bf16: time, and bytes read a second."""
    rows, width = (8, 1024) if dry_run else (16384, 4096)
    warps = (4,) if dry_run else (1, 2, 4, 8)
    wanted = [bits.sums(tree, "*bf16", count) for count in warps for tree in (True, False)]
    codes = iter(machine.compile_all(wanted, machine.architecture(dry_run)))
    # A part of the rows, repeated: drawing all of them takes longer than summing them.
    x = machine.bfloat16(np.tile(machine.wide(5, (rows // 8, width)), (8, 1)))
    report: dict[str, Any] = {"rows": rows, "columns": width, "warps": {}}
    with machine.opened(dry_run) as where:
        for count in warps:
            entry: dict[str, Any] = {}
            for label in ("tree_sum", "tl.sum"):
                code = next(codes)
                entry[label] = machine.brief(code)
                if isinstance(code, str):
                    continue
                out = np.zeros(rows, np.float32)
                _, taken_us = where.run(code, [x, out, width], (rows, 1, 1), times=5)
                entry[label] |= {
                    "us": round(taken_us, 2),
                    "gb_per_s": round(x.nbytes / taken_us / 1e3, 1),
                }
            report["warps"][str(count)] = entry
            keep(report)
    return report
