"""Kernels written in LLVM IR with the device's native entry, and a device that compiles them.

The launcher is tested on machine code of its own making, so that a fault in lowering or tracing
cannot hide or feign one here. ``load`` is the CPU device's.
"""

import hashlib
import sys
from pathlib import Path

import pytest

from kernelsmith.errors import CompileError
from kernelsmith.model import ObjectInfo

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.native_ir import Compiled, compile_ir, draw, inputs_of, plan_of  # noqa: E402

# Each program handles 64 floats: y[i] = 2 x[i] for its own i < n, then what MORE adds.
TEMPLATE = """
target triple = "x86_64-unknown-linux-gnu"
define void @{symbol}(ptr %args, ptr %grid, ptr %order, i64 %begin, i64 %end, ptr %arena) {{
entry:
  %xs = getelementptr i64, ptr %args, i64 0
  %x = load ptr, ptr %xs
  %ys = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %ys
  %ss = getelementptr i64, ptr %args, i64 2
  %s = load ptr, ptr %ss
  %ns = getelementptr i64, ptr %args, i64 3
  %n = load i64, ptr %ns
  {prologue}
  br label %programs
programs:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %next ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %program, label %done
program:
  %plain = icmp eq ptr %order, null
  br i1 %plain, label %direct, label %through
through:
  %op = getelementptr i32, ptr %order, i64 %i
  %o32 = load i32, ptr %op
  %o = sext i32 %o32 to i64
  br label %direct
direct:
  %pid = phi i64 [ %i, %program ], [ %o, %through ]
  %first = mul i64 %pid, 64
  br label %loop
loop:
  %j = phi i64 [ 0, %direct ], [ %j.next, %latch ]
  %at = add i64 %first, %j
  %inside = icmp slt i64 %at, %n
  br i1 %inside, label %store, label %latch
store:
  %xp = getelementptr float, ptr %x, i64 %at
  %v = load float, ptr %xp
  %w = fmul float %v, 2.0
  %yp = getelementptr float, ptr %y, i64 %at
  store float %w, ptr %yp
  {body}
  br label %latch
latch:
  %j.next = add i64 %j, 1
  %again = icmp slt i64 %j.next, 64
  br i1 %again, label %loop, label %next
next:
  {each}
  %i.next = add i64 %i, 1
  br label %programs
done:
  {epilogue}
  ret void
}}
"""

PARTS = {
    "double": {},
    "overrun": {
        "epilogue": "%e = getelementptr float, ptr %y, i64 %n\n  store float 1.0, ptr %e",
    },
    "underrun": {
        "epilogue": "%e = getelementptr float, ptr %y, i64 -1\n  store float 1.0, ptr %e",
    },
    # Far beyond any red zone, yet well within the reservation.
    "reads_past": {
        "epilogue": "%e = getelementptr float, ptr %y, i64 65536\n"
        "  %r = load volatile float, ptr %e\n  store float %r, ptr %s",
    },
    # Beyond whatever a timing pool has open.
    "reads_far": {
        "epilogue": "%e = getelementptr float, ptr %y, i64 16777216\n"
        "  %r = load volatile float, ptr %e\n  store float %r, ptr %s",
    },
    "spoils_input": {"epilogue": "store float 1.0, ptr %x"},
    "restores_input": {
        "epilogue": "%kept = load float, ptr %x\n  store volatile float 1.0, ptr %x\n"
        "  store float %kept, ptr %x",
    },
    "last_wins": {
        "each": "%pf = sitofp i64 %pid to float\n  store float %pf, ptr %y",
    },
    "reads_scratch": {
        "epilogue": "%r = load float, ptr %s\n  store float %r, ptr %y",
    },
    "leaves_tail": {
        "prologue": "%less = sub i64 %n, 1",
    },
    "marks_scratch": {
        "prologue": "%m = load i32, ptr %s\n  %seen = icmp eq i32 %m, 305419896\n"
        "  store i32 305419896, ptr %s\n  br i1 %seen, label %skip, label %fresh\n"
        "skip:\n  ret void\nfresh:",
    },
    # Rounds of the same arithmetic: slower by a factor, same bits.
    "slow": {
        "body": "br label %spin\nspin:\n  %k = phi i64 [ 0, %store ], [ %k.next, %spin ]\n"
        "  store volatile float %w, ptr %yp\n"
        "  %k.next = add i64 %k, 1\n  %turn = icmp slt i64 %k.next, 8\n"
        "  br i1 %turn, label %spin, label %spun\nspun:",
    },
    "traps": {"prologue": "store i32 1, ptr null"},
}


def kernel_ir(kind: str, symbol: str = "kernel") -> str:
    """The IR text of one kernel of PARTS."""
    parts = {"prologue": "", "body": "", "each": "", "epilogue": "", **PARTS[kind]}
    if kind == "leaves_tail":
        text = TEMPLATE.replace("icmp slt i64 %at, %n", "icmp slt i64 %at, %less")
    elif kind == "marks_scratch":
        text = TEMPLATE.replace("[ %begin, %entry ]", "[ %begin, %fresh ]")
    else:
        text = TEMPLATE
    return text.format(symbol=symbol, **parts)


class IrDevice:
    """A device whose "TTIR" is LLVM IR."""

    name = "cpu"

    def describe(self) -> dict[str, str]:
        return {"device": "ir"}

    def object_id(self, ttir: str) -> str:
        return hashlib.sha256(ttir.encode()).hexdigest()[:16]

    def compile_ttir(self, text: str) -> Compiled:
        if text.startswith("refuse"):
            raise CompileError("is not lowered", op="tt.histogram", line="kernel.py:12")
        if text.startswith("fault"):
            raise KeyError("tt.unheard_of")
        return compile_ir(text, self.object_id(text))

    def load(self, info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0) -> object:
        from kernelsmith.devices.cpu.kernel import load

        return load(info, code, base_pad_bytes=base_pad_bytes)


class Bench:
    """What the tests need to make jobs: objects compiled once, plans, inputs, folders."""

    def __init__(self, folder: Path, objects: dict[str, Compiled]) -> None:
        self.folder = folder
        self.device = IrDevice()
        self.objects = objects
        self.draw = draw
        self.plan = plan_of
        self.inputs = inputs_of
        self.ir = kernel_ir

    def lay(self, kinds: dict[str, str]) -> tuple[dict[str, ObjectInfo], dict[str, str]]:
        """Writes the objects for ``kinds`` (class id -> kind) beside the job; returns the job's
        ``objects`` and ``object_of``."""
        used = {}
        for kind in kinds.values():
            compiled = self.objects[kind]
            (self.folder / f"{compiled.info.id}.obj").write_bytes(compiled.code)
            used[compiled.info.id] = compiled.info
        return used, {name: self.objects[kind].info.id for name, kind in kinds.items()}


@pytest.fixture(scope="session")
def compiled_kernels() -> dict[str, Compiled]:
    device = IrDevice()
    return {kind: device.compile_ttir(kernel_ir(kind, f"k_{kind}")) for kind in PARTS}


@pytest.fixture
def bench(tmp_path: Path, compiled_kernels: dict[str, Compiled]) -> Bench:
    return Bench(tmp_path, compiled_kernels)
