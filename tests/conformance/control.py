"""Control flow: loops, branches, early returns, calls, and the values that they carry."""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tests.conformance.case import Case, given, result
from tests.conformance.values import Array, round_to


@triton.jit
def counted(x, y, n, start, step, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.int32)
    for k in range(start, n, step):
        total = total * 3 + tl.load(x + at) + k
    tl.store(y + at, total)


@triton.jit
def nested(x, y, n, m, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = a + 1  # not `b = a`: Triton carries two names of one value as one
    for i in range(n):
        for j in range(i, m):
            a, b = b, a + b + j
        b = b ^ i
    tl.store(y + at, a - b)


@triton.jit
def branches(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    if n == 3:
        a = a + 1
    elif n < 3:
        if n > 0:
            a = a * 2
        else:
            a = -a
    else:
        a = a * 0 + n
    tl.store(y + at, a)


@triton.jit
def collatz(x, y, BLOCK: tl.constexpr):
    """A while loop with scalars, as many turns as the data says."""
    pid = tl.program_id(0)
    value = tl.load(x + pid)
    steps = 0
    while value != 1:
        if value % 2 == 0:
            value = value // 2
        else:
            value = 3 * value + 1
        steps += 1
    tl.store(y + pid, steps)


@triton.jit
def while_tensor(x, y, BLOCK: tl.constexpr):
    """A while loop that carries tensors and ends by a reduction of them."""
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    turns = tl.zeros([BLOCK], tl.int32)
    while tl.max(a, axis=0) > 0:
        turns += (a > 0).to(tl.int32)
        a = a - 3
    tl.store(y + at, turns)


@triton.jit
def returns(x, y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    at = pid * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at)
    if tl.sum(a, axis=0) < 0:
        tl.store(y + at, -a)
        return
    tl.store(y + at, a)


@triton.jit
def unrolled(x, y, BLOCK: tl.constexpr, TURNS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    for k in tl.static_range(TURNS):
        if k % 2 == 0:
            a += k
        else:
            a *= 3
    tl.store(y + at, a)


@triton.jit
def staged(x, y, n, BLOCK: tl.constexpr):
    """Hints for a GPU's pipeline."""
    at = tl.arange(0, BLOCK)
    a = tl.zeros([BLOCK], tl.int32)
    for k in tl.range(0, n, num_stages=4, loop_unroll_factor=2):
        a += tl.load(x + k * BLOCK + at)
    tl.store(y + at, a)


@triton.jit
def logic(x, y, n, m, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    if n > 2 and m > 2:
        a += 1
    if n > 2 or m > 2:
        a += 10
    if not (n > 2):
        a += 100
    b = a if n > m else -a
    tl.store(y + at, b)


@triton.jit
def programs(y, BLOCK: tl.constexpr):
    i, j, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    ni, nj, nk = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    flat = (i * nj + j) * nk + k
    tl.store(y + flat * 2, i * 100 + j * 10 + k)
    tl.store(y + flat * 2 + 1, ni * 100 + nj * 10 + nk)


@triton.jit
def persistent(x, y, tiles, BLOCK: tl.constexpr):
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        at = t * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at) + t)


@triton.jit
def scaled(a, b):
    return a * b + 1


@triton.jit(noinline=True)
def apart(a, b):
    return a * b + 1


@triton.jit(noinline=True)
def two_results(a, n):
    low = a & n
    return low, a - low


@triton.jit(noinline=True)
def writes(y, at, value):
    tl.store(y + at, value)


@triton.jit
def called(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    tl.store(y + at, scaled(scaled(a, n), 3))


@triton.jit
def called_apart(x, y, n):
    a = tl.load(x + tl.program_id(0))
    tl.store(y + tl.program_id(0), apart(apart(a, n), 3))


@triton.jit
def called_twice(x, y, z, n):
    pid = tl.program_id(0)
    low, rest = two_results(tl.load(x + pid), n)
    writes(y, pid, low)
    writes(z, pid, rest)


@triton.jit
def called_scalar(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    factor = apart(n, n)
    for k in range(2):
        factor = apart(factor, k + 1)
    tl.store(y + at, tl.load(x + at) * factor)


@triton.jit
def tuples(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    pair = (tl.load(x + at), n)
    more = pair + (3,)  # noqa: RUF005
    for part in tl.static_range(2):
        more = (more[0] + more[part + 1], more[1], more[2])
    tl.store(y + at, more[0])


@triton.jit
def carried_16(x, y, n, BLOCK: tl.constexpr):
    """A carried bfloat16 is rounded at every turn."""
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    for _ in range(n):
        a = (a * 1.25).to(tl.bfloat16)
    tl.store(y + at, a)


def case(name: str, kernel: Any, args: tuple[Any, ...], oracle: Callable[..., Any],
         op: str, grid: tuple[int, ...] = (1,), **constants: Any) -> Case:  # fmt: skip
    """``constants``: BLOCK is 32 unless the kernel has none."""
    blocks = {} if constants.get("BLOCK") == 0 else {"BLOCK": 32, **constants}
    return Case(family="control", name=name, ops=(op,), dtype=args[0].dtype, kernel=kernel,
                args=args, oracle=oracle, constants=blocks, grid=grid)  # fmt: skip


X, Y = given("int32", 32), result("int32", 32)


def _loops() -> list[Case]:
    found = []
    for n, start, step in ((0, 0, 1), (1, 0, 1), (7, 2, 2), (3, 5, 1), (100, 0, 7)):

        def counting(x: Array, n: int = n, start: int = start, step: int = step) -> Array:
            total = np.zeros(32, np.int32)
            for k in range(start, n, step):
                total = total * np.int32(3) + x + np.int32(k)
            return total

        found.append(case(f"for/{start}_{n}_{step}", counted, (X, Y, n, start, step), counting,
                          "for"))  # fmt: skip
    for n, m in ((3, 5), (0, 4), (5, 2)):

        def nesting(x: Array, n: int = n, m: int = m) -> Array:
            a, b = x, x + 1
            for i in range(n):
                for j in range(i, m):
                    a, b = b, a + b + np.int32(j)
                b = b ^ np.int32(i)
            return a - b

        found.append(case(f"for_for/{n}_{m}", nested, (X, Y, n, m), nesting, "for"))

    def unrolling(x: Array) -> Array:
        for k in range(5):
            x = x + np.int32(k) if k % 2 == 0 else x * np.int32(3)
        return x

    found.append(case("static_range", unrolled, (X, Y), unrolling, "static_range", TURNS=5))
    found.append(
        case("staged", staged, (given("int32", 5 * 32), Y, 5),
             lambda x: x.reshape(5, 32).sum(0, dtype=np.int32), "range(num_stages)")
    )  # fmt: skip
    found.append(
        case("persistent", persistent, (given("int32", 7 * 32), result("int32", 7 * 32), 7),
             lambda x: x + np.repeat(np.arange(7, dtype=np.int32), 32), "num_programs", (3,))
    )  # fmt: skip
    found.append(
        case("carried_bf16", carried_16, (given("bf16", 32), result("bf16", 32), 6), _carry16,
             "for")
    )  # fmt: skip
    return found


def _carry16(x: Array) -> Array:
    for _ in range(6):
        x = round_to("bf16", x * 1.25)
    return x


def _branches() -> list[Case]:
    answers: dict[int, Callable[[Array], Array]] = {
        3: lambda x: x + 1, 2: lambda x: x * 2, -1: lambda x: -x, 9: lambda x: x * 0 + 9,
    }  # fmt: skip
    found = [
        case(f"if/{n}", branches, (X, Y, n), lambda x, f=f: f(x).astype(np.int32), "if")
        for n, f in answers.items()
    ]
    for n, m in ((3, 3), (3, 1), (1, 3), (1, 1)):

        def truth(x: Array, n: int = n, m: int = m) -> Array:
            a = x + (n > 2 and m > 2) + 10 * (n > 2 or m > 2) + 100 * (not n > 2)
            return (a if n > m else -a).astype(np.int32)

        found.append(case(f"logic/{n}_{m}", logic, (X, Y, n, m), truth, "and/or/not"))

    def returned(x: Array) -> Array:
        out = np.zeros((4, 32), np.int32)
        for pid, row in enumerate(x.reshape(4, 32)[:3]):
            out[pid] = -row if row.sum(dtype=np.int32) < 0 else row
        return out.ravel()

    found.append(
        case("return", returns, (given("int32", 128), result("int32", 128), 3), returned,
             "return", (4,))
    )  # fmt: skip
    return found


def _whiles() -> list[Case]:
    def turns(x: Array) -> Array:
        out = np.zeros(x.size, np.int32)
        for index, value in enumerate(x.tolist()):
            while value != 1:
                value = value // 2 if value % 2 == 0 else 3 * value + 1
                out[index] += 1
        return out

    return [
        case("while", collatz, (given("int32", 20, recipe=("between", 1, 60)),
             result("int32", 20)), turns, "while", (20,)),
        case("while_tensor", while_tensor,
             (given("int32", 32, recipe=("between", -20, 50)), Y),
             lambda x: np.maximum(-(-x // 3), 0).astype(np.int32), "while"),
    ]  # fmt: skip


def _calls() -> list[Case]:
    def grid_values() -> Array:
        out = [[i * 100 + j * 10 + k, 432] for i in range(4) for j in range(3) for k in range(2)]
        return np.array(out, np.int32).ravel()

    def factors(x: Array) -> Array:
        factor = 5 * 5 + 1
        for k in range(2):
            factor = factor * (k + 1) + 1
        return x * np.int32(factor)

    return [
        case("call", called, (X, Y, 5), lambda x: (x * 5 + 1) * 3 + 1, "call"),
        case("noinline", called_apart, (X, Y, 5), lambda x: (x * 5 + 1) * 3 + 1, "noinline", (32,),
             BLOCK=0),
        case("noinline_two_results", called_twice, (X, Y, Y, 255),
             lambda x: (x & 255, x - (x & 255)), "noinline", (32,), BLOCK=0),
        case("noinline_scalar", called_scalar, (X, Y, 5), factors, "noinline"),
        case("tuple", tuples, (X, Y, 5), lambda x: x + 8, "tuple"),
        case("program_id", programs, (result("int32", 48),), grid_values, "program_id",
             (4, 3, 2)),
    ]  # fmt: skip


def cases() -> list[Case]:
    return [*_loops(), *_branches(), *_whiles(), *_calls()]
