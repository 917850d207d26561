"""The blocked inner loops of ``tl.dot`` against the plain triple loop, bit for bit."""

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from kernelsmith.devices.cpu.codegen_target import compile_ir, features_of
from kernelsmith.devices.cpu.elf import link
from kernelsmith.devices.cpu.micro_dot import DECLARATIONS, dot_rows, dot_tile, fits, pack_rows

POINTER, WIDE = ctypes.c_void_p, ctypes.c_int64
PLAIN = """
declare float @llvm.fma.f32(float, float, float)
define void @plain(ptr %acc, ptr %a, ptr %b, i64 %bm, i64 %bn, i64 %bk) {
entry:
  br label %m.head
m.head:
  %m = phi i64 [0, %entry], [%m.next, %m.latch]
  %m.acc = mul i64 %m, %bn
  %m.a = mul i64 %m, %bk
  br label %n.head
n.head:
  %n = phi i64 [0, %m.head], [%n.next, %n.latch]
  %at = add i64 %m.acc, %n
  %place = getelementptr float, ptr %acc, i64 %at
  %first = load float, ptr %place
  br label %k.head
k.head:
  %k = phi i64 [0, %n.head], [%k.next, %k.head]
  %sum = phi float [%first, %n.head], [%sum.next, %k.head]
  %a.at = add i64 %m.a, %k
  %a.place = getelementptr float, ptr %a, i64 %a.at
  %x = load float, ptr %a.place
  %k.row = mul i64 %k, %bn
  %b.at = add i64 %k.row, %n
  %b.place = getelementptr float, ptr %b, i64 %b.at
  %y = load float, ptr %b.place
  %sum.next = call float @llvm.fma.f32(float %x, float %y, float %sum)
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %bk
  br i1 %k.more, label %k.head, label %n.latch
n.latch:
  store float %sum.next, ptr %place
  %n.next = add i64 %n, 1
  %n.more = icmp ult i64 %n.next, %bn
  br i1 %n.more, label %n.head, label %m.latch
m.latch:
  %m.next = add i64 %m, 1
  %m.more = icmp ult i64 %m.next, %bm
  br i1 %m.more, label %m.head, label %done
done:
  ret void
}
"""


def compiled(text: str, name: str, *types: type) -> Callable[..., None]:
    declarations = "\n".join(f"declare {line}" for line in DECLARATIONS.values())
    ir = f"{declarations}\n{text.replace('define internal', 'define')}"
    image = link(compile_ir(ir, features_of("host")))
    function = ctypes.CFUNCTYPE(None, *types)(image.address(name))
    function.keep = image  # type: ignore[attr-defined]
    return function


@pytest.fixture(scope="module")
def plain() -> Callable[..., None]:
    return compiled(PLAIN, "plain", POINTER, POINTER, POINTER, WIDE, WIDE, WIDE)


def aligned(shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    room = np.zeros(size + 16, np.float32)
    start = (-room.ctypes.data // 4) % 16
    return room[start : start + size].reshape(shape)


def values(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """bfloat16 values with exponents so wide that every rounding and its order tells."""
    draw = np.random.default_rng(seed)
    wide = draw.standard_normal(shape) * np.exp2(draw.integers(-12, 12, shape))
    words = wide.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    found = aligned(shape)
    found[:] = words.view(np.float32)
    return found


def stored(rows: np.ndarray, item: str, pad: int) -> tuple[np.ndarray, int]:
    """The rows as ``item`` in memory with ``pad`` more elements a row; bytes between rows."""
    words = rows.view(np.uint32)
    memory = (words >> 16).astype(np.uint16) if item == "bf16" else words
    wide = np.full((rows.shape[0], rows.shape[1] + pad), 0x7F80, memory.dtype)
    wide[:, : rows.shape[1]] = memory
    return wide, wide.strides[0]


@pytest.mark.parametrize("item", ["bf16", "f32"])
@pytest.mark.parametrize(
    ("bm", "bk", "bn", "pad"), [(1, 64, 64, 0), (2, 32, 16, 3), (16, 64, 32, 1)]
)
def test_fused_and_packed_dots_have_the_bits_of_the_plain_loop(
    plain: Callable[..., None], item: str, bm: int, bk: int, bn: int, pad: int
) -> None:
    assert fits(bm, bk, bn, item)
    a, rows, start = values(1, (bm, bk)), values(2, (bn, bk)), values(3, (bm, bn))
    memory, row_bytes = stored(rows, item, pad)
    b = aligned((bk, bn))
    b[:] = rows.T
    wanted, fused, tiled = (aligned((bm, bn)) for _ in range(3))
    for acc in (wanted, fused, tiled):
        acc[:] = start
    plain(wanted.ctypes.data, a.ctypes.data, b.ctypes.data, bm, bn, bk)

    dot = compiled(dot_rows("f", bm, bk, bn, item), "f", POINTER, POINTER, POINTER, WIDE)
    dot(fused.ctypes.data, a.ctypes.data, memory.ctypes.data, row_bytes)
    assert (fused.view(np.uint32) == wanted.view(np.uint32)).all()

    packed = aligned((bk, bn))
    pack = compiled(pack_rows("p", bk, bn, item), "p", POINTER, POINTER, WIDE)
    pack(packed.ctypes.data, memory.ctypes.data, row_bytes)
    assert (packed.view(np.uint32) == b.view(np.uint32)).all()

    tile = compiled(dot_tile("t", bm, bk, bn), "t", POINTER, POINTER, POINTER)
    tile(tiled.ctypes.data, a.ctypes.data, packed.ctypes.data)
    assert (tiled.view(np.uint32) == wanted.view(np.uint32)).all()


def test_tiles_that_do_not_fill_a_block_do_not_fit() -> None:
    assert not fits(16, 16, 64, "bf16")
    assert not fits(16, 64, 8, "f32")
    assert not fits(16, 64, 64, "f16")
