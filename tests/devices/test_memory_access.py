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


def broadcast_text(rows: bool, use: str, width: int) -> str:
    """o[32, width] = sum over k < 37 of a vector of x under a mask, repeated along the other axis.

    ``rows``: the vector is x[:n, k], repeated along columns; else x[k, :n] along rows. ``use``:
    ``add``; ``fma``, by 2; or ``dot``, whose 16 terms a k repeat the vector, by 1."""
    size, axis, thin = (32, 1, "32x1x") if rows else (width, 0, f"1x{width}x")
    acc, ptr = f"tensor<32x{width}xf32>", "!tt.ptr<f32>"
    vector, lanes, ints = (f"tensor<{size}x{elem}>" for elem in ("f32", ptr, "i32"))
    left, right = "32x16x", f"16x{width}x"
    repeated, other = (left, right) if rows else (right, left)
    operands = "%b, %ones" if rows else "%ones, %b"
    using = {
        "add": f"%new = arith.addf %acc, %b : {acc}",
        "fma": f"%new = math.fma %b, %two, %acc : {acc}",
        "dot": f"%new = tt.dot {operands}, %acc, inputPrecision = ieee : "
        f"tensor<{left}f32> * tensor<{right}f32> -> {acc}",
    }
    spread = repeated if use == "dot" else f"32x{width}x"
    loop = f"iter_args(%acc = %zero) -> ({acc})  : i32 {{"
    grid = f"tensor<32x{width}xi32>"
    return function(
        "k",
        [f"%x: {ptr}", f"%o: {ptr}", "%n: i32", "%by: i32"],
        [
            f"%zero = arith.constant dense<0.000000e+00> : {acc}",
            f"%two = arith.constant dense<2.000000e+00> : {acc}",
            f"%ones = arith.constant dense<1.000000e+00> : tensor<{other}f32>",
            "%c0 = arith.constant 0 : i32",
            "%c1 = arith.constant 1 : i32",
            "%c37 = arith.constant 37 : i32",
            f"%pitch = arith.constant dense<{37 if rows else 1}> : {ints}",
            f"%i = tt.make_range {{end = {size} : i32, start = 0 : i32}} : {ints}",
            f"%ip = arith.muli %i, %pitch : {ints}",
            f"%ns = tt.splat %n : i32 -> {ints}",
            f"%m = arith.cmpi slt, %i, %ns : {ints}",
            f"%xs = tt.splat %x : {ptr} -> {lanes}",
            f"%xp = tt.addptr %xs, %ip : {lanes}, {ints}",
            f"%sum = scf.for %k = %c0 to %c37 step %c1 {loop}",
            "%kb = arith.muli %k, %by : i32",
            f"%kv = tt.splat %kb : i32 -> {ints}",
            f"%p = tt.addptr %xp, %kv : {lanes}, {ints}",
            f"%v = tt.load %p, %m : {lanes}",
            f"%e = tt.expand_dims %v {{axis = {axis} : i32}} : {vector} -> tensor<{thin}f32>",
            f"%b = tt.broadcast %e : tensor<{thin}f32> -> tensor<{spread}f32>",
            using[use],
            f"scf.yield %new : {acc}",
            "}",
            f"%j = tt.make_range {{end = {32 * width} : i32, start = 0 : i32}} : "
            f"tensor<{32 * width}xi32>",
            f"%at = tt.reshape %j : tensor<{32 * width}xi32> -> {grid}",
            f"%os = tt.splat %o : {ptr} -> tensor<32x{width}x{ptr}>",
            f"%op = tt.addptr %os, %at : tensor<32x{width}x{ptr}>, {grid}",
            f"tt.store %op, %sum : tensor<32x{width}x{ptr}>",
            "tt.return",
        ],
    )


@pytest.mark.parametrize("use", ["add", "fma", "dot"])
@pytest.mark.parametrize(("rows", "width"), [(True, 32), (False, 32), (False, 16)])
def test_a_masked_load_that_is_placed_outside_of_the_inner_loop_keeps_its_mask(
    rows: bool, width: int, use: str
) -> None:
    text = broadcast_text(rows, use, width)
    size = 32 if rows else width
    for n in (0, 1, 5, size - 1, size):
        _memory, flat = before_a_wall(37 * n * 4, "f4")
        flat[:] = np.arange(1, flat.size + 1) % 13
        sums = flat.reshape(n, 37).sum(1) if rows else flat.reshape(37, n).sum(0)
        want = np.zeros((size, 1), np.float32)
        want[:n, 0] = sums * {"add": 1, "fma": 2, "dot": 16}[use]
        for cpu in levels():
            out = np.zeros((32, width), np.float32)
            run(text, flat, out, n, 1 if rows else n, cpu=cpu)
            assert (out == (want if rows else want.T)).all()


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


@pytest.mark.parametrize("n", [0, 1])
def test_one_address_under_one_mask_still_gives_each_lane_its_own_other(n: int) -> None:
    """Beside a load whose mask is known lane by lane only, so that nothing tells them apart."""
    ptr, t = "!tt.ptr<f32>", "tensor<64x"
    body = [
        f"%i = tt.make_range {{end = 64 : i32, start = 0 : i32}} : {t}i32>",
        "%zero = arith.constant 0 : i32",
        "%on = arith.cmpi sgt, %n, %zero : i32",
        f"%ons = tt.splat %on : i1 -> {t}i1>",
        f"%other = arith.sitofp %i : {t}i32> to {t}f32>",
        f"%xs = tt.splat %x : {ptr} -> {t}{ptr}>",
        f"%one = tt.load %xs, %ons, %other : {t}{ptr}>",
        f"%xp = tt.addptr %xs, %i : {t}{ptr}>, {t}i32>",
        f"%v = tt.load %xp : {t}{ptr}>",
        f"%nil = arith.constant dense<0.0> : {t}f32>",
        f"%m = arith.cmpf ogt, %v, %nil : {t}f32>",
        f"%w = tt.load %xp, %m, %nil : {t}{ptr}>",
        f"%r = arith.addf %one, %w : {t}f32>",
        f"%os = tt.splat %o : {ptr} -> {t}{ptr}>",
        f"%op = tt.addptr %os, %i : {t}{ptr}>, {t}i32>",
        f"tt.store %op, %r : {t}{ptr}>",
        "tt.return",
    ]
    x = np.arange(-20, 44).astype(np.float32)
    for cpu in levels():
        o = np.zeros(64, np.float32)
        run(function("k", [f"%x: {ptr}", f"%o: {ptr}", "%n: i32"], body), x, o, n, cpu=cpu)
        one = np.full(64, x[0]) if n else np.arange(64)
        assert (o == one + np.maximum(x, 0)).all()
