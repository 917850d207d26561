"""``tt.dot``: one fma a k, k ascending, starting from the accumulator.

Floats accumulate in float32 (float64 for float64 inputs); bfloat16 and float16 products are exact
in float32's fma. float32 inputs are IEEE whatever ``input_precision`` says. Integers wrap.
"""

from kernelsmith.devices.cpu import lower_dot_fast
from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.codegen_text import LANES
from kernelsmith.devices.cpu.lower_evaluate import evaluate, read_buffer, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, as_vector, vector_form
from kernelsmith.devices.cpu.lower_nest import lane_axis, lane_count, over
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Lowering, index_const
from kernelsmith.devices.cpu.ttir import Op, Ty, Value


def widen(lo: Lowering, ctx: Context, form: Form, elem: str) -> Form:
    """A form converted to the accumulator's element type."""
    if form.elem == elem:
        return form
    s = Asm(lo.em, form.level, 0 if form.kind == "U" else ctx.lanes)
    text = str(form.val) if form.kind == "U" else as_vector(lo.em, form, ctx.lanes)
    if elem == "i32":
        wide = s.cast("sext", form.elem, text, "i32")
    else:
        wide = fl.to_float(s, form.elem, text)
    return Form(form.kind, elem, wide, form.level, 0, form.dirty)


def _pack(lo: Lowering, value: Value, elem: str) -> Buffer:
    """The operand in the arena, dense, in the accumulator's type."""
    buffer = lo.new_buffer(Ty(elem, value.ty.shape), False)

    def body(ctx: Context, index: tuple[Form, ...]) -> None:
        form = widen(lo, ctx, evaluate(lo, ctx, value, index), elem)
        write_buffer(lo, ctx, buffer, index, form)

    over(lo, value.ty.shape, lane_axis(value.ty.shape), body)
    return buffer


def dot(lo: Lowering, op: Op, into: Buffer | None = None) -> None:
    """Lowers the op; the result is a buffer (``into`` if given)."""
    if lower_dot_fast.applies(lo, op):
        lower_dot_fast.dot(lo, op, widen)
        return
    result = op.results[0].ty
    elem = {"f16": "f32", "bf16": "f32"}.get(result.elem, result.elem)
    lhs, rhs = (_pack(lo, operand, elem) for operand in op.operands[:2])
    out = into or lo.new_buffer(result, result.elem in ("f32", "f64"))
    k_size = op.operands[0].ty.shape[-1]

    def body(ctx: Context, index: tuple[Form, ...]) -> None:
        acc = widen(lo, ctx, evaluate(lo, ctx, op.operands[2], index), elem)
        if ctx.lanes > 1:
            acc = vector_form(lo.em, acc, ctx.lanes)
        *batch, m, n = index
        with lo.em.loop(k_size) as loop:
            depth = lo.em.depth
            kind = Asm(lo.em, depth, ctx.lanes if ctx.lanes > 1 else 0)
            name = loop.carry(kind.of(elem), str(acc.val))
            k = Form("U", "i64", loop.index, depth)
            inner = Context(ctx.lanes, depth)
            a = read_buffer(lo, inner, lhs, (*batch, m, k))
            b = read_buffer(lo, inner, rhs, (*batch, k, n))
            texts = [as_vector(lo.em, f, ctx.lanes) if ctx.lanes > 1 else str(f.val)
                     for f in (a, b)]
            if elem == "i32":
                now = kind.bin("add", "i32", kind.bin("mul", "i32", *texts), name)
            else:
                now = fl.fma(kind, fl.compute_type(elem), *texts, name)
            loop.update(name, now)
        depth = lo.em.depth
        s = Asm(lo.em, depth, ctx.lanes if ctx.lanes > 1 else 0)
        if result.elem in ("f16", "bf16"):
            now = fl.from_float(s, result.elem, now)
        write_buffer(lo, ctx, out, index, Form(acc.kind, result.elem, now, depth, 0, True))

    over(lo, result.shape, len(result.shape) - 1, body)
    lo.env[op.results[0]] = out


__all__ = ["LANES", "dot", "index_const", "lane_count"]
