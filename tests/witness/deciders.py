"""Kernels that let what they load decide how they sum, one way each, and what rule each breaks."""

from typing import Any

import triton
import triton.language as tl

from kernelsmith.lang import tree_sum

BIG = tl.constexpr(1.0e30)
N = tl.constexpr(64)


@triton.jit
def by_branch(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if tl.max(tl.abs(x), axis=0) > BIG:
        s = tree_sum(x)
    else:
        s = tl.sum(x, axis=0)
    tl.store(y_ptr, s)


@triton.jit
def by_exponent_bits(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    bits = tl.max(x.to(tl.int32, bitcast=True) & 0x7F800000, axis=0)
    if bits > 0x70000000:
        s = tree_sum(x)
    else:
        s = tl.sum(x, axis=0)
    tl.store(y_ptr, s)


@triton.jit
def by_integer_view(x_ptr, y_ptr):
    words = x_ptr.to(tl.pointer_type(tl.int32))
    x = tl.load(x_ptr + tl.arange(0, N))
    if tl.load(words) > 0x70000000:
        s = tree_sum(x)
    else:
        s = tl.sum(x, axis=0)
    tl.store(y_ptr, s)


@triton.jit
def by_saturation(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    small = x.to(tl.float8e5).to(tl.float32)
    if tl.sum((small == x).to(tl.int32), axis=0) == 0:
        s = tree_sum(x)
    else:
        s = tl.sum(x, axis=0)
    tl.store(y_ptr, s)


@triton.jit
def by_argmax(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if tl.argmax(x, axis=0) == 3:
        s = tree_sum(x)
    else:
        s = tl.sum(x, axis=0)
    tl.store(y_ptr, s)


@triton.jit
def by_early_return(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if tl.load(x_ptr) > BIG:
        tl.store(y_ptr, tree_sum(x))
        return
    tl.store(y_ptr, tl.sum(x, axis=0))


@triton.jit(noinline=True)
def _apart(a, b, big):
    s = a
    if big > BIG:
        s = b
    return s


@triton.jit
def by_a_call(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(y_ptr, _apart(tree_sum(x), tl.sum(x, axis=0), tl.load(x_ptr)))


@triton.jit
def by_a_carried_mark(x_ptr, y_ptr):
    mark = 0
    s = 0.0
    for i in range(64):
        x = tl.load(x_ptr + i)
        mark = tl.maximum(mark, (x > BIG).to(tl.int32))
        if mark > 0:
            s = x + s
    tl.store(y_ptr, s)


@triton.jit
def by_loop_bound(x_ptr, y_ptr):
    far = tl.where(tl.load(x_ptr) > BIG, 32, 64)
    s = 0.0
    for i in range(far):
        s += tl.load(x_ptr + i)
    tl.store(y_ptr, s)


@triton.jit
def by_loop_step(x_ptr, y_ptr):
    step = 1 + (tl.load(x_ptr) > BIG).to(tl.int32)
    s = 0.0
    for i in range(0, 64, step):
        s += tl.load(x_ptr + i)
    tl.store(y_ptr, s)


@triton.jit
def by_while(x_ptr, y_ptr):
    i = 0
    s = 0.0
    x = tl.load(x_ptr)
    while x < BIG:
        s += x
        i += 1
        x = tl.load(x_ptr + i)
    tl.store(y_ptr, s)


@triton.jit
def by_address(x_ptr, y_ptr):
    at = tl.arange(0, N)
    big = tl.load(x_ptr) > BIG
    x = tl.load(x_ptr + tl.where(big, at, N - 1 - at))
    tl.store(y_ptr, tl.sum(x, axis=0))


@triton.jit
def by_address_one_by_one(x_ptr, y_ptr):
    turn = (tl.load(x_ptr) > BIG).to(tl.int32)
    s = 0.0
    for i in range(64):
        s += tl.load(x_ptr + ((i + turn) % 64))
    tl.store(y_ptr, s)


@triton.jit
def by_gather(x_ptr, y_ptr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    big = tl.max(x, axis=0) > BIG
    tl.store(y_ptr, tl.sum(tl.gather(x, tl.where(big, at, N - 1 - at), 0), axis=0))


@triton.jit
def by_load_mask(x_ptr, y_ptr):
    at = tl.arange(0, N)
    big = tl.load(x_ptr) > BIG
    a = tl.load(x_ptr + at, mask=(at < N) & big, other=0.0)
    b = tl.load(x_ptr + N - 1 - at, mask=(at < N) & (big == 0), other=0.0)
    tl.store(y_ptr, tl.sum(a + b, axis=0))


@triton.jit
def by_store_mask(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    big = tl.load(x_ptr) > BIG
    tl.store(y_ptr, tree_sum(x), mask=big)
    tl.store(y_ptr, tl.sum(x, axis=0), mask=big == 0)


@triton.jit
def by_store_address(x_ptr, y_ptr):
    at = tl.arange(0, N)
    big = (tl.load(x_ptr) > BIG).to(tl.int32)
    tl.store(y_ptr + at * (1 + big), tl.load(x_ptr + at))


@triton.jit
def by_atomic_mask(x_ptr, mark_ptr):
    tl.atomic_add(mark_ptr, 1, mask=tl.load(x_ptr) > BIG)


@triton.jit
def by_choice_of_sums(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    big = tl.max(x, axis=0) > BIG
    tl.store(y_ptr, tl.where(big, tree_sum(x), tl.sum(x, axis=0)))


@triton.jit
def by_choice_of_sums_in_disguise(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    big = tl.max(x, axis=0) > BIG
    a, b = tree_sum(x), tl.sum(x, axis=0)
    tl.store(y_ptr, tl.where(big, a + 0.0 * b, b + 0.0 * a))


@triton.jit
def by_choice_in_a_loop(x_ptr, y_ptr):
    big = tl.load(x_ptr) > BIG
    s = 0.0
    for i in range(32):
        a, b = tl.load(x_ptr + 2 * i), tl.load(x_ptr + 2 * i + 1)
        s = tl.where(big, (s + a) + b, s + (a + b))
    tl.store(y_ptr, s)


@triton.jit
def by_choice_of_integers(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    big = tl.max(x, axis=0) > BIG
    a = tree_sum(x).to(tl.int32, bitcast=True)
    b = tl.sum(x, axis=0).to(tl.int32, bitcast=True)
    tl.store(y_ptr, tl.where(big, a, b).to(tl.float32, bitcast=True))


@triton.jit
def by_arrangement(x_ptr, y_ptr):
    at = tl.arange(0, N)
    a, b = tl.load(x_ptr + at), tl.load(x_ptr + N - 1 - at)
    big = tl.max(a, axis=0) > BIG
    tl.store(y_ptr, tl.sum(tl.where(big, a, b), axis=0))


@triton.jit
def by_arrangement_in_disguise(x_ptr, y_ptr):
    at = tl.arange(0, N)
    a, b = tl.load(x_ptr + at), tl.load(x_ptr + N - 1 - at)
    big = tl.max(a, axis=0) > BIG
    tl.store(y_ptr, tl.sum(tl.where(big, a + 0.0 * b, b + 0.0 * a), axis=0))


@triton.jit
def by_transpose(x_ptr, y_ptr):
    at = tl.arange(0, 8)
    x = tl.load(x_ptr + at[:, None] * 8 + at[None, :])
    big = tl.load(x_ptr) > BIG
    tl.store(y_ptr + at, tl.sum(tl.where(big, x, tl.trans(x)), axis=0))


@triton.jit
def by_flip(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    big = tl.max(x, axis=0) > BIG
    tl.store(y_ptr, tl.sum(tl.where(big, x, tl.flip(x, 0)), axis=0))


@triton.jit
def by_bits_of_sums(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    chosen = 0 - (tl.max(x, axis=0) > BIG).to(tl.int32)
    a = tree_sum(x).to(tl.int32, bitcast=True)
    b = tl.sum(x, axis=0).to(tl.int32, bitcast=True)
    tl.store(y_ptr, (b ^ ((a ^ b) & chosen)).to(tl.float32, bitcast=True))


@triton.jit
def by_bits_of_arrangements(x_ptr, y_ptr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    chosen = 0 - (tl.max(x, axis=0) > BIG).to(tl.int32)
    a = x.to(tl.int32, bitcast=True)
    b = tl.load(x_ptr + N - 1 - at).to(tl.int32, bitcast=True)
    tl.store(y_ptr, tl.sum((b ^ ((a ^ b) & chosen)).to(tl.float32, bitcast=True), axis=0))


@triton.jit
def by_masked_bits(x_ptr, y_ptr):
    at = tl.arange(0, N)
    a = tl.load(x_ptr + at).to(tl.int32, bitcast=True)
    b = tl.load(x_ptr + N - 1 - at).to(tl.int32, bitcast=True)
    chosen = (tl.max(a & 0x7FFFFFFF, axis=0) - 0x70000000) >> 31
    mixed = (a & chosen) ^ (b & (-1 - chosen))
    tl.store(y_ptr, tl.sum(mixed.to(tl.float32, bitcast=True), axis=0))


@triton.jit
def by_sorting(x_ptr, y_ptr):
    tl.store(y_ptr, tl.sum(tl.sort(tl.load(x_ptr + tl.arange(0, N))), axis=0))


@triton.jit
def by_factor(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    big = (tl.max(x, axis=0) > BIG).to(tl.float32)
    tl.store(y_ptr, tree_sum(x) * big + tl.sum(x, axis=0) * (1.0 - big))


@triton.jit
def by_factor_of_a_difference(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    big = (tl.max(x, axis=0) > BIG).to(tl.float32)
    a, b = tree_sum(x), tl.sum(x, axis=0)
    tl.store(y_ptr, b + (a - b) * big)


@triton.jit
def by_zeroes(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    big = tl.max(x, axis=0) > BIG
    a, b = tl.where(big, tree_sum(x), 0.0), tl.where(big, 0.0, tl.sum(x, axis=0))
    tl.store(y_ptr, a + b)


@triton.jit
def by_the_larger(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    big = tl.max(x, axis=0) > BIG
    a = tl.where(big, tree_sum(x), float("-inf"))
    b = tl.where(big, float("-inf"), tl.sum(x, axis=0))
    tl.store(y_ptr, tl.maximum(a, b))


@triton.jit
def _choosing(a, b):
    return tl.where(a > BIG, (a + b) - a, a + b)


@triton.jit
def by_the_way_two_are_added(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(y_ptr, tl.reduce(x, 0, _choosing))


RULES: dict[str, tuple[Any, str]] = {
    "by_branch": (by_branch, "branch"),
    "by_exponent_bits": (by_exponent_bits, "branch"),
    "by_integer_view": (by_integer_view, "branch"),
    "by_saturation": (by_saturation, "branch"),
    "by_argmax": (by_argmax, "branch"),
    "by_early_return": (by_early_return, "branch"),
    "by_a_call": (by_a_call, "select"),
    "by_a_carried_mark": (by_a_carried_mark, "branch"),
    "by_loop_bound": (by_loop_bound, "bound"),
    "by_loop_step": (by_loop_step, "bound"),
    "by_while": (by_while, "branch"),
    "by_address": (by_address, "load"),
    "by_address_one_by_one": (by_address_one_by_one, "load"),
    "by_gather": (by_gather, "load"),
    "by_load_mask": (by_load_mask, "load"),
    "by_store_mask": (by_store_mask, "store"),
    "by_store_address": (by_store_address, "store"),
    "by_atomic_mask": (by_atomic_mask, "store"),
    "by_choice_of_sums": (by_choice_of_sums, "select"),
    "by_choice_of_sums_in_disguise": (by_choice_of_sums_in_disguise, "select"),
    "by_choice_in_a_loop": (by_choice_in_a_loop, "select"),
    "by_choice_of_integers": (by_choice_of_integers, "select"),
    "by_arrangement": (by_arrangement, "arrangement"),
    "by_arrangement_in_disguise": (by_arrangement_in_disguise, "select"),
    "by_transpose": (by_transpose, "arrangement"),
    "by_flip": (by_flip, "arrangement"),
    "by_bits_of_sums": (by_bits_of_sums, "bits"),
    "by_bits_of_arrangements": (by_bits_of_arrangements, "bits"),
    "by_masked_bits": (by_masked_bits, "bits"),
    "by_sorting": (by_sorting, "arrangement"),
    "by_factor": (by_factor, "factor"),
    "by_factor_of_a_difference": (by_factor_of_a_difference, "factor"),
    "by_zeroes": (by_zeroes, "factor"),
    "by_the_larger": (by_the_larger, "factor"),
    "by_the_way_two_are_added": (by_the_way_two_are_added, "select"),
}
"""Name -> kernel, the first rule that it must break."""
