"""Objects compiled from LLVM IR by hand, so that these tests need no lowering of Triton."""

from collections.abc import Callable

import llvmlite.binding as llvm
import pytest

from kernelsmith.model import ObjectInfo

# y[pid] = x[pid] * table[pid % 4], read through the arena by a memcpy of n bytes.
SCALE_IR = """
target triple = "x86_64-unknown-linux-gnu"
@table = private unnamed_addr constant [4 x float] [float 1.0, float 2.0, float 3.0, float 4.0]
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @scale(ptr %args, ptr %grid, ptr %order, i64 %begin, i64 %end, ptr %arena) align 64 {
entry:
  %x = load ptr, ptr %args
  %y_slot = getelementptr i8, ptr %args, i64 8
  %y = load ptr, ptr %y_slot
  %n_slot = getelementptr i8, ptr %args, i64 16
  %n = load i64, ptr %n_slot
  %ordered = icmp ne ptr %order, null
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %tail ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  br i1 %ordered, label %permuted, label %tail
permuted:
  %order_slot = getelementptr i32, ptr %order, i64 %i
  %id = load i32, ptr %order_slot
  %id64 = sext i32 %id to i64
  br label %tail
tail:
  %pid = phi i64 [ %id64, %permuted ], [ %i, %body ]
  call void @llvm.memcpy.p0.p0.i64(ptr %arena, ptr %x, i64 %n, i1 false)
  %x_slot = getelementptr float, ptr %arena, i64 %pid
  %value = load float, ptr %x_slot
  %column = and i64 %pid, 3
  %factor_slot = getelementptr float, ptr @table, i64 %column
  %factor = load float, ptr %factor_slot
  %product = fmul float %value, %factor
  %out_slot = getelementptr float, ptr %y, i64 %pid
  store float %product, ptr %out_slot
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
"""
SCALE_INFO = ObjectInfo(
    id="scale", symbol="scale", params=("ptr", "ptr", "i64"), arena_bytes=256, code_hash=""
)


def _compile_ir(ir: str, reloc: str = "pic") -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc=reloc, codemodel="small", opt=2
    )
    return bytes(machine.emit_object(llvm.parse_assembly(ir)))


@pytest.fixture(scope="session")
def compile_ir() -> Callable[..., bytes]:
    return _compile_ir


@pytest.fixture(scope="session")
def scale_object() -> bytes:
    return _compile_ir(SCALE_IR)


@pytest.fixture(scope="session")
def scale_static_object() -> bytes:
    return _compile_ir(SCALE_IR, reloc="static")


@pytest.fixture(scope="session")
def scale_info() -> ObjectInfo:
    return SCALE_INFO
