"""Native kernels with the CPU device's entry, in LLVM IR, for the stand-in to run.

The run of a grid: y[i] = 2 x[i] for i < n, then what PARTS adds. Arguments:
pointers x, y, s (scratch) and the count n.
"""

import hashlib

from kernelsmith.model import Plan
from tests import native_ir
from tests.native_ir import Compiled, compile_ir

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


def compile_kind(kind: str) -> Compiled:
    """Machine code of a kernel of PARTS."""
    parts = {"body": "", "end": "", **PARTS[kind]}
    text = TEXT.format(symbol=f"k_{kind}", **parts)
    return compile_ir(text, hashlib.sha256(kind.encode()).hexdigest()[:24], arena_bytes=0)


def plan_of(elements: int) -> Plan:
    """y = 2 x over ``elements`` floats, in one launch of a grid of two dimensions."""
    return native_ir.plan_of(elements, grid=(2, 3, 1))
