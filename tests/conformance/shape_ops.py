"""Shapes: moving elements changes no bit, so every case is exact and keeps NaN payloads."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.conformance.case import Case
from tests.conformance.tiles import one, tile, to
from tests.conformance.values import Array

Move = Callable[..., Any]


def moved(case_name: str, body: str, move: Move, shapes: Any, outs: Any, dtype: str,
          op: str = "", versions: tuple[str, ...] = ()) -> Case:  # fmt: skip
    """A case whose outputs are the operands' elements elsewhere, bit for bit."""
    return tile(
        "shape_ops", op or case_name, body, move,
        *(one(dtype, shape, "any") for shape in shapes),
        out=tuple(to(dtype, *shape) for shape in outs), name=case_name, versions=versions,
        moves=True,
    )  # fmt: skip


def interleaved(a: Array, b: Array) -> Array:
    return np.stack([a, b], -1).reshape(*a.shape[:-1], -1)


# name, body, move, shapes, outs
TABLE: tuple[tuple[str, str, Move, Any, Any], ...] = (
    ("trans", "tl.trans(a)", lambda a: a.T, [(8, 32)], [(32, 8)]),
    ("trans_square", "tl.trans(a)", lambda a: a.T, [(64, 64)], [(64, 64)]),
    ("permute", "tl.permute(a, (2, 0, 1))", lambda a: a.transpose(2, 0, 1), [(4, 8, 16)],
     [(16, 4, 8)]),
    ("permute_4d", "tl.permute(a, (3, 1, 0, 2))", lambda a: a.transpose(3, 1, 0, 2),
     [(2, 4, 8, 4)], [(4, 4, 2, 8)]),
    ("reshape", "tl.reshape(a, (16, 16))", lambda a: a.reshape(16, 16), [(8, 32)], [(16, 16)]),
    ("reshape_to_3d", "tl.reshape(a, (2, 8, 4))", lambda a: a.reshape(2, 8, 4), [(64,)],
     [(2, 8, 4)]),
    ("ravel", "tl.ravel(a)", lambda a: a.ravel(), [(4, 8, 8)], [(256,)]),
    ("expand_dims", "tl.broadcast_to(tl.expand_dims(a, 1), (16, 8))",
     lambda a: np.repeat(a[:, None], 8, 1), [(16,)], [(16, 8)]),
    ("broadcast_to", "tl.broadcast_to(a, (8, 16))", lambda a: np.broadcast_to(a, (8, 16)),
     [(1, 16)], [(8, 16)]),
    ("join", "tl.join(a, b)", lambda a, b: np.stack([a, b], -1), [(32,), (32,)], [(32, 2)]),
    ("join_2d", "tl.join(a, b)", lambda a, b: np.stack([a, b], -1), [(8, 16)] * 2, [(8, 16, 2)]),
    ("split", "y0, y1 = tl.split(a)", lambda a: (a[..., 0], a[..., 1]), [(64, 2)],
     [(64,), (64,)]),
    ("split_3d", "y0, y1 = tl.split(a)", lambda a: (a[..., 0], a[..., 1]), [(4, 16, 2)],
     [(4, 16)] * 2),
    ("split_of_trans", "y0, y1 = tl.split(tl.trans(a))", lambda a: (a[0], a[1]), [(2, 32)],
     [(32,), (32,)]),
    ("interleave", "tl.interleave(a, b)", interleaved, [(32,), (32,)], [(64,)]),
    ("interleave_2d", "tl.interleave(a, b)", interleaved, [(4, 16)] * 2, [(4, 32)]),
    ("flip", "tl.flip(a, 0)", lambda a: a[::-1], [(32,)], [(32,)]),
    ("flip_2d", "tl.flip(a, 1)", lambda a: a[:, ::-1], [(4, 16)], [(4, 16)]),
    ("flip_rows", "tl.flip(a, 0)", lambda a: a[::-1], [(8, 4)], [(8, 4)]),
    ("trans_of_trans", "tl.trans(tl.trans(a))", lambda a: a, [(16, 32)], [(16, 32)]),
    ("index_none", "a[:, None] + tl.zeros([16, 4], a.dtype)",
     lambda a: np.repeat(a[:, None], 4, 1), [(16,)], [(16, 4)]),
)  # fmt: skip
GATHERS: tuple[tuple[str, int, tuple[int, ...], tuple[int, ...]], ...] = (
    ("gather", 0, (64,), (64,)), ("gather_rows", 0, (16, 8), (32, 8)),
    ("gather_columns", 1, (8, 32), (8, 16)), ("gather_more", 0, (16,), (128,)),
    ("gather_3d", 1, (2, 16, 4), (2, 8, 4)),
)  # fmt: skip


def _gather(dtype: str, name: str, axis: int, source: Any, index: Any) -> Case:
    return tile(
        "shape_ops", "gather", f"tl.gather(a, b, axis={axis})",
        lambda a, at: np.take_along_axis(a, at.astype(np.int64), axis),
        one(dtype, source, "any"), one("int32", index, ("below", source[axis])),
        out=to(dtype, *index), name=name, moves=True,
    )  # fmt: skip


def _cat(dtype: str) -> Case:
    """``tl.cat`` may reorder: the elements are all there, sorted before the comparison."""
    return tile(
        "shape_ops", "cat", "y = tl.sum(tl.cat(a, b, can_reorder=True), axis=0)",
        lambda a, b: np.concatenate([a, b]).sum(dtype=np.int32),
        one(dtype, (32,)), one(dtype, (32,)), out=to("int32"), name="cat_total",
    )  # fmt: skip


def _ranges() -> list[Case]:
    found = [
        tile("shape_ops", "arange", "y = tl.arange(64, 128) + a",
             lambda a: np.arange(64, 128, dtype=np.int32) + a, one("int32", (64,)),
             out=to("int32", 64), name="arange_from"),
        tile("shape_ops", "full", "y = tl.full([8, 16], 3, tl.int32) * a",
             lambda a: 3 * a, one("int32", (8, 16)), out=to("int32", 8, 16)),
        tile("shape_ops", "zeros_like", "y = tl.zeros_like(a) - 1",
             lambda a: np.full(32, -1, np.int32), one("int32", (32,)), out=to("int32", 32)),
        tile("shape_ops", "broadcast", "y0, y1 = tl.broadcast(a, b)",
             lambda a, b: tuple(np.broadcast_arrays(a, b)), one("int32", (16, 1)),
             one("int32", (1, 8)), out=(to("int32", 16, 8),) * 2),
    ]  # fmt: skip
    body = "y0, y1 = tl.swizzle2d(a // 8, a % 8, 8, 8, 4)"

    def swizzled(a: Array) -> tuple[Array, Array]:
        i, j = a // 8, a % 8
        flat = i * 8 + j
        group, inside = flat // 32, flat % 32
        return (group * 4 + inside % 4).astype(np.int32), (inside // 4).astype(np.int32)

    found.append(
        tile("shape_ops", "swizzle2d", body, swizzled, one("int32", (64,), ("below", 64)),
             out=(to("int32", 64),) * 2)
    )  # fmt: skip
    return found


def cases() -> list[Case]:
    found = []
    for index, (name, body, move, shapes, outs) in enumerate(TABLE):
        every = ("fp32", "bf16", "int64", "int8", "fp64", "int32")
        picked = ("int32",) if name == "index_none" else ("fp32", every[1 + index % 5])
        found += [moved(name, body, move, shapes, outs, dtype, name.split("_")[0])
                  for dtype in picked]  # fmt: skip
    for index, (name, axis, source, place) in enumerate(GATHERS):
        for dtype in ("fp32", ("int64", "bf16", "int8", "fp16", "int32")[index]):
            found.append(_gather(dtype, name, axis, source, place))
    return [*found, _cat("int32"), *_ranges()]
