"""Sorting, the largest k, and histograms."""

import numpy as np

from tests.conformance.case import Case
from tests.conformance.tiles import one, tile, to
from tests.conformance.values import Array

SHAPES = ((64,), (8, 32), (16, 2), (256,))


def _sort(dtype: str, shape: tuple[int, ...], descending: bool) -> Case:
    def oracle(a: Array) -> Array:
        up = np.sort(a, axis=-1)
        return up[..., ::-1] if descending else up

    return tile(
        "sorting", "sort", f"tl.sort(a, descending={descending})", oracle,
        one(dtype, shape, "ordinary" if dtype != "int32" else ("below", 40)),
        out=to(dtype, *shape), name="sort_down" if descending else "sort",
    )  # fmt: skip


def _top(dtype: str, shape: tuple[int, ...], k: int) -> Case:
    return tile(
        "sorting", "topk", f"tl.topk(a, {k})",
        lambda a: np.sort(a, axis=-1)[..., ::-1][..., :k],
        one(dtype, shape), out=to(dtype, *shape[:-1], k), name=f"top{k}",
    )  # fmt: skip


def _merge() -> Case:
    """Two runs, one up and one down, become one ascending run."""
    body = "s = tl.join(tl.sort(a), tl.sort(b, descending=True))\n" \
        "y = tl.bitonic_merge(tl.reshape(tl.trans(s), (64,)))"  # fmt: skip
    return tile("sorting", "bitonic_merge", body, lambda a, b: np.sort(np.concatenate([a, b])),
                one("fp32", (32,)), one("fp32", (32,)), out=to("fp32", 64))  # fmt: skip


def _histogram(dtype: str, size: int, bins: int, masked: bool = False) -> Case:
    mask = ", mask=a % 3 != 0" if masked else ""

    def oracle(a: Array) -> Array:
        kept = a[a % 3 != 0] if masked else a
        return np.bincount(kept.astype(np.int64), minlength=bins).astype(np.int32)

    return tile(
        "sorting", "histogram", f"tl.histogram(a, {bins}{mask})", oracle,
        one(dtype, (size,), ("below", bins)), out=to("int32", bins),
        name=f"histogram{bins}{'_masked' if masked else ''}",
        versions=("3.6.0", "3.7.1") if dtype == "int64" else (),
    )  # fmt: skip


def cases() -> list[Case]:
    found = []
    for index, dtype in enumerate(("fp32", "int32", "fp16", "int64", "bf16", "fp64", "uint8")):
        found += [
            _sort(dtype, shape, (index + k) % 2 == 1)
            for k, shape in enumerate(SHAPES[: 4 if index < 2 else 2])
        ]
    found += [_top("fp32", (64,), 8), _top("int32", (4, 32), 4), _top("fp16", (8, 16), 1)]
    found += [
        _histogram("int32", 256, 16), _histogram("int32", 1024, 128), _histogram("int32", 32, 2),
        _histogram("int64", 128, 32), _histogram("int32", 256, 64, masked=True),
    ]  # fmt: skip
    return [*found, _merge()]
