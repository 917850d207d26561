"""Loads and stores: masks, tails, strides, indices, aliasing, pointers of every kind."""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tests.conformance.case import Case, given, result, updated
from tests.conformance.values import STORAGE, Array

DTYPES = ("fp32", "bf16", "fp16", "int8", "int64", "fp64", "uint16", "int32", "int1")


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def other(x, y, n, size, BLOCK: tl.constexpr):
    """The tail of the load is ``other``, and all of it is stored."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=7), mask=at < size)


@triton.jit
def strided(x, y, rows, cols, x_row, x_col, y_row, y_col, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (i < rows) & (j < cols)
    value = tl.load(x + i * x_row + j * x_col, mask=inside)
    tl.store(y + i * y_row + j * y_col, value, mask=inside)


@triton.jit
def backwards(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + (n - 1) - at, mask=at < n), mask=at < n)


@triton.jit
def wrapped(x, y, n, m, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at % m), mask=at < n)


@triton.jit
def taken(x, index, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    where = tl.load(index + at, mask=inside, other=0)
    tl.store(y + at, tl.load(x + where, mask=inside), mask=inside)


@triton.jit
def put(x, index, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + tl.load(index + at, mask=inside, other=0), tl.load(x + at, mask=inside),
             mask=inside)  # fmt: skip


@triton.jit
def shifted(x, n, BLOCK: tl.constexpr):
    """Reads and writes overlap: the load sees what was there before the store."""
    at = tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside)
    tl.store(x + at + 1, value, mask=inside)


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    """A load after a store to the same place sees the store."""
    at = tl.arange(0, BLOCK)
    inside = at < n
    first = tl.load(x + at, mask=inside)
    tl.store(x + at, first + first, mask=inside)
    tl.store(y + at, tl.load(x + at, mask=inside), mask=inside)


@triton.jit
def scalars(x, y, n):
    """One element at a time, by scalar pointers."""
    total = tl.load(x)
    for k in range(1, n):
        value = tl.load(x + k)
        tl.store(y + k, value + total)
        total = value
    tl.store(y, total)


@triton.jit
def last_wins(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at // 8, tl.load(x + at))


@triton.jit
def holes(x, flags, y, n, BLOCK: tl.constexpr):
    """A mask of data, not of bounds."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    on = tl.load(flags + at, mask=inside, other=0) != 0
    tl.store(y + at, tl.load(x + at, mask=on & inside, other=0), mask=inside)


@triton.jit
def held_back(x, flags, y, BLOCK: tl.constexpr):
    """A store with a mask of data leaves the rest as it was."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = tl.load(flags + at) != 0
    tl.store(y + at, tl.load(x + at), mask=on)


@triton.jit
def far(x, y, stride, BLOCK: tl.constexpr):
    """64-bit offsets."""
    at = tl.arange(0, BLOCK).to(tl.int64) * stride
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + at))


@triton.jit
def hinted(x, y, n, BLOCK: tl.constexpr):
    """Hints for a GPU's caches change nothing."""
    at = tl.max_contiguous(tl.multiple_of(tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 8), 8)
    inside = at < n
    a = tl.load(x + at, mask=inside, cache_modifier=".cg", eviction_policy="evict_last")
    b = tl.load(x + at, mask=inside, volatile=True)
    tl.store(y + at, a + b, mask=inside, cache_modifier=".wt", eviction_policy="evict_first")


@triton.jit
def picked(x, y, z, n, BLOCK: tl.constexpr):
    """A pointer chosen by a value, and one that a loop carries."""
    source = x
    if n > 100:
        source = y
    at = tl.arange(0, BLOCK)
    for k in range(4):
        tl.store(z + k * BLOCK + at, tl.load(source + at))
        source += BLOCK


@triton.jit
def as_integer(x, y, n, BLOCK: tl.constexpr):
    """An address taken as a number and back."""
    at = tl.arange(0, BLOCK)
    base = x.to(tl.int64) + 16
    again = base.to(tl.pointer_type(tl.int32))
    tl.store(y + at, tl.load(again + at, mask=at < n), mask=at < n)


@triton.jit
def broadcast_load(x, y, BM: tl.constexpr, BN: tl.constexpr):
    """One row's pointers, used for every row."""
    i, j = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    value = tl.load(x + j + tl.zeros([BM, 1], tl.int32))
    tl.store(y + i * BN + j, value)


def moved(name: str, op: str, kernel: Any, args: tuple[Any, ...], move: Callable[..., Any],
          constants: dict[str, Any], grid: tuple[int, ...] = (1,), family: str = "memory",
          versions: tuple[str, ...] = ()) -> Case:  # fmt: skip
    """A case whose output is elements of its inputs, where ``move`` puts them."""
    dtype = next(arg.dtype for arg in args if not isinstance(arg, int | float))
    return Case(family=family, name=name, ops=(op,), dtype=dtype, kernel=kernel, args=args,
                oracle=move, constants=constants, grid=grid, moves=True,
                versions=versions)  # fmt: skip


def _copies() -> list[Case]:
    sizes = ((1000, 256), (1, 16), (17, 32), (4096, 1024), (33, 64), (127, 128), (64, 64), (3, 4),
             (2000, 2048))  # fmt: skip
    found = []
    for index, dtype in enumerate(DTYPES):
        for n, block in (sizes[index], sizes[(index + 3) % len(sizes)]):
            found.append(
                moved(f"copy/{dtype}/{n}", "load", copy,
                         (given(dtype, n, recipe="any"), result(dtype, n), n), lambda a: a,
                         {"BLOCK": block}, (-(-n // block),))
            )  # fmt: skip
    return found


def _others() -> list[Case]:
    found = []
    for dtype in ("fp32", "bf16", "int32", "int8"):

        def tail(a: Array, dtype: str = dtype) -> Array:
            seven = {"fp32": np.float32(7), "bf16": np.uint16(0x40E0)}.get(
                dtype, np.array(7).astype(STORAGE[dtype])
            )  # fmt: skip
            return np.where(np.arange(128) < 77, np.resize(a, 128), seven).astype(STORAGE[dtype])

        found.append(
            moved(f"other/{dtype}", "load(other)", other,
                     (given(dtype, 77, recipe="any"), result(dtype, 128), 77, 128), tail,
                     {"BLOCK": 128})
        )  # fmt: skip
    return found


def _strides() -> list[Case]:
    found = []
    forms = {
        "rows": ((37, 70), (70, 1), (70, 1), lambda a: a),
        "turned": ((40, 33), (1, 40), (33, 1), lambda a: a.reshape(33, 40).T),
        "wide": ((20, 16), (48, 2), (16, 1), lambda a: a.reshape(20, 48)[:, :32:2]),
    }
    for name, ((m, n), x_strides, y_strides, move) in forms.items():
        size = m * max(x_strides[0], 1) if x_strides[0] > 1 else m * n
        for dtype in ("fp32", "bf16", "int8"):
            found.append(
                moved(
                    f"strided_{name}/{dtype}", "load(strides)", strided,
                    (given(dtype, size, recipe="any"), result(dtype, m, n), m, n,
                     *x_strides, *y_strides),
                    lambda a, move=move, m=m, n=n: move(
                        a.reshape(m, n) if a.size == m * n else a
                    ).reshape(m, n),
                    {"BM": 16, "BN": 32}, (-(-m // 16), -(-n // 32)),
                )
            )  # fmt: skip
    return found


def _indexed() -> list[Case]:
    found = []
    for dtype in ("fp32", "fp16", "int64", "int8"):
        found.append(
            moved(
                f"taken/{dtype}", "load(index)", taken,
                (given(dtype, 500, recipe="any"), given("int32", 300, recipe=("below", 500)),
                 result(dtype, 300), 300),
                lambda a, at: a[at], {"BLOCK": 128}, (3,),
            )
        )  # fmt: skip

    def scattered(a: Array, at: Array) -> Array:
        out = np.zeros(512, a.dtype)
        for value, where in zip(a, at, strict=True):
            out[where] = value
        return out

    for dtype in ("fp32", "bf16", "int32"):
        found.append(
            moved(
                f"put/{dtype}", "store(index)", put,
                (given(dtype, 64, recipe="any"), given("int32", 64, recipe=("below", 512)),
                 result(dtype, 512), 64),
                scattered, {"BLOCK": 64},
            )
        )  # fmt: skip
    found.append(
        moved(
            "taken_by_int64/fp32", "load(index)", taken,
            (given("fp32", 64, recipe="any"), given("int64", 100, recipe=("below", 64)),
             result("fp32", 100), 100),
            lambda a, at: a[at], {"BLOCK": 128},
        )
    )  # fmt: skip
    return found


def _aliasing() -> list[Case]:
    def after_shift(a: Array) -> Array:
        out = a.copy()
        out[1:101] = a[:100]
        return out

    found = []
    for dtype in ("fp32", "bf16", "int8"):
        found.append(
            moved(f"shifted/{dtype}", "store(aliased)", shifted,
                     (updated(dtype, 128, recipe="any"), 100), after_shift, {"BLOCK": 128})
        )  # fmt: skip
    found += [
        moved("twice/int32", "load(after store)", twice,
                 (updated("int32", 100), result("int32", 100), 100),
                 lambda a: (a + a, a + a), {"BLOCK": 128}),
        moved("last_wins/fp32", "store(same place)", last_wins,
                 (given("fp32", 64, recipe="any"), result("fp32", 8)),
                 lambda a: a.reshape(8, 8)[:, -1], {"BLOCK": 64}),
    ]  # fmt: skip
    return found


def _data_masks() -> list[Case]:
    found = []
    for dtype in ("fp32", "bf16", "int8", "fp64"):
        found.append(
            moved(
                f"holes/{dtype}", "load(data mask)", holes,
                (given(dtype, 300, recipe="any"), given("int8", 300, recipe=("below", 2)),
                 result(dtype, 300), 300),
                lambda a, on: np.where(on != 0, a, np.zeros(1, a.dtype)),
                {"BLOCK": 128}, (3,),
            )
        )  # fmt: skip
        found.append(
            moved(
                f"held_back/{dtype}", "store(data mask)", held_back,
                (given(dtype, 256, recipe="any"), given("int32", 256, recipe=("below", 2)),
                 updated(dtype, 256, recipe="any")),
                lambda a, on, y: np.where(on != 0, a, y), {"BLOCK": 64}, (4,),
            )
        )  # fmt: skip
    return found


def cases() -> list[Case]:
    some = [
        moved(f"backwards/{dtype}", "load(backwards)", backwards,
                 (given(dtype, 100, recipe="any"), result(dtype, 100), 100), lambda a: a[::-1],
                 {"BLOCK": 128})
        for dtype in ("fp32", "int16", "bf16")
    ] + [
        moved(f"wrapped/{dtype}/{m}", "load(% m)", wrapped,
                 (given(dtype, m, recipe="any"), result(dtype, 200), 200, m),
                 lambda a: np.resize(a, 200), {"BLOCK": 64}, (4,))
        for dtype, m in (("fp32", 37), ("fp32", 64), ("bf16", 5), ("int8", 128))
    ]  # fmt: skip

    def by_scalars(a: Array) -> Array:
        out = np.concatenate([a[-1:], a[1:] + a[:-1]])
        return out.astype(a.dtype)

    some += [
        moved("scalars/int32", "load(scalar)", scalars,
                 (given("int32", 20, recipe="ordinary"), result("int32", 20), 20), by_scalars, {}),
        moved("scalars/int64", "load(scalar)", scalars,
                 (given("int64", 7, recipe="ordinary"), result("int64", 7), 7), by_scalars, {}),
        moved("far/fp32", "load(int64 offsets)", far,
                 (given("fp32", 32 * 5, recipe="any"), result("fp32", 32), 5), lambda a: a[::5],
                 {"BLOCK": 32}),
        moved("hinted/int32", "load(hints)", hinted,
                 (given("int32", 1000), result("int32", 1000), 1000), lambda a: a + a,
                 {"BLOCK": 256}, (4,)),
        moved("as_integer/int32", "int_to_ptr", as_integer,
                 (given("int32", 100), result("int32", 96), 96), lambda a: a[4:],
                 {"BLOCK": 128}),
        moved("broadcast_load/fp32", "load(broadcast)", broadcast_load,
                 (given("fp32", 32, recipe="any"), result("fp32", 16, 32)),
                 lambda a: np.repeat(a[None], 16, 0), {"BM": 16, "BN": 32}),
    ]  # fmt: skip
    some += [
        moved(f"picked/{'second' if n > 100 else 'first'}", "pointer select", picked,
                 (given("fp32", 128, recipe="any"), given("fp32", 128, recipe="any"),
                  result("fp32", 128), n),
                 lambda a, b, n=n: b if n > 100 else a, {"BLOCK": 32})
        for n in (5, 105)
    ]  # fmt: skip
    groups = (_copies(), _others(), _strides(), _indexed(), _aliasing(), _data_masks())
    return some + [case for group in groups for case in group]
