"""Native kernels with the CPU device's entry, in LLVM IR, for the stand-in to run.

The run of a grid: y[i] = 2 x[i] for i < n, then what PARTS adds. Arguments:
pointers x, y, s (scratch) and the count n.
"""

import hashlib
from dataclasses import dataclass

from kernelsmith.model import (
    Buffer,
    Inputs,
    InputSpec,
    Launch,
    LaunchArg,
    ObjectInfo,
    OutputRef,
    Plan,
    TensorMeta,
)

TEXT = """
target triple = "x86_64-unknown-linux-gnu"
define void @{symbol}(ptr %args, ptr %grid, ptr %order, i64 %begin, i64 %end, ptr %arena) {{
entry:
  %x = load ptr, ptr %args
  %ys = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %ys
  %ss = getelementptr i64, ptr %args, i64 2
  %s = load ptr, ptr %ss
  %ns = getelementptr i64, ptr %args, i64 3
  %n = load i64, ptr %ns
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %xp = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %xp
  %w = fmul float %v, 2.0
  %yp = getelementptr float, ptr %y, i64 %i
  store volatile float %w, ptr %yp
  {body}
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %loop
done:
  {end}
  ret void
}}
"""
PARTS = {
    "double": {},
    "overrun": {"end": "%e = getelementptr float, ptr %y, i64 %n\n  store float 1.0, ptr %e"},
    "underrun": {"end": "%e = getelementptr float, ptr %y, i64 -1\n  store float 1.0, ptr %e"},
    "spoils_input": {"end": "store float 1.0, ptr %x"},
    "reads_past": {
        "end": "%e = getelementptr float, ptr %x, i64 %n\n"
        "  %r = load volatile float, ptr %e\n  store float %r, ptr %s"
    },
    "reads_scratch": {"end": "%r = load float, ptr %s\n  store float %r, ptr %y"},
    "traps": {"end": "store i32 1, ptr null"},
    "slow": {
        "body": "br label %spin\nspin:\n  %k = phi i64 [ 0, %body ], [ %k.next, %spin ]\n"
        "  store volatile float %w, ptr %yp\n  %k.next = add i64 %k, 1\n"
        "  %turn = icmp slt i64 %k.next, 8\n  br i1 %turn, label %spin, label %spun\nspun:"
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    info: ObjectInfo
    code: bytes


def compile_kind(kind: str) -> Compiled:
    """Machine code of a kernel of PARTS."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parts = {"body": "", "end": "", **PARTS[kind]}
    text = TEXT.format(symbol=f"k_{kind}", **parts)
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, reloc="pic", codemodel="small"
    )
    code = machine.emit_object(llvm.parse_assembly(text))
    info = ObjectInfo(
        id=hashlib.sha256(kind.encode()).hexdigest()[:24],
        symbol=f"k_{kind}",
        params=("ptr", "ptr", "ptr", "i32"),
        arena_bytes=0,
        code_hash=hashlib.sha256(code).hexdigest(),
    )
    return Compiled(info=info, code=code)


def plan_of(elements: int) -> Plan:
    """y = 2 x over ``elements`` floats, one scratch buffer."""
    pointers = tuple(LaunchArg(kind="ptr", buffer=index) for index in range(3))
    launch = Launch(
        plan_class="k",
        plan_class_unaligned="k-unaligned",
        grid=(2, 3, 1),
        args=(*pointers, LaunchArg(kind="i32", value=elements)),
    )
    meta = TensorMeta(shape=(elements,), strides=(1,), dtype="float32")
    return Plan(
        buffers=(
            Buffer(nbytes=4 * elements, arg="x"),
            Buffer(nbytes=4 * elements),
            Buffer(nbytes=64),
        ),
        launches=(launch,),
        outputs=(OutputRef(buffer=1, offset_bytes=0, meta=meta),),
    )


def inputs_of(elements: int, seed: int = 7) -> Inputs:
    meta = TensorMeta(shape=(elements,), strides=(1,), dtype="float32")
    spec = InputSpec(name="x", meta=meta, recipe="normal", base_shape=(elements,), token_axis=0)
    return Inputs(tensors=(spec,), scalars=(), regime="plain", seed=seed)
