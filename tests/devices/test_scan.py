"""Scans are the left fold that they say, for every type, axis, direction and region."""

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
from tests.devices.ttir_texts import STORAGE, Array, canonical, floats, levels, same_bits


def values(elem: str, shape: Shape, seed: int = 0) -> Array:
    size = int(np.prod(shape))
    if elem in ("f16", "bf16", "f32", "f64"):
        return floats(elem, max(size, 17), seed)[-size:].reshape(shape)
    rng = np.random.default_rng(seed)
    info = np.iinfo(STORAGE[elem])
    return rng.integers(info.min, info.max, shape, STORAGE[elem], endpoint=True)


def scanned(region: Region, arrays: list[Array], axis: int, reverse: bool) -> list[Array]:
    """The definition."""
    moved = [np.moveaxis(a, axis, 0) for a in arrays]
    order = range(len(moved[0]))[:: -1 if reverse else 1]
    rows = fold(region, [[m[i : i + 1] for m in moved] for i in order])
    out = [np.concatenate([row[k] for row in rows]) for k in range(len(arrays))]
    return [np.moveaxis(o[:: -1 if reverse else 1], 0, axis) for o in out]


def check(region: Region, arrays: list[Array], axis: int, reverse: bool, *cpus: str) -> None:
    count = len(arrays)
    shape, elems = arrays[0].shape, region.elems[:count]
    kinds = ", ".join(tensor(e, shape) for e in elems)
    body = region.text(
        "tt.scan",
        [f"%x{i}" for i in range(count)],
        f"axis = {axis} : i32, reverse = {str(reverse).lower()}",
        f"({kinds}) -> ({kinds})" if count > 1 else f"({kinds}) -> {kinds}",
    )
    outs: list[Place] = [
        (f"%y#{i}" if count > 1 else "%y", elem, shape) for i, elem in enumerate(elems)
    ]
    text = kernel([(e, shape) for e in elems], body, outs, region.functions)
    want = scanned(region, arrays, axis, reverse)
    for elem, got, expected in zip(elems, results(text, arrays, outs, cpus), want, strict=True):
        if elem in ("f32", "f64"):
            expected = canonical(elem, np.ascontiguousarray(expected))
        same_bits(got, np.ascontiguousarray(expected), f"scan {elem} {shape} axis {axis}")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("elem", "name", "shape", "axis"),
    [
        ("f32", "add", (256,), 0), ("bf16", "add", (64,), 0), ("f16", "mul", (4, 16), 0),
        ("f64", "add", (8, 32), 1), ("i32", "add", (2, 4, 8), 1), ("i64", "mul", (4, 1, 32), 2),
        ("i8", "max", (32, 4), 0), ("i16", "xor", (1,), 0), ("f32", "max", (4, 8, 2), 2),
        ("i32", "min", (16, 1), 1), ("f32", "mul", (2, 2, 2, 2, 2), 3), ("i32", "add", (2,), 0),
    ],
)  # fmt: skip
def test_a_scan_folds_from_the_left(
    elem: str, name: str, shape: Shape, axis: int, reverse: bool
) -> None:
    check(simple(name, elem), [values(elem, shape)], axis, reverse)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_a_scan_with_any_region_is_the_fold_of_it(rng: random.Random) -> None:
    elems = [
        rng.choice(("i32", "f32", "i64", "bf16", "f16", "i8", "f64"))
        for _ in range(rng.choice((1, 2, 3)))
    ]
    shape: Shape = tuple(rng.choice((1, 2, 4, 8, 32)) for _ in range(rng.choice((1, 2, 3))))
    axis, reverse = rng.randrange(len(shape)), rng.random() < 0.5
    function = region(rng, elems)
    arrays = [values(elem, shape, i) for i, elem in enumerate(elems)]
    check(function, arrays, axis, reverse, levels()[-1])
