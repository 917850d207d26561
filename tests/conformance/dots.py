"""Matrix products: for each element one fused multiply-add a k, k ascending, to the bit."""

import numpy as np

from tests.conformance.case import Case
from tests.conformance.float_ops import exact_fma
from tests.conformance.tiles import one, tile, to
from tests.conformance.values import Array

FLOAT_TYPES = ("fp32", "bf16", "fp16")
SHAPES = ((16, 16, 16), (32, 16, 64), (16, 64, 32), (64, 32, 16), (1, 16, 32), (16, 8, 128))


def chain(a: Array, b: Array, start: Array) -> Array:
    """acc = fma(a[.., k], b[k, ..], acc) in float32; extended precision holds a float32 product
    and sum closely enough that a second rounding could only differ at a tie of 2**-40, which
    these inputs do not make (the exact form is used by the small case below)."""
    acc = start.astype(np.float32)
    for k in range(a.shape[-1]):
        product = a[..., :, k, None].astype(np.longdouble) * b[..., k, None, :]
        acc = (product + acc).astype(np.float32)
    return acc.astype(np.float64)


def exact_chain(dtype: str, a: Array, b: Array, start: Array) -> Array:
    """The same in rational arithmetic."""
    m, n = a.shape[0], b.shape[1]
    acc = start.ravel()
    for k in range(a.shape[1]):
        left, right = np.repeat(a[:, k], n), np.tile(b[k], m)
        acc = exact_fma(dtype, left, right, acc)
    return acc.reshape(m, n)


def _product(dtype: str, shape: tuple[int, int, int], body: str, name: str) -> Case:
    m, n, k = shape
    return tile(
        "dots", "dot", body, lambda a, b: chain(a, b, np.zeros((m, n))),
        one(dtype, (m, k)), one(dtype, (k, n)), out=to("fp32", m, n), name=name,
    )  # fmt: skip


def _accumulated(dtype: str, m: int, n: int, k: int) -> Case:
    return tile(
        "dots", "dot(acc)", 'y = tl.dot(a, b, c, input_precision="ieee")', chain,
        one(dtype, (m, k)), one(dtype, (k, n)), one("fp32", (m, n)), out=to("fp32", m, n),
        name="dot_acc",
    )  # fmt: skip


def _exact(dtype: str, m: int, n: int, k: int) -> Case:
    return tile(
        "dots", "dot", 'y = tl.dot(a, b, c, input_precision="ieee", out_dtype=c.dtype)',
        lambda a, b, c: exact_chain(dtype, a, b, c),
        one(dtype, (m, k)), one(dtype, (k, n)), one(dtype, (m, n)), out=to(dtype, m, n),
        name="dot_exact",
    )  # fmt: skip


def _integers(m: int, n: int, k: int, dtype: str = "int8") -> Case:
    def oracle(a: Array, b: Array) -> Array:
        return a.astype(np.int32) @ b.astype(np.int32)

    return tile("dots", "dot", "tl.dot(a, b)", oracle, one(dtype, (m, k), "any"),
                one(dtype, (k, n), "any"), out=to("int32", m, n), name="dot_int")  # fmt: skip


def _batched(dtype: str, batch: int, m: int, n: int, k: int) -> Case:
    return tile(
        "dots", "dot(3-D)", 'y = tl.dot(a, b, input_precision="ieee")',
        lambda a, b: chain(a, b, np.zeros((batch, m, n))),
        one(dtype, (batch, m, k)), one(dtype, (batch, k, n)), out=to("fp32", batch, m, n),
        name="dot_3d",
    )  # fmt: skip


def _half_result(m: int, n: int, k: int) -> Case:
    """out_dtype=float16: the chain is float32 all the same; its end is rounded."""
    return tile("dots", "dot(out_dtype)", "tl.dot(a, b, out_dtype=tl.float16)",
                lambda a, b: chain(a, b, np.zeros((m, n))),
                one("fp16", (m, k)), one("fp16", (k, n)), out=to("fp16", m, n),
                name="dot_half_result")  # fmt: skip


def _eight_bit(dtype: str) -> Case:
    return tile(
        "dots", "dot(fp8)", "tl.dot(a, b)", lambda a, b: chain(a, b, np.zeros((16, 16))),
        one(dtype, (16, 32)), one(dtype, (32, 16)), out=to("fp32", 16, 16), name="dot_fp8",
    )  # fmt: skip


def cases() -> list[Case]:
    found = []
    for dtype in FLOAT_TYPES:
        for shape in SHAPES if dtype == "fp32" else SHAPES[:4]:
            found.append(_product(dtype, shape, 'y = tl.dot(a, b, input_precision="ieee")', "dot"))
        m, n, k = SHAPES[1]
        found.append(_accumulated(dtype, m, n, k))
        found.append(_batched(dtype, 4, 16, 32, 16))
    # Every precision is IEEE here.
    for precision in ("tf32", "tf32x3"):
        body = f'y = tl.dot(a, b, input_precision="{precision}")'
        found.append(_product("fp32", (16, 16, 32), body, f"dot_{precision}"))
    body = 'y = tl.trans(tl.dot(tl.trans(b), tl.trans(a), input_precision="ieee"))'
    found.append(_product("fp32", (16, 32, 16), body, "dot_turned"))
    # A loop of rank-1 updates is the same chain.
    found += [_exact("fp32", 8, 8, 8), _exact("fp64", 8, 8, 8), _exact("fp64", 16, 16, 16)]
    found += [_integers(16, 16, 32), _integers(32, 32, 64)]
    found.append(_half_result(16, 16, 32))
    found += [_eight_bit("fp8e5"), _eight_bit("fp8e4nv")]
    return found
