"""A TTIR kernel as one exported LLVM function: the loop over programs and the op dispatch."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelsmith.devices.cpu import lower_elementwise, lower_memory, lower_observe
from kernelsmith.devices.cpu.codegen_text import Emitter, Features, Stream
from kernelsmith.devices.cpu.lower_atomic import atomic
from kernelsmith.devices.cpu.lower_blocks import run_blocks
from kernelsmith.devices.cpu.lower_carry import scalar
from kernelsmith.devices.cpu.lower_constant import constant
from kernelsmith.devices.cpu.lower_control import lower_for, lower_if, lower_while
from kernelsmith.devices.cpu.lower_evaluate import evaluate
from kernelsmith.devices.cpu.lower_forms import Form
from kernelsmith.devices.cpu.lower_gather import gather, histogram
from kernelsmith.devices.cpu.lower_map import map_elementwise
from kernelsmith.devices.cpu.lower_plan import index_ops, is_lazy, plan
from kernelsmith.devices.cpu.lower_reduce import reduce_and_keep
from kernelsmith.devices.cpu.lower_report import device_assert, device_print
from kernelsmith.devices.cpu.lower_roots import dot_in_place, settle, store
from kernelsmith.devices.cpu.lower_scan import scan
from kernelsmith.devices.cpu.lower_state import Context, Lazy, Lowering, Scalar, index_const
from kernelsmith.devices.cpu.report import HEADER_BYTES, Site
from kernelsmith.devices.cpu.ttir import Block, Module, Op, Value
from kernelsmith.devices.cpu.ttir_merge import merged
from kernelsmith.devices.cpu.ttir_ops import ATOMIC, ELEMENTWISE, refuse
from kernelsmith.errors import CompileError

_DIMS = {"x": 0, "y": 1, "z": 2}
_ROOTS = {
    **dict.fromkeys(ATOMIC, atomic),
    "tt.print": device_print,
    "tt.assert": device_assert,
    "tt.store": store,
    "tt.dot": dot_in_place,
    "tt.histogram": histogram,
    "tt.gather": gather,
    **lower_observe.NOTES,
}
_REGIONS = {
    "scf.for": lower_for,
    "scf.if": lower_if,
    "scf.while": lower_while,
    "tt.reduce": reduce_and_keep,
    "tt.scan": scan,
    "tt.map_elementwise": map_elementwise,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredText:
    """LLVM IR of a kernel, the arena bytes that one program needs, and what it may say."""

    ir: str
    arena_bytes: int
    reports: tuple[Site, ...] = ()


def lower(module: Module, features: Features, symbol: str, *, plain: bool = False) -> LoweredText:
    """Lowers the kernel of a module. ``plain``: without the faster ways, for comparison.

    Raises:
        CompileError: an op or form this device does not lower, by op name and source line.
    """
    module = module if plain else merged(module)
    kernel = module.kernel
    em = Emitter(features)
    lo = Lowering(em, module.callees, plain=plain)
    index_ops(lo, kernel.blocks)
    lo.kept = plan(lo, kernel.blocks)
    em.scratch(HEADER_BYTES)
    em.streams[0].lines.append("  %spill = getelementptr i8, ptr %arena, i64 0")
    for position, arg in enumerate(kernel.args):
        _bind_argument(lo, position, arg)
    for axis in range(3):
        em.streams[0].lines += [
            f"  %grid.p{axis} = getelementptr i32, ptr %grid, i64 {axis}",
            f"  %grid.{axis} = load i32, ptr %grid.p{axis}, align 4",
        ]
    em.streams.append(Stream([], "program"))
    _program_ids(em)
    run_blocks(lo, kernel.blocks, run)
    body = em.streams.pop()
    return LoweredText(
        ir=_text(em, symbol, body), arena_bytes=em.arena_bytes, reports=tuple(lo.reports)
    )


def _bind_argument(lo: Lowering, position: int, arg: Value) -> None:
    if arg.ty.shape:
        raise CompileError("a kernel parameter is a tensor", op="tt.func")
    em, t = lo.em, lower_memory.memory_type(arg.ty.elem)
    at = em.op(0, f"getelementptr i8, ptr %args, i64 {8 * position}")
    got = em.op(0, f"load {t}, ptr {at}, align 8")
    if arg.ty.elem == "i1":
        got = em.op(0, f"trunc i8 {got} to i1")
    lo.env[arg] = Scalar(Form("U", arg.ty.elem, got, 0))


def _program_ids(em: Emitter) -> None:
    """%pid.0, %pid.1, %pid.2 of the present program (level 1)."""
    lines = em.streams[1].lines
    lines += [
        "  %plain = trunc i64 %program.i to i32",
        "  %ordered = icmp ne ptr %order, null",
        "  br i1 %ordered, label %permuted, label %known",
        "permuted:",
        "  %order.p = getelementptr i32, ptr %order, i64 %program.i",
        "  %order.v = load i32, ptr %order.p, align 4",
        "  br label %known",
        "known:",
        "  %pid = phi i32 [%plain, %program], [%order.v, %permuted]",
    ]
    lines += [
        "  %pid.0 = urem i32 %pid, %grid.0",
        "  %pid.yz = udiv i32 %pid, %grid.0",
        "  %pid.1 = urem i32 %pid.yz, %grid.1",
        "  %pid.2 = udiv i32 %pid.yz, %grid.1",
    ]
    em.streams[1].label = "known"


def _text(em: Emitter, symbol: str, body: Stream) -> str:
    """The whole module."""
    entry = em.streams[0].lines
    wide = "512" if em.features.wide else "256"
    lines = [
        'target triple = "x86_64-unknown-linux-gnu"',
        *(f"declare {signature}" for signature in em.declarations.values()),
        *em.functions.values(),
        f'define void @"{symbol}"(ptr noalias readonly %args, ptr noalias readonly %grid, '
        "ptr noalias readonly %order, i64 %begin, i64 %end, ptr noalias align 64 %arena) "
        "#0 align 64 {",
        "entry:",
        *entry,
        "  %any = icmp slt i64 %begin, %end",
        "  br i1 %any, label %pre, label %done",
        "pre:",
        "  br label %program",
        "program:",
        "  %program.i = phi i64 [%begin, %pre], [%program.n, %next]",
        *body.lines,
        "  br label %next",
        "next:",
        "  %program.n = add nsw i64 %program.i, 1",
        "  %program.c = icmp slt i64 %program.n, %end",
        "  br i1 %program.c, label %program, label %done",
        "done:",
        "  ret void",
        "}",
        'attributes #0 = { nounwind "no-builtins" "frame-pointer"="none" '
        f'"target-cpu"="{em.features.cpu}" "prefer-vector-width"="{wide}" '
        '"min-legal-vector-width"="512" }',
        '!0 = !{!"llvm.loop.align", i32 64}',
        *(f"!{i} = distinct !{{!{i}, !0}}" for i in range(1, em.loops + 1)),
    ]
    return "\n".join(lines) + "\n"


def run(lo: Lowering, ops: Sequence[Op]) -> None:
    """Lowers straight-line ops at the innermost open level."""
    for op in ops:
        try:
            _lower_op(lo, op)
        except CompileError as error:
            if error.line or not op.line:
                raise
            raise CompileError(
                f"{error.message} (at {op.line})", op=error.op, line=op.line, hint=error.hint
            ) from error
        except (AssertionError, LookupError, ValueError) as error:
            # A form that the lowering did not foresee; the kernel may be right.
            where = f" at {op.line}" if op.line else ""
            raise CompileError(
                f"the cpu device failed at {op.name}{where} ({type(error).__name__}: {error})",
                op=op.name,
                line=op.line,
                hint="this is a gap in the device: please report it with the kernel",
            ) from error


def _lower_op(lo: Lowering, op: Op) -> None:
    name = op.name
    if is_lazy(op):
        _lazy(lo, op)
    elif name == "arith.constant":
        lo.env[op.results[0]] = Scalar(constant(op))
    elif name == "ub.poison":
        elem = op.results[0].ty.elem
        lo.env[op.results[0]] = Scalar(Form("U", elem, lower_memory.zero(elem), 0))
    elif name in ELEMENTWISE:
        forms = [scalar(lo, v) for v in op.operands]
        form = lower_elementwise.apply(lo.em, 1, op, forms, op.results[0].ty)
        lo.env[op.results[0]] = Scalar(form)
    elif name in ("tt.get_program_id", "tt.get_num_programs"):
        axis = _DIMS[str(op.attrs["head"]).split()[0]]
        if name == "tt.get_program_id":
            form = Form("U", "i32", f"%pid.{axis}", 1)
        else:
            form = Form("U", "i32", f"%grid.{axis}", 0)
        lo.env[op.results[0]] = Scalar(form)
    elif name == "tt.load":
        lo.env[op.results[0]] = Scalar(_scalar_load(lo, op))
    elif name in _ROOTS:
        settle(lo, op)
        _ROOTS[name](lo, op)
        lo.consumed(op)
    elif name in _REGIONS:
        settle(lo, op)
        _REGIONS[name](lo, op, run)
        lo.consumed(op)
    elif name == "tt.call":
        _call(lo, op)
    elif name == "tt.unsplat":
        settle(lo, op)
        lo.env[op.results[0]] = Scalar(_unsplat(lo, op))
    elif name not in ("tt.return", "gpu.barrier", "ttg.barrier", "llvm.intr.assume"):
        raise refuse(name, op.line)


def _lazy(lo: Lowering, op: Op) -> None:
    for result in op.results:
        if not lo.uses.get(result):
            continue
        lo.env[result] = Lazy(op)
        if result in lo.kept:
            lo.waiting[result] = op
        elif op.name == "tt.load":
            lo.pending[result] = op
            # A called function's body is lowered at each call.
            lo.lowered -= lo.roots.get(result, set())
    for result in op.results:
        lo.env.setdefault(result, Lazy(op))


def _scalar_load(lo: Lowering, op: Op) -> Form:
    forms = [scalar(lo, v) for v in op.operands]
    mask = forms[1] if len(forms) > 1 else None
    other = forms[2] if len(forms) > 2 else None
    return lower_memory.load(lo.em, 1, forms[0], mask, other, op.results[0].ty.elem, lo.em.depth)


def _unsplat(lo: Lowering, op: Op) -> Form:
    shape = op.operands[0].ty.shape
    return evaluate(lo, Context(1, lo.em.depth), op.operands[0], (index_const(0),) * len(shape))


def _call(lo: Lowering, op: Op) -> None:
    """Calls are inlined: the callee's ops run with fresh values."""
    callee = lo.callees.get(str(op.attrs["callee"]))
    if callee is None:
        raise refuse("tt.call", op.line)
    if callee.name in lo.calls:
        raise CompileError(
            f"{callee.name} calls itself, which is not lowered on the cpu device",
            op=op.name,
            line=op.line,
            hint="a kernel has no stack for recursion: use a loop",
        )
    names: dict[Value, Value] = dict(zip(callee.args, op.operands, strict=True))
    blocks = tuple(_clone(block, names) for block in callee.blocks)
    index_ops(lo, blocks)
    lo.kept |= plan(lo, blocks)
    lo.calls.append(callee.name)
    bounds = run_blocks(lo, blocks, run)
    lo.calls.pop()
    lo.env.update(zip(op.results, bounds, strict=True))


def _clone(block: Block, names: dict[Value, Value]) -> Block:
    def fresh(value: Value) -> Value:
        names[value] = Value(value.name, value.ty)
        return names[value]

    args = tuple(fresh(a) for a in block.args)
    ops = []
    for op in block.ops:
        operands = tuple(names[o] for o in op.operands)
        regions = tuple(_clone(r, names) for r in op.regions)
        results = tuple(fresh(r) for r in op.results)
        ops.append(Op(op.name, operands, results, op.attrs, regions, op.line))
    return Block(args, tuple(ops), block.label)
