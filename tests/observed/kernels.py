"""Kernels that touch memory as they should not, and some that touch it as they may."""

import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def tail_read(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x, mask=at < n)


@triton.jit
def tail_write(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0))


@triton.jit
def same_word(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.store(y_ptr + 3, tl.load(x_ptr))


@triton.jit
def pairs(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Two lanes write each word."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at // 2, x + x, mask=at < n)


@triton.jit
def shifted_in_place(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Reads what it then writes one further, in one statement."""
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at + 1, tl.load(y_ptr + at))


@triton.jit
def next_row(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Each program reads what the next one writes."""
    pid = tl.program_id(0)
    tl.store(y_ptr + pid, tl.load(y_ptr + (pid + 1) % tl.num_programs(0)))


@triton.jit
def count(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.atomic_add(y_ptr + tl.arange(0, BLOCK) % 4, 1)


@triton.jit
def count_and_cap(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) % 2 == 0:
        tl.atomic_add(y_ptr, 1)
    else:
        tl.atomic_max(y_ptr, 1)


@triton.jit
def count_and_look(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.atomic_add(y_ptr, 1)
    tl.store(y_ptr + 1 + tl.program_id(0), tl.load(y_ptr))


@triton.jit
def take_a_number(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """What the atomic found says which program came first."""
    number = tl.atomic_add(y_ptr, 1)
    tl.store(y_ptr + 1 + tl.program_id(0), number)


@triton.jit
def last_wins(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.atomic_xchg(y_ptr, 1)


@triton.jit
def float_total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + 2, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0)))


@triton.jit
def read_first(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(y_ptr + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def wait_for_next(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        while tl.load(y_ptr, volatile=True) != 1:
            pass
    else:
        tl.store(y_ptr, 1)


@triton.jit
def lock(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    while tl.atomic_cas(y_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr + 1 + tl.program_id(0), 1)


@triton.jit
def poll_by_adding(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    while tl.atomic_add(y_ptr, 0) == 0:
        pass


@triton.jit
def never(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    while n > 0:
        tl.store(y_ptr, 7)


@triton.jit
def long_count(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    turn = 0
    while turn < 1000:
        turn = (turn + n) % 1000
    tl.store(y_ptr, turn)


@triton.jit
def long_for(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    total = tl.load(x_ptr)
    for turn in range(1 << 40):
        total = (total * 3 + turn).to(total.dtype)
    tl.store(y_ptr, total)


@triton.jit
def halves(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """A loop that ends: nothing to find."""
    left = n
    turns = 0
    while left > 1:
        left = left // 2
        turns += 1
    tl.store(y_ptr + tl.program_id(0), turns)


@triton.jit
def either(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """A pointer of two parameters: bounds are those of any buffer."""
    at = tl.arange(0, BLOCK)
    pointer = tl.where(tl.program_id(0) % 2 == 0, x_ptr + at, y_ptr + at)
    tl.store(pointer, at.to(tl.int32), mask=at < n + tl.program_id(0))


@triton.jit
def odd_word(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Words at odd bytes: program p writes bytes 4p + 1 to 4p + 4, program 3 once more byte 4."""
    pid = tl.program_id(0)
    base = y_ptr.to(tl.pointer_type(tl.int8), bitcast=True) + 1
    word = base.to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(word + pid, 1)
    if pid == 3:
        tl.store(base + 3, tl.full((), 1, tl.int8))


@triton.jit(noinline=True)
def _put(pointer, value):
    tl.store(pointer, value)


@triton.jit
def by_call(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    _put(y_ptr + n + tl.program_id(0), 1)


@triton.jit
def by_index(index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Program p reads y where row p of the index says, then writes where row p + grid says."""
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    reads = tl.load(index_ptr + pid * BLOCK + lane)
    writes = tl.load(index_ptr + (tl.num_programs(0) + pid) * BLOCK + lane)
    got = tl.load(y_ptr + reads, mask=reads < 1000, other=0)
    tl.store(y_ptr + writes, got, mask=writes < 1000)


@triton.jit
def tile(x_ptr, w_ptr, y_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols = tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        ks = start + tl.arange(0, K)
        a = tl.load(
            x_ptr + rows[:, None] * k + ks[None, :],
            mask=(rows < m)[:, None] & (ks < k)[None, :],
            other=0.0,
        )
        b = tl.load(
            w_ptr + cols[None, :] * k + ks[:, None],
            mask=(cols < n)[None, :] & (ks < k)[:, None],
            other=0.0,
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
    acc = tl.exp(acc - tl.max(acc, axis=1)[:, None])
    inside = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(y_ptr + rows[:, None] * n + cols[None, :], acc, mask=inside)
