"""Tensor descriptors, made in the kernel or on the host, and block pointers: what is inside is
read and written, what is outside is padding and stays untouched."""

import inspect
from collections.abc import Callable, Iterator

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelsmith.devices.cpu import activate, deactivate

HAS_BLOCK_POINTERS = "removed" not in inspect.getsource(tl.make_block_ptr)


@pytest.fixture(autouse=True)
def _active() -> Iterator[None]:
    activate()
    yield
    deactivate()


@triton.jit
def move3(x, y, A, B, C, S: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [A, B, C], [B * C, C, 1], [2, S, S])
    target = tl.make_tensor_descriptor(y, [A, B, C], [B * C, C, 1], [2, S, S])
    target.store([1, 2, 3], source.load([1, -1, 2]))


def test_a_block_that_hangs_over_every_edge_reads_zeros_and_writes_what_is_inside() -> None:
    x, y, want = torch.rand(4, 12, 16), torch.zeros(4, 12, 16), torch.zeros(4, 12, 16)
    padded = torch.zeros(6, 21, 26)
    padded[:4, 1:13, :16] = x  # row -1 is padded's row 0
    want[1:3, 2:10, 3:11] = padded[1:3, 0:8, 2:10]
    move3[(1,)](x, y, 4, 12, 16, S=8)
    assert torch.equal(y, want)


@triton.jit
def combine(x, y, M, N, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BM, BN])
    block = source.load([0, 0])
    if KIND == "add":
        target.atomic_add([0, 0], block)
    elif KIND == "min":
        target.atomic_min([0, 0], block)
    elif KIND == "max":
        target.atomic_max([0, 0], block)
    elif KIND == "and":
        target.atomic_and([0, 0], block)
    elif KIND == "or":
        target.atomic_or([0, 0], block)
    else:
        target.atomic_xor([0, 0], block)


INTEGER: dict[str, Callable[..., torch.Tensor]] = {
    "min": torch.minimum,
    "max": torch.maximum,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
}


@pytest.mark.parametrize("kind", list(INTEGER))
def test_reductions_through_a_descriptor_of_integers(kind: str) -> None:
    x, y = (torch.randint(-40, 40, (10, 20), dtype=torch.int32) for _ in range(2))
    want = INTEGER[kind](x, y)
    combine[(1,)](x, y, 10, 20, KIND=kind, BM=16, BN=32)
    assert torch.equal(y, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_additions_through_a_descriptor(dtype: torch.dtype) -> None:
    x, y = (torch.randint(-40, 40, (10, 20)).to(dtype) for _ in range(2))
    want = x + y
    combine[(1,)](x, y, 10, 20, KIND="add", BM=16, BN=32)
    assert torch.equal(y, want)


@triton.jit
def permute_rows(x, y, rows, M, N, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, BN])
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [1, BN])
    at = tl.load(rows + tl.arange(0, 16))
    target.scatter(source.gather(at, 0), at, 0)


def test_gather_and_scatter_by_rows_leave_out_rows_that_are_not_there() -> None:
    x, y = torch.rand(20, 32), torch.zeros(20, 32)
    rows = torch.tensor(
        [3, 1, 19, 25, -1, 0, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], dtype=torch.int32
    )
    permute_rows[(1,)](x, y, rows, 20, 32, BN=32)
    inside = [int(r) for r in rows if 0 <= r < 20]
    want = torch.zeros(20, 32)
    want[inside] = x[inside]
    assert torch.equal(y, want)


@triton.jit
def double(source, target, BM: tl.constexpr):
    row = tl.program_id(0) * BM
    target.store([row, 0], source.load([row, 0]) * 2)


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_a_descriptor_made_on_the_host_is_an_argument(padding: str) -> None:
    x, y = torch.rand(30, 20), torch.ones(32, 32)
    source = TensorDescriptor(x, [30, 20], [20, 1], [16, 32], padding=padding)
    double[(2,)](source, TensorDescriptor.from_tensor(y, [16, 32]), BM=16)
    assert torch.equal(y[:30, :20], 2 * x)
    outside = torch.cat([y[30:].flatten(), y[:30, 20:].flatten()])
    assert bool(outside.isnan().all() if padding == "nan" else (outside == 0).all())


@triton.jit
def nested(pair, out, BM: tl.constexpr, BN: tl.constexpr):
    block = pair[0].load([0, 0]) + pair[1]
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(out + at, block)


def test_a_descriptor_may_stand_in_a_tuple() -> None:
    x, y = torch.rand(16, 16), torch.zeros(16, 16)
    nested[(1,)]((TensorDescriptor.from_tensor(x, [16, 16]), 3), y, BM=16, BN=16)
    assert torch.equal(y, x + 3)


def test_rounding_to_tf32_keeps_ten_bits_where_the_release_has_it() -> None:
    if "round_f32_to_tf32" not in TensorDescriptor.__dataclass_fields__:
        pytest.skip("Triton 3.6 has no such option")
    x, y = torch.rand(16, 32), torch.zeros(16, 32)
    source = TensorDescriptor(x, [16, 32], [32, 1], [16, 32], round_f32_to_tf32=True)
    double[(1,)](source, TensorDescriptor.from_tensor(y, [16, 32]), BM=16)
    bits = (y / 2).view(torch.int32)
    assert (bits & 0x1FFF == 0).all()
    assert ((y / 2 - x).abs() <= x * 2.0**-11).all()


@triton.jit
def walk(x, y, M, N, PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_block_ptr(x, (M, N), (N, 1), (0, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(y, (BM, 64), (64, 1), (0, 0), (BM, BN), (1, 0))
    for _ in range(0, 64, BN):
        tl.store(target, tl.load(source, boundary_check=(0, 1), padding_option=PAD))
        source = tl.advance(source, (0, BN))
        target = tl.advance(target, (0, BN))


@pytest.mark.skipif(not HAS_BLOCK_POINTERS, reason="Triton 3.9 has no block pointers")
@pytest.mark.filterwarnings("ignore:.*make_block_ptr is deprecated")
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_block_pointers_advance_and_pad(padding: str) -> None:
    x, y = torch.rand(30, 50), torch.ones(32, 64)
    walk[(1,)](x, y, 30, 50, PAD=padding, BM=32, BN=16)
    assert torch.equal(y[:30, :50], x)
    outside = torch.cat([y[30:].flatten(), y[:30, 50:].flatten()])
    assert bool(outside.isnan().all() if padding == "nan" else (outside == 0).all())
