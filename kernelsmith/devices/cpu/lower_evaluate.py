"""Evaluates a tensor value at an index, one vector of lanes at a time.

An index has one i64 form a dimension: ``U`` for a loop variable or constant, ``A`` with step 1
for the dimension the lanes run along. Shape operations only rewrite the index; elementwise ops
and loads are computed in the innermost stream that one of their operands needs.
"""

from kernelsmith.devices.cpu import lower_elementwise, lower_memory, lower_pairs
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.lower_constant import constant
from kernelsmith.devices.cpu.lower_forms import (
    Form,
    add_pointer,
    affine,
    as_vector,
    const,
)
from kernelsmith.devices.cpu.lower_reshape import reshape
from kernelsmith.devices.cpu.lower_state import (
    Buffer,
    Context,
    Index,
    Lazy,
    Lowering,
    Scalar,
    Shifted,
    index_const,
)
from kernelsmith.devices.cpu.ttir import Op, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE, refuse


def evaluate(lo: Lowering, ctx: Context, value: Value, index: Index) -> Form:
    """The value's elements at ``index``."""
    bound = lo.env[value]
    if isinstance(bound, Scalar):
        return bound.form
    index = tuple(
        index_const(0) if dim == 1 else at for dim, at in zip(value.ty.shape, index, strict=True)
    )
    key = (value, *(at.key for at in index))
    if key in ctx.memo:
        return ctx.memo[key]
    if isinstance(bound, Buffer):
        form = read_buffer(lo, ctx, bound, index)
    elif isinstance(bound, Shifted):
        form = _shifted(lo, ctx, bound, value, index)
    else:
        form = _lazy(lo, ctx, bound, value, index)
    if value in lo.tee and index == ctx.natural:
        write_buffer(lo, ctx, lo.tee[value], index, form)
        if form.dirty:
            lo.dirty.add(value)
    ctx.memo[key] = form
    return form


def read_buffer(lo: Lowering, ctx: Context, buffer: Buffer, index: Index) -> Form:
    """Elements of a buffer at an index."""
    pointer = lower_memory.buffer_pointer(lo.em, buffer.base, buffer.ty, index, ctx.lanes)
    level = max(pointer.level, ctx.base)
    form = lower_memory.load(lo.em, ctx.lanes, pointer, None, None, buffer.ty.elem, level)
    return Form(form.kind, form.elem, form.val, form.level, form.step, buffer.dirty)


def write_buffer(lo: Lowering, ctx: Context, buffer: Buffer, index: Index, form: Form) -> None:
    """Stores elements of a buffer at an index."""
    pointer = lower_memory.buffer_pointer(lo.em, buffer.base, buffer.ty, index, ctx.lanes)
    level = max(pointer.level, form.level, ctx.base)
    lower_memory.store(lo.em, ctx.lanes, pointer, form, None, level)


def _shifted(lo: Lowering, ctx: Context, bound: Shifted, value: Value, index: Index) -> Form:
    start = evaluate(lo, ctx, bound.init, index)
    if value.ty.elem == "ptr":
        return add_pointer(lo.em, start, bound.delta, 1, ctx.lanes)
    moved = affine(lo.em, "add", start, bound.delta)
    if moved is not None:
        return moved
    level = max(start.level, bound.delta.level)
    a = as_vector(lo.em, start, ctx.lanes)
    b = as_vector(lo.em, bound.delta, ctx.lanes)
    kind = f"<{ctx.lanes} x {value.ty.elem}>"
    return Form("V", value.ty.elem, lo.em.op(level, f"add {kind} {a}, {b}"), level)


def _lazy(lo: Lowering, ctx: Context, bound: Lazy, value: Value, index: Index) -> Form:
    op = bound.op
    name = op.name
    if name in ELEMENTWISE:
        forms = [evaluate(lo, ctx, operand, index) for operand in op.operands]
        if name in lower_elementwise.REMAINDERS and lower_elementwise.is_line(forms):
            # What reads through it must not be placed ahead of the branch that showed it.
            level = max(ctx.base, *(f.level for f in forms))
            if ctx.unmasked is not None and level >= ctx.unmasked:
                return forms[0]
        return lower_elementwise.apply(lo.em, ctx.lanes, op, forms, value.ty)
    if name == "arith.constant":
        return constant(op)
    if name == "tt.splat":
        return evaluate(lo, ctx, op.operands[0], ())
    if name == "tt.make_range":
        return _range(lo, ctx, op, index[0])
    if name == "tt.load":
        return _load(lo, ctx, op, index)
    if name == "ub.poison":
        return Form("U", value.ty.elem, lower_memory.zero(value.ty.elem), 0)
    return _shape(lo, ctx, op, value, index)


def _range(lo: Lowering, ctx: Context, op: Op, at: Form) -> Form:
    start = op.attrs["start"]
    assert isinstance(start, int)
    if at.kind == "V":
        narrow = lo.em.op(at.level, f"trunc <{ctx.lanes} x i64> {at.val} to <{ctx.lanes} x i32>")
        form = Form("V", "i32", narrow, at.level)
        if start == 0:
            return form
        kind = f"<{ctx.lanes} x i32>"
        return Form(
            "V", "i32", lo.em.op(at.level, f"add {kind} {narrow}, splat (i32 {start})"), at.level
        )
    val: str | int = at.val
    if isinstance(val, str):
        val = lo.em.op(at.level, f"trunc nuw nsw i64 {val} to i32")
    form = Form(at.kind, "i32", val, at.level, at.step)
    moved = affine(lo.em, "add", form, const(start, "i32"))
    assert moved is not None
    return moved


def _load(lo: Lowering, ctx: Context, op: Op, index: Index) -> Form:
    forms = [evaluate(lo, ctx, operand, index) for operand in op.operands]
    pointer = forms[0]
    level = max(ctx.base, *(f.level for f in forms))
    # A load placed outside of the branch that tells masks true would run whatever they are.
    guarded = ctx.unmasked is not None and level >= ctx.unmasked
    mask = forms[1] if len(forms) > 1 and not guarded else None
    other = forms[2] if len(forms) > 2 else None
    elem = op.results[0].ty.elem
    if mask is not None and ctx.dead is not None and level >= ctx.dead:
        # Most often a constant: what is computed of it leaves the loop.
        return other or Form("U", elem, lower_memory.zero(elem), 0)
    return lower_memory.load(lo.em, ctx.lanes, pointer, mask, other, elem, level)


def moved(
    lo: Lowering, ctx: Context, op: Op, value: Value, index: Index
) -> tuple[Value, Index] | None:
    """Where a shape op takes an element from: operand and index; None for join and cat."""
    name, source = op.name, op.operands[0]
    if name == "tt.broadcast":
        return source, index
    if name == "tt.expand_dims":
        axis = op.attrs["axis"]
        assert isinstance(axis, int)
        return source, index[:axis] + index[axis + 1 :]
    if name == "tt.trans":
        order = op.attrs["order"]
        assert isinstance(order, tuple)
        at: list[Form] = [index_const(0)] * len(order)
        for position, axis in enumerate(order):
            at[axis] = index[position]
        return source, tuple(at)
    if name == "tt.reshape":
        return source, reshape(lo, ctx, value.ty.shape, source.ty.shape, index)
    if name == "tt.split":
        return source, (*index, index_const(op.results.index(value)))
    return None


def _shape(lo: Lowering, ctx: Context, op: Op, value: Value, index: Index) -> Form:
    name = op.name
    if name == "tt.split":
        pair = lower_pairs.pair(lo, ctx, op, index)
        if pair is not None:
            return pair[op.results.index(value)]
    held = lo.env[op.operands[0]]
    if name == "tt.reshape" and isinstance(held, Buffer):
        return read_buffer(lo, ctx, Buffer(held.base, value.ty, held.dirty), index)
    place = moved(lo, ctx, op, value, index)
    if place is not None:
        return evaluate(lo, ctx, *place)
    if name == "tt.join":
        last = index[-1]
        a, b = op.operands
        if last.is_const:
            return evaluate(lo, ctx, b if last.val else a, index[:-1])
        forms = [evaluate(lo, ctx, x, index[:-1]) for x in (a, b)]
        return _either(lo, ctx, _nonzero(lo, ctx, last), forms[1], forms[0])
    if name == "tt.cat":
        return _cat(lo, ctx, op, index)
    raise refuse(name, op.line)


def _nonzero(lo: Lowering, ctx: Context, at: Form) -> Form:
    if at.kind == "U":
        return Form("U", "i1", lo.em.op(at.level, f"icmp ne i64 {at.val}, 0"), at.level)
    many = f"<{ctx.lanes} x i64>"
    bits = lo.em.op(at.level, f"icmp ne {many} {as_vector(lo.em, at, ctx.lanes)}, zeroinitializer")
    return Form("V", "i1", bits, at.level)


def _either(lo: Lowering, ctx: Context, cond: Form, a: Form, b: Form) -> Form:
    """``cond ? a : b`` through the select op's rules."""
    level = max(cond.level, a.level, b.level)
    fake = Op("arith.select", (), ())
    forms = [cond, a, b]
    scalar = all(f.kind == "U" for f in forms)
    s = Asm(lo.em, level, 0 if scalar else ctx.lanes)
    return lower_elementwise.select(lo.em, ctx.lanes, s, fake, forms)


def _cat(lo: Lowering, ctx: Context, op: Op, index: Index) -> Form:
    """Along dimension 0: the first operand's elements, then the second's."""
    a, b = op.operands
    size = a.ty.shape[0]
    at = index[0]
    level = at.level
    if at.kind == "U":
        first = lo.em.op(level, f"icmp slt i64 {at.val}, {size}")
        low = lo.em.op(level, f"and i64 {at.val}, {size - 1}")
        side, local = Form("U", "i1", first, level), Form("U", "i64", low, level)
    elif at.kind == "A" and at.align >= ctx.lanes and size >= ctx.lanes:
        first = lo.em.op(level, f"icmp slt i64 {at.val}, {size}")
        low = lo.em.op(level, f"and i64 {at.val}, {size - 1}")
        side = Form("U", "i1", first, level)
        local = Form("A", "i64", low, level, 1, False, at.align)
    else:
        many, wide = f"<{ctx.lanes} x i64>", as_vector(lo.em, at, ctx.lanes)
        first = lo.em.op(level, f"icmp slt {many} {wide}, splat (i64 {size})")
        low = lo.em.op(level, f"and {many} {wide}, splat (i64 {size - 1})")
        side, local = Form("V", "i1", first, level), Form("V", "i64", low, level)
    forms = [evaluate(lo, ctx, x, (local, *index[1:])) for x in (a, b)]
    return _either(lo, ctx, side, forms[0], forms[1])
