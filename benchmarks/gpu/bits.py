"""Stages about bits: GEMM classes, alignment, elementwise and reductions against the CPU device."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu import jits, machine
from gpu.machine import Machine, Wanted

TILES = (
    (16, 64, 64),
    (16, 128, 128),
    (32, 64, 64),
    (32, 128, 64),
    (64, 64, 64),
    (64, 128, 64),
    (128, 64, 64),
    (128, 128, 32),
    (128, 128, 64),
    (128, 256, 64),
)
ROWS = (1, 2, 3, 7, 8, 16, 17, 32, 33, 64, 128, 257, 1024, 4096)
DEPTHS = (1024, 4096, 8192, 4160, 5120)
Keep = Callable[[dict[str, Any]], None]
MATMUL = {"a_ptr": "*bf16", "w_ptr": "*bf16", "out_ptr": "*fp32", "m": "i32", "n": "i32"}
MATMUL |= {"k": "i32", "BM": "constexpr", "BN": "constexpr", "BK": "constexpr"}


def matmul_of(tile: tuple[int, int, int], warps: int, stages: int) -> Wanted:
    """One configuration of the product."""
    return Wanted(
        kernel="matmul",
        signature=MATMUL,
        constants=dict(zip(("BM", "BN", "BK"), tile, strict=True)),
        options={"num_warps": warps, "num_stages": stages},
        divisible=("n", "k"),
    )


def name_of(tile: tuple[int, int, int], warps: int, stages: int) -> str:
    """ "64x128x64 w4 s3": tile, warps, stages."""
    return f"{'x'.join(map(str, tile))} w{warps} s{stages}"


def gemm_bits(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """Which configurations of a bf16 product give the same bits, at each row count and depth, and
    whether a row's bits hang on how many rows there are.

    Tiles of 16 and 32 rows use mma.sync, from 64 rows wgmma (sm_90) or tcgen05 (sm_100).
    """
    tiles, rows, depths, columns = TILES, ROWS, DEPTHS, 256
    warps: Sequence[int] = (4, 8)
    stages: Sequence[int] = (1, 3)
    if dry_run:
        tiles, rows, depths, columns = TILES[:1], (1, 3, 17), (128, 144), 64
        warps, stages = (4,), (3,)
    configurations = list(itertools.product(tiles, warps, stages))
    arch = machine.architecture(dry_run)
    codes = machine.compile_all([matmul_of(*one) for one in configurations], arch)
    named = {name_of(*one): (one, code) for one, code in zip(configurations, codes, strict=True)}
    report: dict[str, Any] = {
        "configurations": {name: machine.brief(code) for name, (_, code) in named.items()},
        "rows": list(rows),
        "columns": columns,
        "depths": {},
    }
    with machine.opened(dry_run) as where:
        for depth in depths:
            a = machine.bfloat16(machine.wide(depth, (max(rows), depth)))
            w = machine.bfloat16(machine.wide(depth + 1, (columns, depth)))
            report["depths"][str(depth)] = _classes(where, named, a, w, rows)
            keep(report)
    every = [found for found in report["depths"].values() for found in found["classes"].values()]
    report["one_class_everywhere"] = all(len(classes) == 1 for classes in every)
    report["batch_variant"] = sorted(
        {name for found in report["depths"].values() for name in found["batch_variant"]}
    )
    return report


def _classes(
    where: Machine, named: dict[str, Any], a: np.ndarray, w: np.ndarray, rows: Sequence[int]
) -> dict[str, Any]:
    """Configurations by equal bits at each row count; those whose rows hang on the count."""
    k, n = a.shape[1], w.shape[0]
    classes: dict[str, list[list[str]]] = {}
    whole: dict[str, np.ndarray] = {}
    variant: dict[str, list[int]] = defaultdict(list)
    for count in sorted(rows, reverse=True):
        groups: dict[bytes, list[str]] = {}
        for name, (((bm, bn, _), _, _), code) in named.items():
            if isinstance(code, str):
                continue
            out = np.full((count, n), np.nan, np.float32)
            grid = (-(-count // bm), -(-n // bn), 1)
            arrays, _ = where.run(code, [a[:count], w, out, count, n, k], grid)
            whole.setdefault(name, arrays[2])
            if not np.array_equal(whole[name][:count].view(np.uint32), arrays[2].view(np.uint32)):
                variant[name].append(count)
            groups.setdefault(arrays[2].tobytes(), []).append(name)
        classes[str(count)] = sorted(groups.values(), key=len, reverse=True)
    return {
        "classes": classes,
        "classes_most": max(len(groups) for groups in classes.values()),
        "batch_variant": dict(variant),
    }


def elementwise(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """Elementwise operations and row sums: how many results differ from the CPU device's."""
    count = 2048 if dry_run else 1 << 20
    x, y = values(count)
    ops = jits.OPS[:4] if dry_run else jits.OPS
    wanted = [operation(op) for op in ops] + [sums(tree, "*fp32") for tree in (True, False)]
    arch = machine.architecture(dry_run)
    here = machine.compile_all(wanted, 0)
    there = machine.compile_all(wanted, arch)
    names = [*ops, "tree_sum", "tl.sum"]
    rows, width = (8, 1000) if dry_run else (256, 4096)
    matrix = machine.wide(9, (rows, width))
    report: dict[str, Any] = {"count": count, "compared_with": "cpu device", "operations": {}}
    with machine.opened(True) as cpu, machine.opened(dry_run) as where:
        for name, mine, theirs in zip(names, here, there, strict=True):
            if isinstance(mine, str) or isinstance(theirs, str):
                wrong = [one for one in (mine, theirs) if isinstance(one, str)]
                report["operations"][name] = {"failed": wrong}
                continue
            out = np.zeros(count, np.float32)
            if name in ops:
                given, grid = [x, y, out, count], (-(-count // 1024), 1, 1)
            else:
                given, grid = [matrix, np.zeros(rows, np.float32), width], (rows, 1, 1)
            one, _ = cpu.run(mine, given, grid)
            two, _ = where.run(theirs, given, grid)
            report["operations"][name] = difference(one[-1], two[-1])
            keep(report)
    return report


def values(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Wide numbers with every special value among them."""
    x, y = machine.wide(1, (count,)), machine.wide(2, (count,))
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, 1.0, -1.0, 65504.0, 1e-8],
        np.float32,
    )
    pairs = np.array(list(itertools.product(special, special)), np.float32)
    x[: len(pairs)], y[: len(pairs)] = pairs[:, 0], pairs[:, 1]
    return x, y


def operation(op: str) -> Wanted:
    """One elementwise operation."""
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    return Wanted(
        kernel="elementwise",
        signature={**signature, "OP": "constexpr", "BLOCK": "constexpr"},
        constants={"OP": op, "BLOCK": 1024},
        options={"num_warps": 4},
    )


def sums(tree: bool, kind: str, warps: int = 4) -> Wanted:
    """A row sum by tree_sum or by tl.sum."""
    signature = {"x_ptr": kind, "out_ptr": "*fp32", "n": "i32"}
    return Wanted(
        kernel="row_sum",
        signature={**signature, "TREE": "constexpr", "BLOCK": "constexpr"},
        constants={"TREE": tree, "BLOCK": 1024},
        options={"num_warps": warps},
    )


def difference(mine: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """How two float32 arrays differ, NaNs with any payload counted apart."""
    a, b = mine.view(np.uint32), theirs.view(np.uint32)
    both_nan = np.isnan(mine) & np.isnan(theirs)
    differ = (a != b) & ~both_nan
    found: dict[str, Any] = {
        "differ": int(differ.sum()),
        "nan_payloads": int(((a != b) & both_nan).sum()),
    }
    if found["differ"]:
        first = int(np.flatnonzero(differ)[0])
        steps = np.abs(_ordered(a).astype(np.int64) - _ordered(b).astype(np.int64))[differ]
        found |= {
            "ulp_most": int(steps.max()),
            "first": {"index": first, "cpu": f"{a[first]:08x}", "other": f"{b[first]:08x}"},
        }
    return found


def _ordered(bits: np.ndarray) -> np.ndarray:
    """Integers that stand in the order of the floats."""
    wide = bits.astype(np.int64)
    return np.where(wide >> 31, 0x80000000 - wide, wide)


def alignment(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """What alignment classes do: bits and time of a product and of both row sums, pointers at
    multiples of 16 and 8 bytes off."""
    pairs = {
        "matmul 128x128x64": matmul_of((128, 128, 64), 8, 3),
        "tree_sum": sums(True, "*bf16"),
        "tl.sum": sums(False, "*bf16"),
    }
    if dry_run:
        pairs = {"tl.sum": sums(False, "*bf16")}
    wanted = [machine.replaced(one, aligned=yes) for one in pairs.values() for yes in (True, False)]
    codes = iter(machine.compile_all(wanted, machine.architecture(dry_run)))
    report: dict[str, Any] = {}
    rows, width = (16, 1024) if dry_run else (4096, 4096)
    x = machine.bfloat16(machine.wide(3, (rows, width)))
    with machine.opened(dry_run) as where:
        for name in pairs:
            code = dict(zip((True, False), (next(codes), next(codes)), strict=True))
            outs, entry = {}, {}
            for yes, off in ((True, 0), (False, 8)):
                label = "aligned" if yes else "8 bytes off"
                if isinstance(code[yes], str):
                    entry[label] = machine.brief(code[yes])
                    continue
                if name.startswith("matmul"):
                    out = np.zeros((rows, width), np.float32)
                    given, grid = [x, x, out, rows, width, width], (rows // 128, width // 128, 1)
                else:
                    given, grid = [x, np.zeros(rows, np.float32), width], (rows, 1, 1)
                arrays, taken_us = where.run(
                    code[yes], given, grid, misalign_bytes=0 if dry_run else off, times=10
                )
                outs[label] = arrays[-1]
                entry[label] = {**machine.brief(code[yes]), "us": round(taken_us, 2)}
            if len(outs) == 2:
                entry["bits"] = difference(*(one.ravel() for one in outs.values()))
            report[name] = entry
            keep(report)
    return report
