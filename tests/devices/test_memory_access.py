"""Loads and stores touch what they should: masks, order of memory operations, aliasing."""

import ctypes
import mmap

import numpy as np
import pytest

from tests.devices.ttir_texts import Array, function, levels, run

PAGE = mmap.PAGESIZE
PROT_NONE = 0


def before_a_wall(nbytes: int, dtype: str) -> tuple[mmap.mmap, Array]:
    """An array whose last byte is the last one that may be touched."""
    size = -(-nbytes // PAGE) * PAGE
    memory = mmap.mmap(-1, size + PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    wall = libc.mprotect(ctypes.c_void_p(base + size), ctypes.c_size_t(PAGE), PROT_NONE)
    assert wall == 0
    return memory, np.frombuffer(memory, np.uint8)[size - nbytes : size].view(dtype)


def copy_text(elem: str, block: int) -> str:
    """o[i] = x[i] for i < n, one block."""
    ptr = f"!tt.ptr<{elem}>"
    t = f"tensor<{block}x"
    return function(
        "copy",
        [f"%x: {ptr}", f"%o: {ptr}", "%n: i32"],
        [
            f"%i = tt.make_range {{end = {block} : i32, start = 0 : i32}} : {t}i32>",
            f"%ns = tt.splat %n : i32 -> {t}i32>",
            f"%m = arith.cmpi slt, %i, %ns : {t}i32>",
            f"%xs = tt.splat %x : {ptr} -> {t}{ptr}>",
            f"%xp = tt.addptr %xs, %i : {t}{ptr}>, {t}i32>",
            f"%v = tt.load %xp, %m : {t}{ptr}>",
            f"%os = tt.splat %o : {ptr} -> {t}{ptr}>",
            f"%op = tt.addptr %os, %i : {t}{ptr}>, {t}i32>",
            f"tt.store %op, %v, %m : {t}{ptr}>",
            "tt.return",
        ],
    )


@pytest.mark.parametrize(("elem", "dtype"), [("bf16", "u2"), ("f32", "f4"), ("i8", "i1"),
                                             ("f64", "f8")])  # fmt: skip
def test_masked_off_lanes_touch_no_memory(elem: str, dtype: str) -> None:
    item = np.dtype(dtype).itemsize
    for n in (1, 15, 16, 37):
        source, x = before_a_wall(n * item, dtype)
        target, o = before_a_wall(n * item, dtype)
        x[:] = np.arange(1, n + 1)
        for cpu in levels():
            o[:] = 0
            run(copy_text(elem, 64), x, o, n, cpu=cpu)
            assert (o == x).all()
        assert source is not target


SHIFT = function(
    "shift",
    ["%x: !tt.ptr<f32>"],
    [
        "%i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>",
        "%one = arith.constant dense<1> : tensor<64xi32>",
        "%xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>",
        "%p = tt.addptr %xs, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>",
        "%v = tt.load %p : tensor<64x!tt.ptr<f32>>",
        "%q = tt.addptr %p, %one : tensor<64x!tt.ptr<f32>>, tensor<64xi32>",
        "tt.store %q, %v : tensor<64x!tt.ptr<f32>>",
        "%w = tt.load %p : tensor<64x!tt.ptr<f32>>",
        "%d = arith.addf %v, %w : tensor<64xf32>",
        "tt.store %p, %d : tensor<64x!tt.ptr<f32>>",
        "tt.return",
    ],
)


def test_a_load_sees_memory_as_it_was_at_its_place() -> None:
    for cpu in levels():
        x = np.arange(1, 81, dtype=np.float32)
        want = x.copy()
        first = want[:64].copy()
        want[1:65] = first
        want[:64] = first + want[:64].copy()
        run(SHIFT, x, cpu=cpu)
        assert (x == want).all()


def tile(size: int) -> list[str]:
    """%p and %q: pointers to x and y, ``size`` elements each."""
    t = f"tensor<{size}x!tt.ptr<f32>>"
    lines = [f"%i = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>"]
    for base, pointer in (("%x", "%p"), ("%y", "%q")):
        lines.append(f"{pointer}s = tt.splat {base} : !tt.ptr<f32> -> {t}")
        lines.append(f"{pointer} = tt.addptr {pointer}s, %i : {t}, tensor<{size}xi32>")
    return lines


@pytest.mark.parametrize("shift", [-17, -1, 0, 1, 16, 63, 64, 300])
def test_a_copy_between_overlapping_tensors_reads_before_it_writes(shift: int) -> None:
    size = 256
    t = f"tensor<{size}x!tt.ptr<f32>>"
    body = [*tile(size), f"%v = tt.load %p : {t}", f"tt.store %q, %v : {t}", "tt.return"]
    text = function("k", ["%x: !tt.ptr<f32>", "%y: !tt.ptr<f32>"], body)
    for cpu in levels():
        memory = np.arange(1000, dtype=np.float32)
        want = memory.copy()
        want[100 + shift : 100 + shift + size] = memory[100 : 100 + size]
        run(text, memory[100:], memory[100 + shift :], cpu=cpu)
        assert (memory == want).all()


def test_two_tensors_can_be_swapped() -> None:
    t = "tensor<64x!tt.ptr<f32>>"
    body = [
        *tile(64),
        f"%a = tt.load %p : {t}",
        f"%b = tt.load %q : {t}",
        f"tt.store %p, %b : {t}",
        f"tt.store %q, %a : {t}",
        "tt.return",
    ]
    text = function("k", ["%x: !tt.ptr<f32>", "%y: !tt.ptr<f32>"], body)
    for cpu in levels():
        x, y = np.arange(64, dtype=np.float32), -np.ones(64, np.float32)
        run(text, x, y, cpu=cpu)
        assert (x == -1).all()
        assert (y == np.arange(64)).all()


SCATTER = function(
    "scatter",
    ["%x: !tt.ptr<f32>", "%at: !tt.ptr<i32>", "%o: !tt.ptr<f32>", "%n: i32"],
    [
        "%i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>",
        "%as = tt.splat %at : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>",
        "%ap = tt.addptr %as, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>",
        "%ns = tt.splat %n : i32 -> tensor<64xi32>",
        "%m = arith.cmpi slt, %i, %ns : tensor<64xi32>",
        "%big = arith.constant dense<1000000000> : tensor<64xi32>",
        "%j = tt.load %ap, %m, %big : tensor<64x!tt.ptr<i32>>",
        "%xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>",
        "%xp = tt.addptr %xs, %j : tensor<64x!tt.ptr<f32>>, tensor<64xi32>",
        "%other = arith.constant dense<5.000000e-01> : tensor<64xf32>",
        "%v = tt.load %xp, %m, %other : tensor<64x!tt.ptr<f32>>",
        "%os = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>",
        "%op = tt.addptr %os, %j : tensor<64x!tt.ptr<f32>>, tensor<64xi32>",
        "tt.store %op, %v, %m : tensor<64x!tt.ptr<f32>>",
        "tt.return",
    ],
)


def test_gathers_and_scatters_by_an_index_tensor() -> None:
    rng = np.random.default_rng(0)
    at = rng.permutation(64).astype(np.int32)
    x = rng.standard_normal(64).astype(np.float32)
    for cpu in levels():
        o = np.zeros(64, np.float32)
        run(SCATTER, x, at, o, 50, cpu=cpu)
        want = np.zeros(64, np.float32)
        want[at[:50]] = x[at[:50]]
        assert (o == want).all()
