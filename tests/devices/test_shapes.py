"""Shape ops, gathers, histograms and maps move and count exactly, whatever the rank."""

import itertools
import random

import numpy as np
import pytest

from kernelsmith.devices.cpu.ttir_merge import merged
from kernelsmith.devices.cpu.ttir_parse import parse
from tests.devices.collective_texts import Place, Shape, kernel, results, simple, tensor
from tests.devices.regions import MOVES, region
from tests.devices.shapes import program
from tests.devices.test_scan import values
from tests.devices.ttir_texts import canonical, same_bits


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_of_shape_ops_do_what_numpy_does(seed: int) -> None:
    rng = random.Random(seed)
    text, inputs, outs, wants = program(rng, rng.randint(4, 14))
    got = results(text, inputs, outs)
    for (name, elem, _), one, want in zip(outs, got, wants, strict=True):
        if elem in ("f32", "f64"):
            one, want = canonical(elem, one), canonical(elem, want)
        same_bits(one, want.reshape(one.shape), name)


def test_every_permutation_of_four_dimensions() -> None:
    shape: Shape = (2, 4, 1, 8)
    x = values("i32", shape)
    body, outs, wants = [], [], []
    for at, order in enumerate(itertools.permutations(range(4))):
        want = x.transpose(order)
        kinds = f"{tensor('i32', shape)} -> {tensor('i32', want.shape)}"
        text = ", ".join(map(str, order))
        body.append(f"%t{at} = tt.trans %x0 {{order = array<i32: {text}>}} : {kinds}")
        outs.append((f"%t{at}", "i32", want.shape))
        wants.append(np.ascontiguousarray(want))
    for (name, *_), got, want in zip(
        outs, results(kernel([("i32", shape)], body, outs), [x], outs), wants, strict=True
    ):
        same_bits(got, want, name)


@pytest.mark.parametrize("elem", ["i8", "i32", "i64"])
def test_a_gather_counts_any_index_modulo_the_axis(elem: str) -> None:
    source, index = values("bf16", (8, 4)), values(elem, (32, 4), 1)
    body = [
        f"%y = tt.gather %x0[%x1] {{axis = 0 : i32, efficient_layout}} : "
        f"(tensor<8x4xbf16>, tensor<32x4x{elem}>) -> tensor<32x4xbf16>"
    ]
    outs: list[Place] = [("%y", "bf16", (32, 4))]
    text = kernel([("bf16", (8, 4)), (elem, (32, 4))], body, outs)
    want = np.take_along_axis(source, index.astype(np.int64) % 8, 0)
    same_bits(results(text, [source, index], outs)[0], want, "gather")


@pytest.mark.parametrize(
    ("elem", "size", "bins"), [("i32", 256, 16), ("i8", 4, 128), ("i64", 64, 1)]
)
def test_a_histogram_counts_what_is_inside_and_not_masked(elem: str, size: int, bins: int) -> None:
    x = values(elem, (size,))
    x[::2] %= min(2 * bins, np.iinfo(x.dtype).max)
    mask = values("i8", (size,), 1)
    body = [
        f"%z = arith.constant dense<0> : tensor<{size}xi8>",
        f"%m = arith.cmpi sgt, %x1, %z : tensor<{size}xi8>",
        f"%y = tt.histogram %x0, %m : tensor<{size}x{elem}> -> tensor<{bins}xi32>",
        f"%w = tt.histogram %x0 : tensor<{size}x{elem}> -> tensor<{bins}xi64>",
    ]
    outs: list[Place] = [("%y", "i32", (bins,)), ("%w", "i64", (bins,))]
    got = results(kernel([(elem, (size,)), ("i8", (size,))], body, outs), [x, mask], outs)
    for one, kept in zip(got, (x[mask > 0], x), strict=True):
        inside = kept[(kept >= 0) & (kept < bins)]
        same_bits(one, np.bincount(inside, minlength=bins).astype(one.dtype), "histogram")


@pytest.mark.parametrize(("seed", "pack", "shape"), [
    (0, 1, (4, 8)), (1, 1, (64,)), (2, 2, (64,)), (3, 4, (2, 8)), (4, 2, (8, 1)), (5, 1, (1,)),
    (6, 2, (2, 2, 4)), (7, 1, (2, 32)), (8, 4, (4,)), (9, 1, (16, 1)),
])  # fmt: skip
def test_a_map_calls_its_function_with_consecutive_elements(
    seed: int, pack: int, shape: Shape
) -> None:
    rng = random.Random(seed)
    elems = [rng.choice(("i32", "f32", "bf16", "i8")) for _ in range(2)]
    # A region of two groups of ``pack`` elements of each type; it returns one group.
    given = [elem for elem in elems for _ in range(pack)]
    function = region(rng, given, MOVES)
    arrays = [values(e, shape, seed + i) for i, e in enumerate([*elems, *elems])]
    kinds = ", ".join(tensor(e, shape) for e in [*elems, *elems])
    outs: list[Place] = [(f"%y#{i}", elem, shape) for i, elem in enumerate(elems)]
    result = ", ".join(tensor(e, shape) for e in elems)
    operands = [f"%x{i}" for i in range(4)]
    types = f"({kinds}) -> ({result})"
    body = function.text("tt.map_elementwise", operands, f"pack = {pack} : i32", types)
    body[0] = body[0].replace(f"%y:{2 * pack}", "%y:2")
    text = kernel([(e, shape) for e in [*elems, *elems]], body, outs, function.functions)
    groups = [a.reshape(-1, pack)[:, part] for a in arrays for part in range(pack)]
    found = function.apply(groups)
    for i, (elem, got) in enumerate(zip(elems, results(text, arrays, outs), strict=True)):
        want = np.stack(found[i * pack : (i + 1) * pack], -1).reshape(shape)
        if elem == "f32":
            got, want = canonical("f32", got), canonical("f32", want)
        same_bits(got, want, f"map {elem} pack {pack}")


@pytest.mark.parametrize(
    ("axis", "want"), [(0, (2, 64)), (3, (8, 2, 8)), (6, (64, 2)), (5, (32, 2, 2))]
)
def test_a_cube_is_merged_around_the_dimension_that_a_step_reduces(axis: int, want: Shape) -> None:
    cube: Shape = (2,) * 7
    rest, thin = cube[:-1], (*cube[:axis], 1, *cube[axis + 1 :])
    body = [
        f"%c = tt.reshape %x0 : tensor<128xi32> -> {tensor('i32', cube)}",
        *simple("xor", "i32").text(
            "tt.reduce",
            ["%c"],
            f"axis = {axis} : i32",
            f"({tensor('i32', cube)}) -> {tensor('i32', rest)}",
        ),
        f"%e = tt.expand_dims %y {{axis = {axis} : i32}} : {tensor('i32', rest)} -> "
        f"{tensor('i32', thin)}",
        f"%b = tt.broadcast %e : {tensor('i32', thin)} -> {tensor('i32', cube)}",
        f"%o = arith.xori %b, %c : {tensor('i32', cube)}",
        f"%r = tt.reshape %o : {tensor('i32', cube)} -> tensor<128xi32>",
    ]
    outs: list[Place] = [("%r", "i32", (128,))]
    text = kernel([("i32", (128,))], body, outs)
    ops = merged(parse(text)).kernel.blocks[0].ops
    assert [op.operands[0].ty.shape for op in ops if op.name == "tt.reduce"] == [want]
    x = values("i32", (128,))
    swapped = np.flip(x.reshape(cube), axis).reshape(128)
    same_bits(results(text, [x], outs)[0], np.ascontiguousarray(swapped), "neighbours")
