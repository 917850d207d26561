"""Philox 4x32-10 from its published definition, its known answers, and what tl makes of it."""

from typing import Any

import numpy as np
import triton
import triton.language as tl

from tests.conformance.case import BITS, Case, Tolerance, result
from tests.conformance.values import Array

ROUNDS = ((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85))
MASK = np.uint64(0xFFFFFFFF)
# From the Random123 distribution: counter, key, output of philox4x32 with ten rounds.
KNOWN = (
    ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, 0xFFFFFFFFFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), 0x299F31D0A4093822,
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)  # fmt: skip


def philox(counter: list[Array], seed: int, rounds: int = 10) -> list[Array]:
    """Four counter words and a 64-bit key to four words, all as uint64 arrays below 2**32."""
    c0, c1, c2, c3 = (np.asarray(each, np.uint64) for each in counter)
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)
    (a, b), (bump0, bump1) = ROUNDS
    for _ in range(rounds):
        first, second = np.uint64(a) * c0, np.uint64(b) * c2
        c0, c1 = (second >> np.uint64(32)) ^ c1 ^ k0, second & MASK
        c2, c3 = (first >> np.uint64(32)) ^ c3 ^ k1, first & MASK
        k0, k1 = (k0 + np.uint64(bump0)) & MASK, (k1 + np.uint64(bump1)) & MASK
    return [c0, c1, c2, c3]


def words(seed: int, n: int, rounds: int = 10, high: int = 0) -> list[Array]:
    zero = np.zeros(n, np.uint64)
    return philox([np.arange(n), zero + np.uint64(high), zero, zero], seed, rounds)


def uniform(word: Array) -> Array:
    """A word to [0, 1) as tl does: the magnitude of the int32, times 2**-31 less a little."""
    signed = word.astype(np.uint32).view(np.int32)
    folded = np.where(signed < 0, ~signed, signed).astype(np.float32)
    return (folded * np.float32(4.6566127342e-10)).astype(np.float64)


@triton.jit
def integers(y0, y1, y2, y3, seed, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, at, ROUNDS)
    tl.store(y0 + at, a)
    tl.store(y1 + at, b)
    tl.store(y2 + at, c)
    tl.store(y3 + at, d)


@triton.jit
def one_integer(y, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.randint(seed, at))


@triton.jit
def known(y, c0, c1, c2, c3, seed, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    zero = at.to(tl.uint32) * 0
    a, b, c, d = tl.philox(
        seed, zero + c0.to(tl.uint32), zero + c1.to(tl.uint32), zero + c2.to(tl.uint32),
        zero + c3.to(tl.uint32),
    )  # fmt: skip
    tl.store(y + at * 4, a)
    tl.store(y + at * 4 + 1, b)
    tl.store(y + at * 4 + 2, c)
    tl.store(y + at * 4 + 3, d)


@triton.jit
def far_offsets(y, seed, BLOCK: tl.constexpr):
    """64-bit offsets use the counter's second word."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.randint(seed, at.to(tl.int64) + 0x500000000))


@triton.jit
def uniforms(y, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.rand(seed, at))


@triton.jit
def four_uniforms(y0, y1, y2, y3, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.rand4x(seed, at)
    tl.store(y0 + at, a)
    tl.store(y1 + at, b)
    tl.store(y2 + at, c)
    tl.store(y3 + at, d)


@triton.jit
def normals(y, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.randn(seed, at))


@triton.jit
def uniforms_2d(y, seed, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(y + at, tl.rand(seed, at))


def normal(seed: int, n: int) -> Array:
    """Box and Muller's pair, the first of it."""
    first, second = (uniform(word) for word in words(seed, n)[:2])
    first = np.maximum(first, np.float64(np.float32(1.0e-7)))
    return np.sqrt(-2.0 * np.log(first)) * np.cos(6.283185307179586 * second)


def _case(name: str, op: str, kernel: Any, outs: tuple[Any, ...], args: tuple[Any, ...],
          oracle: Any, tolerance: Tolerance = BITS, grid: tuple[int, ...] = (1,),
          **constants: Any) -> Case:  # fmt: skip
    return Case(family="random_numbers", name=name, ops=(op,), dtype=outs[0].dtype, kernel=kernel,
                args=(*outs, *args), oracle=oracle, constants=constants, grid=grid,
                tolerance=tolerance)  # fmt: skip


def cases() -> list[Case]:
    n, blocks = 512, {"BLOCK": 128}
    word, real = result("uint32", n), result("fp32", n)
    found = [
        _case(f"randint4x/{seed}_{rounds}", "randint4x", integers, (word,) * 4, (seed,),
              lambda seed=seed, rounds=rounds: tuple(words(seed, n, rounds)), grid=(4,),
              ROUNDS=rounds, **blocks)
        for seed, rounds in ((0, 10), (12345, 10), (12345, 7), (0x1234567890ABC, 10))
    ]  # fmt: skip
    for counter, key, answer in KNOWN:
        signed = [value - (1 << 32) if value >> 31 else value for value in counter]
        seed = key - (1 << 64) if key >> 63 else key
        found.append(
            _case(f"philox/{key:x}", "philox", known, (result("uint32", 4 * 16),),
                  (*signed, seed),
                  lambda answer=answer: np.tile(np.array(answer, np.uint64), 16), BLOCK=16)
        )  # fmt: skip
    for seed in (3, -7, 2**40 + 1):
        key = seed % (1 << 64)
        found.append(
            _case(f"randint/{seed}", "randint", one_integer, (result("int32", n),), (seed,),
                  lambda key=key: words(key, n)[0].astype(np.uint32).view(np.int32), grid=(4,),
                  **blocks)
        )  # fmt: skip
        found.append(
            _case(f"rand/{seed}", "rand", uniforms, (real,), (seed,),
                  lambda key=key: uniform(words(key, n)[0]), grid=(4,), **blocks)
        )  # fmt: skip
        found.append(
            _case(f"randn/{seed}", "randn", normals, (real,), (seed,),
                  lambda key=key: normal(key, n), Tolerance(kind="near", bound=1e-6), (4,),
                  **blocks)
        )  # fmt: skip
    found += [
        _case("rand4x/9", "rand4x", four_uniforms, (real,) * 4, (9,),
              lambda: tuple(uniform(each) for each in words(9, n)), grid=(4,), **blocks),
        _case("rand_2d/9", "rand", uniforms_2d, (result("fp32", 16, 32),), (9,),
              lambda: uniform(words(9, n)[0]).reshape(16, 32), BM=16, BN=32),
        _case("randint_far/5", "randint", far_offsets, (result("int32", 64),), (5,),
              lambda: words(5, 64, high=5)[0].astype(np.uint32).view(np.int32), BLOCK=64),
    ]  # fmt: skip
    return found
