"""``tt.gather`` and ``tt.histogram``: elements at places, and counts at places, that data name."""

from kernelsmith.devices.cpu.lower_evaluate import evaluate, read_buffer, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, as_vector
from kernelsmith.devices.cpu.lower_memory import buffer_pointer
from kernelsmith.devices.cpu.lower_nest import dense, lane_axis, over
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Index, Lowering
from kernelsmith.devices.cpu.ttir import BITS, Op


def gather(lo: Lowering, op: Op) -> None:
    """``out[.., i, ..] = source[.., index[.., i, ..], ..]`` along an axis.

    An index counts modulo the axis' size, so that none reads outside of the source."""
    source, places = op.operands
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    held = dense(lo, source)
    size = source.ty.shape[axis]
    out = lo.new_buffer(op.results[0].ty, held.dirty)

    def body(ctx: Context, index: Index) -> None:
        place = _wide(lo, ctx, evaluate(lo, ctx, places, index))
        at = _bitwise(lo, ctx, "and", place, size - 1)
        form = read_buffer(lo, ctx, held, (*index[:axis], at, *index[axis + 1 :]))
        write_buffer(lo, ctx, out, index, form)

    over(lo, out.ty.shape, lane_axis(out.ty.shape), body)
    lo.env[op.results[0]] = out


def _wide(lo: Lowering, ctx: Context, form: Form) -> Form:
    """Integers as i64, zero-extended: what lies outside of the range matters modulo it alone."""
    if form.elem == "i64":
        return form
    if form.kind == "U":
        got = lo.em.op(form.level, f"zext {form.elem} {form.val} to i64")
        return Form("U", "i64", got, form.level)
    lanes, text = ctx.lanes, as_vector(lo.em, form, ctx.lanes)
    got = lo.em.op(form.level, f"zext <{lanes} x {form.elem}> {text} to <{lanes} x i64>")
    return Form("V", "i64", got, form.level)


def _bitwise(lo: Lowering, ctx: Context, name: str, form: Form, by: int) -> Form:
    if form.kind == "U":
        return Form("U", "i64", lo.em.op(form.level, f"{name} i64 {form.val}, {by}"), form.level)
    kind, text = f"<{ctx.lanes} x i64>", as_vector(lo.em, form, ctx.lanes)
    got = lo.em.op(form.level, f"{name} {kind} {text}, splat (i64 {by})")
    return Form("V", "i64", got, form.level)


def histogram(lo: Lowering, op: Op) -> None:
    """``out[b]``: how many elements equal b; those outside of [0, bins) or masked off count
    nowhere."""
    em, source = lo.em, op.operands[0]
    out = lo.new_buffer(op.results[0].ty, False)
    bins = out.ty.size

    def clear(ctx: Context, index: Index) -> None:
        write_buffer(lo, ctx, out, index, Form("U", out.ty.elem, 0, 0))

    over(lo, out.ty.shape, lane_axis(out.ty.shape), clear)
    t = f"i{BITS[out.ty.elem]}"

    def count(ctx: Context, index: Index) -> None:
        depth = em.depth
        form, *mask = (evaluate(lo, ctx, value, index) for value in op.operands)
        place = _wide(lo, ctx, form)
        scalar = ctx.lanes == 1
        kind = "i64" if scalar else f"<{ctx.lanes} x i64>"
        text = str(place.val) if scalar else as_vector(em, place, ctx.lanes)
        limit = str(bins) if scalar else f"splat (i64 {bins})"
        inside = em.op(depth, f"icmp ult {kind} {text}, {limit}")
        bit = "i1" if scalar else f"<{ctx.lanes} x i1>"
        if mask:
            on = str(mask[0].val) if scalar else as_vector(em, mask[0], ctx.lanes)
            inside = em.op(depth, f"and {bit} {inside}, {on}")
        zero = "0" if scalar else "zeroinitializer"
        safe = em.op(depth, f"select {bit} {inside}, {kind} {text}, {kind} {zero}")
        step = em.op(depth, f"zext {bit} {inside} to {kind}")
        for lane in range(ctx.lanes):
            at, by = safe, step
            if not scalar:
                at = em.op(depth, f"extractelement {kind} {safe}, i64 {lane}")
                by = em.op(depth, f"extractelement {kind} {step}, i64 {lane}")
            one = Form("U", "i64", at, depth)
            pointer = buffer_pointer(em, out.base, out.ty, (one,), 1)
            if t != "i64":
                by = em.op(depth, f"trunc i64 {by} to {t}")
            old = em.op(depth, f"load {t}, ptr {pointer.val}, align {out.ty.item_bytes}")
            new = em.op(depth, f"add {t} {old}, {by}")
            em.do(depth, f"store {t} {new}, ptr {pointer.val}, align {out.ty.item_bytes}")

    over(lo, source.ty.shape, lane_axis(source.ty.shape), count)
    lo.env[op.results[0]] = Buffer(out.base, out.ty, False)
