"""Reductions with any region, in the documented order."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.devices.collective_texts import (
    Place,
    Region,
    Shape,
    fold,
    kernel,
    results,
    simple,
    tensor,
)
from tests.devices.regions import region
from tests.devices.test_scan import values
from tests.devices.ttir_texts import Array, canonical, levels, same_bits


def ascending(function: Region, parts: list[list[Array]]) -> list[Array]:
    return fold(function, parts)[-1]


def reduced(function: Region, arrays: list[Array], axis: int) -> list[Array]:
    """The documented order: along the last axis lane j mod 32 ascending, then halves; along any
    other axis ascending."""
    moved = [np.moveaxis(a, axis, 0) for a in arrays]
    size = len(moved[0])
    parts = [[m[i : i + 1] for m in moved] for i in range(size)]
    if axis == arrays[0].ndim - 1:
        width = min(size, 32)
        parts = [ascending(function, parts[lane::width]) for lane in range(width)]
        while len(parts) > 1:
            half = len(parts) // 2
            both = zip(parts[:half], parts[half:], strict=True)
            parts = [function.apply([*left, *right]) for left, right in both]
    return [a[0] for a in ascending(function, parts)]


def check(function: Region, arrays: list[Array], axis: int, *cpus: str) -> None:
    count, shape = len(arrays), arrays[0].shape
    rest = shape[:axis] + shape[axis + 1 :]
    elems = function.elems[:count]
    kinds = [", ".join(tensor(e, s) for e in elems) for s in (shape, rest)]
    operands = [f"%x{i}" for i in range(count)]
    types = f"({kinds[0]}) -> ({kinds[1]})" if count > 1 else f"({kinds[0]}) -> {kinds[1]}"
    body = function.text("tt.reduce", operands, f"axis = {axis} : i32", types)
    outs: list[Place] = [
        (f"%y#{i}" if count > 1 else "%y", elem, rest) for i, elem in enumerate(elems)
    ]
    text = kernel([(e, shape) for e in elems], body, outs, function.functions)
    want = reduced(function, arrays, axis)
    for elem, got, expected in zip(elems, results(text, arrays, outs, cpus), want, strict=True):
        expected = np.ascontiguousarray(expected).reshape(got.shape)
        if elem in ("f32", "f64"):
            expected = canonical(elem, expected)
        same_bits(got, expected, f"reduce {elem} {shape} axis {axis}")


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_a_reduction_with_any_region_has_the_documented_order(rng: random.Random) -> None:
    elems = [rng.choice(("i32", "f32", "bf16", "i8", "f64")) for _ in range(rng.choice((1, 2, 3)))]
    shape: Shape = tuple(rng.choice((1, 2, 4, 8, 64)) for _ in range(rng.choice((1, 2, 3))))
    axis, function = rng.randrange(len(shape)), region(rng, elems)
    check(function, [values(elem, shape, i) for i, elem in enumerate(elems)], axis, levels()[-1])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("name", "elem"), [("add", "bf16"), ("max", "f16"), ("xor", "i16")])
def test_a_reduction_is_the_same_on_every_level(name: str, elem: str, axis: int) -> None:
    check(simple(name, elem), [values(elem, (4, 2, 64))], axis)
