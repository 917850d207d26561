"""Atomic operations: what they leave in memory, what they return, and that threads do not mix."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.devices.ttir_texts import (
    STORAGE,
    Array,
    bf16_bits,
    bf16_float,
    compiled,
    function,
    levels,
    pack,
    run,
    same_bits,
)

SIZE = 64
Step = Callable[[int, int], int]


def rmw_text(kind: str, elem: str, sem: str = "acq_rel") -> str:
    """old[i] = atomic kind of y[index[i]] with x[i], where on[i]."""
    t = f"tensor<{SIZE}x"
    lines = [f"%i = tt.make_range {{end = {SIZE} : i32, start = 0 : i32}} : {t}i32>"]
    for name, kind_ in (("x", elem), ("at", "i32"), ("on", "i8"), ("old", elem)):
        ptr = f"!tt.ptr<{kind_}>"
        lines += [
            f"%{name}s = tt.splat %{name} : {ptr} -> {t}{ptr}>",
            f"%{name}p = tt.addptr %{name}s, %i : {t}{ptr}>, {t}i32>",
        ]
    ptr = f"!tt.ptr<{elem}>"
    many = f"({t}{ptr}>, {t}{elem}>, {t}i1>) -> {t}{elem}>"
    lines += [
        f"%v = tt.load %xp : {t}{ptr}>",
        f"%j = tt.load %atp : {t}!tt.ptr<i32>>",
        f"%w = tt.load %onp : {t}!tt.ptr<i8>>",
        f"%zero = arith.constant dense<0> : {t}i8>",
        f"%m = arith.cmpi ne, %w, %zero : {t}i8>",
        f"%ys = tt.splat %y : {ptr} -> {t}{ptr}>",
        f"%p = tt.addptr %ys, %j : {t}{ptr}>, {t}i32>",
        f"%r = tt.atomic_rmw {kind}, {sem}, gpu, %p, %v, %m : {many}",
        f"tt.store %oldp, %r : {t}{ptr}>",
        "tt.return",
    ]
    args = [f"%x: {ptr}", "%at: !tt.ptr<i32>", "%on: !tt.ptr<i8>", f"%y: {ptr}", f"%old: {ptr}"]
    return function("k", args, lines)


def wrapped(elem: str, value: int) -> int:
    bits = int(elem[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(elem: str, value: int) -> int:
    return value & ((1 << int(elem[1:])) - 1)


def integer_steps(elem: str) -> dict[str, Step]:
    return {
        "add": lambda a, b: wrapped(elem, a + b),
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "exch": lambda a, b: b,
        "max": max,
        "min": min,
        "umax": lambda a, b: a if unsigned(elem, a) >= unsigned(elem, b) else b,
        "umin": lambda a, b: a if unsigned(elem, a) <= unsigned(elem, b) else b,
    }


def inputs(seed: int) -> tuple[Array, Array]:
    """Indices with repetitions, and a mask."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 8, SIZE).astype(np.int32), (rng.random(SIZE) < 0.8).astype(np.int8)


@pytest.mark.parametrize("elem", ["i32", "i64"])
def test_integer_updates_run_in_row_major_order_and_return_what_was_there(elem: str) -> None:
    info = np.iinfo(STORAGE[elem])
    rng = np.random.default_rng(2)
    x = rng.integers(info.min, info.max, SIZE, dtype=STORAGE[elem], endpoint=True)
    start = rng.integers(info.min, info.max, 8, dtype=STORAGE[elem], endpoint=True)
    at, on = inputs(5)
    for kind, step in integer_steps(elem).items():
        want, returned = [int(v) for v in start], [0] * SIZE
        for i in range(SIZE):
            if on[i]:
                returned[i] = want[at[i]]
                want[at[i]] = step(want[at[i]], int(x[i]))
        for cpu in levels():
            y, old = start.copy(), np.full(SIZE, 7, STORAGE[elem])
            run(rmw_text(kind, elem), x, at, on, y, old, cpu=cpu)
            assert y.tolist() == want, (kind, cpu)
            assert old.tolist() == returned, (kind, cpu)


def to_storage(elem: str, values: Array) -> Array:
    return bf16_bits(values) if elem == "bf16" else values.astype(STORAGE[elem])


def from_storage(elem: str, values: Array) -> Array:
    wide = bf16_float(values) if elem == "bf16" else values
    return wide.astype(np.float64 if elem == "f64" else np.float32)


@pytest.mark.parametrize("elem", ["f16", "bf16", "f32", "f64"])
def test_float_additions_round_once_each_in_row_major_order(elem: str) -> None:
    rng = np.random.default_rng(4)
    x = to_storage(elem, rng.standard_normal(SIZE).astype(np.float32) * np.float32(100))
    x[5] = to_storage(elem, np.array([np.inf], np.float32))[0]
    x[6] = to_storage(elem, np.array([-np.inf], np.float32))[0]
    at, on = inputs(6)
    at[5] = at[6] = 0
    on[5] = on[6] = 1
    start = to_storage(elem, np.arange(8, dtype=np.float32) / 3)
    want, returned = start.copy(), np.zeros(SIZE, STORAGE[elem])
    with np.errstate(all="ignore"):
        for i in range(SIZE):
            if on[i]:
                returned[i] = want[at[i]]
                pair = (from_storage(elem, v[k : k + 1]) for v, k in ((want, at[i]), (x, i)))
                total = next(pair) + next(pair)
                want[at[i] : at[i] + 1] = canonical_nan(elem, to_storage(elem, total))
    for cpu in levels():
        y, old = start.copy(), np.ones(SIZE, STORAGE[elem])
        run(rmw_text("fadd", elem), x, at, on, y, old, cpu=cpu)
        same_bits(y, want, f"{elem} {cpu}")
        same_bits(old, returned, f"{elem} {cpu}")


def canonical_nan(elem: str, value: Array) -> Array:
    nan = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}[elem]
    if np.isnan(from_storage(elem, value)).any():
        value.view(f"u{value.itemsize}")[:] = nan
    return value


@pytest.mark.parametrize("elem", ["i16", "i32", "i64", "f32", "bf16"])
def test_compare_and_swap_compares_bits(elem: str) -> None:
    t, ptr = "tensor<4x", f"!tt.ptr<{elem}>"
    lines = [f"%i = tt.make_range {{end = 4 : i32, start = 0 : i32}} : {t}i32>"]
    for name in ("c", "v", "y", "o"):
        lines += [
            f"%{name}s = tt.splat %{name} : {ptr} -> {t}{ptr}>",
            f"%{name}p = tt.addptr %{name}s, %i : {t}{ptr}>, {t}i32>",
        ]
    lines += [
        f"%cv = tt.load %cp : {t}{ptr}>",
        f"%vv = tt.load %vp : {t}{ptr}>",
        f"%r = tt.atomic_cas acq_rel, gpu, %yp, %cv, %vv : ({t}{ptr}>, {t}{elem}>, {t}{elem}>) "
        f"-> {t}{elem}>",
        f"tt.store %op, %r : {t}{ptr}>",
        "tt.return",
    ]
    text = function("k", [f"%{name}: {ptr}" for name in "cvyo"], lines)
    dtype = STORAGE[elem]
    zero = -0.0 if elem == "f32" else 0x8000 if elem == "bf16" else 1
    compare, new = np.array([0, 1, 2, 0], dtype), np.array([5, 6, 7, 8], dtype)
    for cpu in levels():
        y, old = np.array([0, 1, 3, zero], dtype), np.zeros(4, dtype)
        before = y.copy()
        run(text, compare, new, y, old, cpu=cpu)
        same_bits(old, before, elem)
        same_bits(y, np.array([5, 6, 3, zero], dtype), elem)


SCALAR = function(
    "k",
    ["%n: !tt.ptr<i32>", "%f: !tt.ptr<f32>", "%seen: !tt.ptr<i32>"],
    [
        "%pid = tt.get_program_id x : i32",
        "%true = arith.constant true",
        "%one = arith.constant 1 : i32",
        "%half = arith.constant 5.000000e-01 : f32",
        "%m = arith.cmpi ne, %pid, %one : i32",
        "%old = tt.atomic_rmw add, relaxed, sys, %n, %one, %true : (!tt.ptr<i32>, i32, i1) -> i32",
        "%g = tt.atomic_rmw fadd, release, cta, %f, %half, %m : (!tt.ptr<f32>, f32, i1) -> f32",
        "%p = tt.addptr %seen, %old : !tt.ptr<i32>, i32",
        "tt.store %p, %one : !tt.ptr<i32>",
        "tt.return",
    ],
)


@pytest.mark.parametrize("order", ["ascending", "shuffled:3", "threads:4"])
def test_programs_on_many_threads_lose_no_update(order: str) -> None:
    programs = 20_000
    kernel = compiled(SCALAR, levels()[-1])
    for _ in range(3):
        count, total = np.zeros(1, np.int32), np.zeros(1, np.float32)
        seen = np.zeros(programs, np.int32)
        args = pack(kernel.info.params, (count, total, seen))
        kernel.run(args, (programs, 1, 1), order=order)
        assert count[0] == programs
        assert total[0] == (programs - 1) / 2  # exact: multiples of a half below 2^24
        assert seen.all()  # every program got a number of its own


def test_an_unused_result_and_a_masked_off_scalar_touch_no_memory() -> None:
    text = function(
        "k",
        ["%p: !tt.ptr<f32>", "%on: i1"],
        [
            "%one = arith.constant 1.000000e+00 : f32",
            "%r = tt.atomic_rmw fadd, relaxed, gpu, %p, %one, %on : (!tt.ptr<f32>, f32, i1) -> f32",
            "tt.return",
        ],
    )
    cell = np.zeros(1, np.float32)
    run(text, cell, 1)
    assert cell[0] == 1
    kernel = compiled(text, "host")
    kernel.run(b"\0" * 16, (1, 1, 1))  # a null pointer under a false mask


def new_ops(sem: str) -> str:
    """Triton 3.9's atomic load, store and poll."""
    t = "tensor<4x!tt.ptr<i32>>"
    types = "(tensor<4x!tt.ptr<i32>>, tensor<4xi1>) -> tensor<4xi32>"
    return function(
        "k",
        ["%x: !tt.ptr<i32>", "%y: !tt.ptr<i32>", "%flag: !tt.ptr<i32>"],
        [
            "%i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>",
            f"%xs = tt.splat %x : !tt.ptr<i32> -> {t}",
            f"%xp = tt.addptr %xs, %i : {t}, tensor<4xi32>",
            f"%ys = tt.splat %y : !tt.ptr<i32> -> {t}",
            f"%yp = tt.addptr %ys, %i : {t}, tensor<4xi32>",
            "%two = arith.constant dense<2> : tensor<4xi32>",
            "%m = arith.cmpi ne, %i, %two : tensor<4xi32>",
            f"%v = tt.atomic_load {sem}, gpu, %xp, %m : {types}",
            f"tt.atomic_store relaxed, gpu, %yp, %v, %m : {t}, tensor<4xi32>, tensor<4xi1>",
            "%one = arith.constant 1 : i32",
            "%done = tt.atomic_poll acquire, sys, %flag, %one : !tt.ptr<i32>, i32 -> i1",
            "%w = arith.extui %done : i1 to i32",
            "tt.store %flag, %w : !tt.ptr<i32>",
            "tt.return",
        ],
    )


@pytest.mark.parametrize("sem", ["relaxed", "acquire"])
def test_atomic_loads_and_stores_keep_their_masks(sem: str) -> None:
    x, y = np.array([3, 4, 5, 6], np.int32), np.full(4, -1, np.int32)
    flag = np.ones(1, np.int32)
    run(new_ops(sem), x, y, flag)
    assert y.tolist() == [3, 4, -1, 6]
    assert flag[0] == 1


def test_an_atomic_is_seen_by_later_loads_and_not_by_earlier_ones() -> None:
    t = "tensor<64x!tt.ptr<f32>>"
    many = f"({t}, tensor<64xf32>, tensor<64xi1>) -> tensor<64xf32>"
    text = function(
        "k",
        ["%x: !tt.ptr<f32>", "%o: !tt.ptr<f32>"],
        [
            "%i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>",
            "%zero = arith.constant dense<0> : tensor<64xi32>",
            "%on = arith.constant dense<true> : tensor<64xi1>",
            f"%xs = tt.splat %x : !tt.ptr<f32> -> {t}",
            f"%xp = tt.addptr %xs, %i : {t}, tensor<64xi32>",
            f"%first = tt.addptr %xs, %zero : {t}, tensor<64xi32>",
            f"%before = tt.load %xp : {t}",
            f"%r = tt.atomic_rmw fadd, relaxed, gpu, %first, %before, %on : {many}",
            f"%after = tt.load %xp : {t}",
            "%d = arith.subf %after, %before : tensor<64xf32>",
            f"%os = tt.splat %o : !tt.ptr<f32> -> {t}",
            f"%op = tt.addptr %os, %i : {t}, tensor<64xi32>",
            f"tt.store %op, %d : {t}",
            "tt.return",
        ],
    )
    x, out = np.arange(64, dtype=np.float32), np.ones(64, np.float32)
    run(text, x, out)
    assert out.tolist() == [2016.0] + [0.0] * 63


def test_a_poll_with_a_time_limit_is_refused_by_line() -> None:
    from kernelsmith.devices.cpu.compile import compile_ttir
    from kernelsmith.errors import CompileError

    text = function(
        "k",
        ["%p: !tt.ptr<i32>", "%n: i64"],
        [
            "%one = arith.constant 1 : i32",
            "%r = tt.atomic_poll relaxed, gpu, %p, %one timeout %n : !tt.ptr<i32>, i32 -> i1 "
            'loc("kernel.py":7:1)',
            "tt.return",
        ],
    )
    with pytest.raises(CompileError, match="timeout") as caught:
        compile_ttir(text)
    assert caught.value.line == "kernel.py:7"


def test_float_max_and_min_by_integer_ops_order_all_bit_patterns() -> None:
    """What Triton emits for ``tl.atomic_max`` on float32: signed max where the sign bit is clear,
    unsigned min where it is set."""
    patterns: Any = np.array(
        [0x3F800000, 0xBF800000, 0x80000000, 0x00000001, 0xFF800000], np.uint32
    )
    x = np.zeros(SIZE, np.int32)
    x[:5] = patterns.view(np.int32)
    at = np.zeros(SIZE, np.int32)
    for first in (-0.0, 2.0, -3.0):
        y = np.array([first] * 8, np.float32)
        for kind, negative in (("max", False), ("umin", True)):
            on = ((x < 0) == negative).astype(np.int8)
            on[5:] = 0
            run(rmw_text(kind, "i32"), x, at, on, y.view(np.int32), np.zeros(SIZE, np.int32))
        assert y[0] == max(first, 1.0)


LOCKED = function(
    "k",
    ["%data: !tt.ptr<f32>", "%lock: !tt.ptr<i32>"],
    [
        "%true = arith.constant true",
        "%ones = arith.constant dense<1.000000e+00> : tensor<128xf32>",
        "%c1 = arith.constant 1 : i32",
        "%c0 = arith.constant 0 : i32",
        "%i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>",
        "%s = tt.splat %data : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>",
        "%p = tt.addptr %s, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>",
        "scf.while : () -> () {",
        "%was = tt.atomic_cas acquire, gpu, %lock, %c0, %c1 : (!tt.ptr<i32>, i32, i32) -> i32",
        "%taken = arith.cmpi eq, %was, %c1 : i32",
        "scf.condition(%taken)",
        "} do {",
        "scf.yield",
        "}",
        "%v = tt.load %p : tensor<128x!tt.ptr<f32>>",
        "%w = arith.addf %v, %ones : tensor<128xf32>",
        "tt.store %p, %w : tensor<128x!tt.ptr<f32>>",
        "%r = tt.atomic_rmw exch, release, gpu, %lock, %c0, %true : (!tt.ptr<i32>, i32, i1) -> i32",
        "tt.return",
    ],
)


def test_a_lock_keeps_the_threads_apart() -> None:
    kernel = compiled(LOCKED, levels()[-1])
    data, lock = np.zeros(128, np.float32), np.zeros(1, np.int32)
    kernel.run(pack(kernel.info.params, (data, lock)), (20_000, 1, 1), order="threads:2")
    assert (data == 20_000).all()
    assert lock[0] == 0
