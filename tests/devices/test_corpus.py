"""Whole kernels as Triton 3.6.0, 3.7.1 and 3.9.0 print them: right, and equal in every bit.

The expected values below spell out the documented orders of summation."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.devices.ttir_texts import Array, bf16_bits, bf16_float, levels, run, same_bits

CORPUS = Path(__file__).parent / "corpus"
VERSIONS = ("3.6.0", "3.7.1", "3.9.0")


@cache
def text(version: str, name: str) -> str:
    return (CORPUS / version / f"{name}.ttir").read_text()


def everywhere(name: str, out: Array, *args: Any, grid: tuple[int, int, int] = (1, 1, 1)) -> Array:
    """Runs a kernel of the corpus on each level and, on the highest, each version; ``out`` is one
    of ``args``. All must write the same bytes."""
    start = out.copy()
    results = []
    cases = [(VERSIONS[1], level) for level in levels()]
    cases += [(version, levels()[-1]) for version in VERSIONS]
    for version, level in cases:
        out[...] = start
        run(text(version, name), *args, grid=grid, cpu=level)
        results.append(out.copy())
    for (version, level), other in zip(cases, results, strict=True):
        same_bits(other, results[0], f"{name} of Triton {version} on {level}")
    return results[0]


def lanes(row: Array) -> np.float32:
    """The order of a reduction along the last axis: lane j mod 32 ascending, then halves."""
    width = min(len(row), 32)
    total = row[:width].copy()
    for start in range(width, len(row), width):
        total = total + row[start : start + width]
    while width > 1:
        width //= 2
        total = total[:width] + total[width : 2 * width]
    return np.float32(total[0])


def pairs(row: Array) -> np.float32:
    """A tree of adjacent pairs."""
    while len(row) > 1:
        row = row[0::2] + row[1::2]
    return np.float32(row[0])


def ascending(rows: Array) -> Array:
    total: Array = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


def fma_chain(a: Array, b: Array, start: Array) -> Array:
    """acc = fma(a[:, k], b[k, :], acc), k ascending (extended precision, one rounding)."""
    acc = start
    for k in range(a.shape[1]):
        product = a[:, k : k + 1].astype(np.longdouble) * b[k : k + 1].astype(np.longdouble)
        acc = (product + acc).astype(np.float32)
    return acc


def test_norm_sums_its_lanes_as_a_tree_of_pairs() -> None:
    rng = np.random.default_rng(0)
    n = 1500
    x = bf16_bits(rng.standard_normal((3, n)).astype(np.float32))
    w = bf16_bits(rng.standard_normal(n).astype(np.float32))
    y, r = np.zeros((3, n), np.uint16), np.zeros(3, np.float32)
    everywhere("norm", y, x, w, y, r, n, n, 1e-5, grid=(3, 1, 1))
    wide = bf16_float(x)
    squares = np.zeros((3, 2048), np.float32)
    squares[:, :n] = wide * wide
    for row in range(3):
        mean = pairs(squares[row, :1024] + squares[row, 1024:]) / np.float32(n)
        want = np.float32(1) / np.sqrt(mean + np.float32(1e-5))
        assert r[row] == want
        same_bits(y[row], bf16_bits(wide[row] * want * bf16_float(w)), "y")


def test_linear_is_one_fma_chain_an_element() -> None:
    rng = np.random.default_rng(1)
    m, n, k = 37, 70, 100
    x, w, b = (
        bf16_bits(rng.standard_normal(shape).astype(np.float32)) for shape in ((m, k), (n, k), n)
    )
    y = np.zeros((m, n), np.uint16)
    everywhere("linear", y, x, w, b, y, m, n, k, grid=(2, 2, 1))
    chain = fma_chain(bf16_float(x), bf16_float(w).T, np.zeros((m, n), np.float32))
    same_bits(y, bf16_bits(chain + bf16_float(b)), "linear")


@pytest.mark.parametrize("k", [0, 63, 64, 200])
def test_a_loop_of_fmas_is_the_chain_it_says(k: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal(k + 1).astype(np.float32)
    w = rng.standard_normal((45, max(k, 1))).astype(np.float32)
    y = np.zeros(45, np.float32)
    everywhere("chain", y, x, w, y, 45, k, grid=(2, 1, 1))
    want = fma_chain(x[None, :k], w[:, :k].T, np.zeros((1, 45), np.float32))[0]
    same_bits(y, want, "chain")


def test_shapes_and_reductions() -> None:
    rng = np.random.default_rng(3)
    m, n = 16, 64
    a = rng.standard_normal((m, n)).astype(np.float32)
    a[3, 5] = a[3, 9] = 7.0  # a tie: the first index wins
    y = np.zeros(8 * m * n, np.float32)
    everywhere("shapes", y, a, y)
    rows = np.array([lanes(row) for row in a])
    e, o = np.moveaxis(a.reshape(2, m // 2, n), 0, -1)[..., 0], a.reshape(2, m // 2, n)[1]
    want = [
        a.T, rows, ascending(a), a.max(1), a.argmax(1), a.argmin(0), e - o * np.float32(2),
        np.stack([e, o], -1), np.stack([rows, a.max(1)], -1), rows[:, None] / a,
        [lanes(a.ravel()), pairs(a.ravel())],
    ]  # fmt: skip
    flat = np.concatenate([np.asarray(part, np.float32).ravel() for part in want])
    same_bits(y[: len(flat)], flat, "shapes")
    assert not y[len(flat) :].any()


@pytest.mark.parametrize("n", [0, 1, 5])
def test_control_flow_and_carried_values(n: int) -> None:
    rng = np.random.default_rng(4)
    size = 64
    x = rng.standard_normal(2 * size).astype(np.float32)
    y = np.zeros(5 * size, np.float32)
    everywhere("control", y, x, y, n, grid=(3, 1, 1))
    a, b, z = x[:size], x[size:], np.zeros(size, np.float32)
    m = np.ones(size, np.int32)
    half = np.float32(0.5)
    for k in range(n):
        a, b = b, a + b * half
        z = z + a
        m = m * 3 + k
        z = z * half if k % 2 == 0 else z - b
    total = sum(k // 3 for k in range(n + 1))
    tail = np.full(size, total * 2.0 + 1.0, np.float32)
    same_bits(y, np.concatenate([a, b, z, m.astype(np.float32), tail]), "control")


def test_hints_for_a_gpu_change_nothing() -> None:
    x = np.random.default_rng(5).standard_normal((4, 64)).astype(np.float32)
    y = np.zeros(64, np.float32)
    everywhere("hints", y, x, y, 4)
    same_bits(y, ascending(np.concatenate([np.zeros((1, 64), np.float32), x])) / np.float32(8), "y")
