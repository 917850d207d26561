"""Atomics. Where more than one program meets an address, only what no order can change is
compared: integer sums, extremes, bit operations, counts."""

from typing import Any

import numpy as np

from tests.conformance.case import Case, given, result, updated
from tests.conformance.float_ops import maximum, minimum
from tests.conformance.values import STORAGE, Array, is_float, round_to

_TEXT = """import triton
import triton.language as tl

@triton.jit
def kernel({params}, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
{body}
"""
_OLD = """    old = tl.atomic_{op}(y + at, tl.load(x + at, mask=inside), mask=inside{extra})
    tl.store(z + at, old, mask=inside)"""
_BINS = """    tl.atomic_{op}(y + at % {bins}, tl.load(x + at, mask=inside), mask=inside{extra})"""
_SCALAR = """    value = tl.load(x + tl.program_id(0))
    old = tl.atomic_{op}(y, value{extra})"""

STEPS: dict[str, Any] = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def step_of(op: str, dtype: str) -> Any:
    if op == "xchg":
        return lambda old, new: new
    if not is_float(dtype):
        return lambda old, new: STEPS[op](old, new).astype(STORAGE[dtype])
    step = {"add": np.add, "max": maximum, "min": minimum}[op]
    return lambda old, new: round_to(dtype, step(old, new))


def _old(op: str, dtype: str, extra: str = "", name: str = "") -> Case:
    """Every element has an address of its own: the old value and the new one, to the bit."""
    n = 200
    step = step_of(op, dtype)
    return Case(
        family="atomics", name=f"{name or op}/{dtype}", ops=(f"atomic_{op}",), dtype=dtype,
        kernel=_TEXT.format(params="x, y, z", body=_OLD.format(op=op, extra=extra)),
        args=(given(dtype, n), updated(dtype, n), result(dtype, n), n),
        oracle=lambda x, y: (step(y, x), y), constants={"BLOCK": 64}, grid=(4,),
    )  # fmt: skip


def _bins(op: str, dtype: str, bins: int = 8) -> Case:
    """Many elements of every program meet; the operation commutes."""
    n, step = 500, step_of(op, dtype)

    def oracle(x: Array, y: Array) -> Array:
        out = y.copy()
        for k, value in enumerate(x):
            out[k % bins] = step(out[k % bins : k % bins + 1], np.array([value], x.dtype))[0]
        return out

    recipe: Any = ("below", 100) if op == "add" and dtype in ("fp32", "fp64") else "ordinary"
    return Case(
        family="atomics", name=f"{op}_bins/{dtype}", ops=(f"atomic_{op}",), dtype=dtype,
        kernel=_TEXT.format(params="x, y", body=_BINS.format(op=op, bins=bins, extra="")),
        args=(given(dtype, n, recipe=recipe), updated(dtype, bins, recipe=recipe), n),
        oracle=oracle, constants={"BLOCK": 128}, grid=(4,),
    )  # fmt: skip


def _whole(dtype: str) -> Case:
    """Sums of whole numbers are exact in any order, in floats too."""
    n, bins = 500, 8

    def oracle(x: Array, y: Array) -> Array:
        out = np.trunc(y).astype(np.float64)
        for k, value in enumerate(np.trunc(x)):
            out[k % bins] += value
        return out

    body = "    value = tl.floor(tl.load(x + at, mask=inside, other=0.0))\n" \
        "    tl.atomic_add(y + at % 8, value, mask=inside)"  # fmt: skip
    return Case(
        family="atomics", name=f"whole_sums/{dtype}", ops=("atomic_add",), dtype=dtype,
        kernel=_TEXT.format(params="x, y", body=body),
        args=(given(dtype, n, recipe=("between", 0, 100)), _zeros(dtype, bins), n),
        oracle=oracle, constants={"BLOCK": 128}, grid=(4,),
    )  # fmt: skip


def _zeros(dtype: str, size: int) -> Any:
    return updated(dtype, size, recipe=("between", 0, 1e-30))


def _scalar(op: str, dtype: str) -> Case:
    step = step_of(op, dtype)

    def oracle(x: Array, y: Array) -> Array:
        out = y
        for value in x:
            out = step(out, np.array([value], x.dtype))
        return out

    return Case(
        family="atomics", name=f"{op}_scalar/{dtype}", ops=(f"atomic_{op}",), dtype=dtype,
        kernel=_TEXT.format(params="x, y", body=_SCALAR.format(op=op, extra="")),
        args=(given(dtype, 16), updated(dtype, 1), 16),
        oracle=oracle, constants={"BLOCK": 16}, grid=(16,),
    )  # fmt: skip


_CAS = """    expected = tl.load(x + at)
    old = tl.atomic_cas(y + at, expected, expected + 1)
    tl.store(z + at, old)"""
_TURN = """    done = tl.atomic_cas(y, 0, 0)
    for k in range(4):
        tl.atomic_add(y, 1)
    tl.store(z + tl.program_id(0), done * 0 + 1)"""
_LOCK = """    while tl.atomic_cas(y, 0, 1) == 1:
        pass
    total = tl.load(z) + tl.load(x + tl.program_id(0))
    tl.store(z, total)
    tl.atomic_xchg(y, 0)"""
_TICKET = """    ticket = tl.atomic_add(y, 1)
    tl.store(z + ticket, 1)"""


def _compare_and_swap() -> list[Case]:
    def swapped(x: Array, y: Array) -> tuple[Array, Array]:
        return np.where(y == x, x + 1, y).astype(x.dtype), y

    found = [
        Case(family="atomics", name=f"cas/{dtype}", ops=("atomic_cas",), dtype=dtype,
             kernel=_TEXT.format(params="x, y, z", body=_CAS),
             args=(given(dtype, 64, recipe=("below", 3)), updated(dtype, 64, recipe=("below", 3)),
                   result(dtype, 64), 64),
             oracle=swapped, constants={"BLOCK": 64})
        for dtype in ("int32", "int64")
    ]  # fmt: skip
    found += [
        Case(family="atomics", name="count_from_all", ops=("atomic_add", "atomic_cas"),
             dtype="int32", kernel=_TEXT.format(params="y, z", body=_TURN),
             args=(updated("int32", 1, recipe=("below", 1)), result("int32", 8), 8),
             oracle=lambda y: (y + 32, np.ones(8, np.int32)), constants={"BLOCK": 16}, grid=(8,)),
        Case(family="atomics", name="lock", ops=("atomic_cas", "atomic_xchg"), dtype="int32",
             kernel=_TEXT.format(params="x, y, z", body=_LOCK),
             args=(given("int32", 16, recipe=("below", 1000)),
                   updated("int32", 1, recipe=("below", 1)),
                   updated("int32", 1, recipe=("below", 1)), 16),
             oracle=lambda x, y, z: (y, x.sum(dtype=np.int32)[None]), constants={"BLOCK": 16},
             grid=(16,)),
        Case(family="atomics", name="ticket", ops=("atomic_add",), dtype="int32",
             kernel=_TEXT.format(params="y, z", body=_TICKET),
             args=(updated("int32", 1, recipe=("below", 1)), result("int32", 32), 32),
             oracle=lambda y: (y + 32, np.ones(32, np.int32)), constants={"BLOCK": 16},
             grid=(32,)),
    ]  # fmt: skip
    return found


def cases() -> list[Case]:
    found = []
    for dtype in ("int32", "int64", "uint32", "fp32", "fp64", "fp16", "bf16"):
        for op in ("add", "max", "min", "and", "or", "xor", "xchg"):
            small = dtype in ("fp16", "bf16")
            if op in ("and", "or", "xor") and is_float(dtype):
                continue
            if op in ("max", "min") and (small or (dtype == "fp64" and op == "min")):
                continue
            if op == "xchg" and small:
                continue
            found.append(_old(op, dtype))
            if not is_float(dtype) and op != "xchg":
                found.append(_bins(op, dtype))
    found += [_bins("max", "fp32"), _bins("min", "fp32"), _whole("fp32"), _whole("fp64")]
    found += [_scalar("add", "int32"), _scalar("max", "int64"), _scalar("xor", "int32")]
    found.append(_old("add", "int32", ', sem="relaxed", scope="cta"', "add_relaxed"))
    found.append(_old("add", "fp32", ', sem="acq_rel", scope="sys"', "add_sys"))
    return found + _compare_and_swap()
