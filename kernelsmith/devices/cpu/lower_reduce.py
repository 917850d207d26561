"""``tt.reduce`` with any region, in one documented order that depends on the shape alone.

Along the last axis of length D, element j belongs to lane j mod L, L = min(D, 32). A lane combines
its elements in ascending order; then the lanes are folded by halves: lane l with lane l + L/2,
and so on. Along any other axis the elements combine in ascending order. The left operand of the
region is always the earlier element.
"""

from collections.abc import Callable, Sequence

from kernelsmith.devices.cpu import lower_elementwise
from kernelsmith.devices.cpu.codegen_text import Loop
from kernelsmith.devices.cpu.lower_constant import constant
from kernelsmith.devices.cpu.lower_evaluate import evaluate, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, llvm, vec, vector_form
from kernelsmith.devices.cpu.lower_masks import Masks, versioned
from kernelsmith.devices.cpu.lower_nest import lane_axis, lane_count, over
from kernelsmith.devices.cpu.lower_state import Context, Lowering, Scalar, index_const
from kernelsmith.devices.cpu.ttir import Block, Op, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE, refuse

Forms = list[Form]


def combine(lo: Lowering, lanes: int, region: Block, left: Forms, right: Forms) -> Forms:
    """One application of the region to vectors (or scalars for ``lanes`` 1)."""
    known: dict[Value, Form] = dict(zip(region.args, [*left, *right], strict=True))

    def form(value: Value) -> Form:
        if value in known:
            return known[value]
        bound = lo.env[value]
        assert isinstance(bound, Scalar)
        return bound.form

    for op in region.ops[:-1]:
        if op.name == "arith.constant":
            known[op.results[0]] = constant(op)
        elif op.name in ELEMENTWISE:
            forms = [form(o) for o in op.operands]
            known[op.results[0]] = lower_elementwise.apply(
                lo.em, lanes, op, forms, op.results[0].ty
            )
        else:
            raise refuse(op.name, op.line)
    return [form(o) for o in region.ops[-1].operands]


def reduce(lo: Lowering, op: Op) -> None:
    """Lowers the op; results become scalars or buffers."""
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    shape = op.operands[0].ty.shape
    if len(shape) == 1:
        ctx = Context(lane_count(shape, 0), lo.em.depth)
        results = _last_axis(lo, ctx, op, shape, ())
        for value, form in zip(op.results, results, strict=True):
            lo.env[value] = Scalar(form)
        return
    buffers = [lo.new_buffer(r.ty, r.ty.elem in ("f32", "f64")) for r in op.results]
    rest = shape[:axis] + shape[axis + 1 :]

    def row(ctx: Context, index: tuple[Form, ...]) -> None:
        inner = Context(lane_count(shape, axis), lo.em.depth)
        forms = _last_axis(lo, inner, op, shape, index)
        for buffer, form in zip(buffers, forms, strict=True):
            write_buffer(lo, Context(1, lo.em.depth), buffer, index, form)

    def column(ctx: Context, index: tuple[Form, ...]) -> None:
        forms = _ascending(lo, ctx, op, axis, shape[axis], index)
        for buffer, form in zip(buffers, forms, strict=True):
            write_buffer(lo, ctx, buffer, index, form)

    if axis == len(shape) - 1:
        over(lo, rest, lane_axis(rest), row, lanes=1)
    else:
        over(lo, rest, lane_axis(rest), column)
    for value, buffer in zip(op.results, buffers, strict=True):
        lo.env[value] = buffer


def _last_axis(
    lo: Lowering, ctx: Context, op: Op, shape: tuple[int, ...], outer: tuple[Form, ...]
) -> Forms:
    """Reduces one row to scalars."""
    size, lanes, region = shape[-1], ctx.lanes, op.regions[0]
    ways = min(2, size // lanes)

    def at(ctx: Context, base: Form) -> Forms:
        lane = base
        if lanes > 1:
            lane = Form("A", "i64", base.val, base.level, 1, False, lanes)
        index = (*outer, lane)
        return _read(lo, ctx, op, index)

    parts = [at(ctx, index_const(w * lanes)) for w in range(ways)]
    if size > lanes * ways:
        parts = _row_loop(lo, op, size, lanes, parts, at)
    forms = parts[0]
    if ways == 2:
        forms = combine(lo, lanes, region, parts[0], parts[1])
    while lanes > 1:
        halves = [[_half(lo, f, lanes, h) for f in forms] for h in (0, 1)]
        lanes //= 2
        forms = combine(lo, lanes, region, halves[0], halves[1])
    return forms


def _read(lo: Lowering, ctx: Context, op: Op, index: tuple[Form, ...]) -> Forms:
    """All operands at a place, as vectors."""
    shape = op.operands[0].ty.shape
    ctx.natural = tuple(
        index_const(0) if size == 1 else at for size, at in zip(shape, index, strict=True)
    )
    if ctx.lanes == 1:
        return [evaluate(lo, ctx, o, index) for o in op.operands]
    masks = Masks(lo, ctx)
    for operand in op.operands:
        masks.visit(operand, index)

    def get(ctx: Context) -> Forms:
        return [evaluate(lo, ctx, o, index) for o in op.operands]

    return [vector_form(lo.em, f, ctx.lanes) for f in versioned(lo, ctx, masks, get)]


def _row_loop(
    lo: Lowering,
    op: Op,
    size: int,
    lanes: int,
    parts: list[Forms],
    at: Callable[[Context, Form], Forms],
) -> list[Forms]:
    """The chunks after the first, in a loop whose accumulators start at the first chunk."""
    step = lanes * len(parts)
    with lo.em.loop(size - step, step) as loop:
        inner = Context(lanes, lo.em.depth)
        start = lo.em.op(lo.em.depth, f"add nuw nsw i64 {loop.index}, {step}")
        done = []
        for way, part in enumerate(parts):
            carried = _carry(loop, part, lanes, lo.em.depth)
            base = start
            if way:
                base = lo.em.op(lo.em.depth, f"add nuw nsw i64 {start}, {way * lanes}")
            new = at(inner, Form("U", "i64", base, lo.em.depth, 0, False, lanes))
            out = combine(lo, lanes, op.regions[0], carried, new)
            out = [vector_form(lo.em, f, lanes) if lanes > 1 else f for f in out]
            for form, now in zip(carried, out, strict=True):
                loop.update(str(form.val), str(now.val))
            done.append(out)
    depth = lo.em.depth
    return [[Form(f.kind, f.elem, f.val, depth, 0, f.dirty) for f in forms] for forms in done]


def _carry(loop: Loop, part: Forms, lanes: int, level: int) -> Forms:
    out = []
    for form in part:
        type_ = vec(form.elem, lanes) if form.kind == "V" else llvm(form.elem)
        name = loop.carry(type_, str(form.val))
        out.append(Form(form.kind, form.elem, name, level, 0, form.elem in ("f32", "f64")))
    return out


def _half(lo: Lowering, form: Form, lanes: int, half: int) -> Form:
    """Lower or upper half of a vector; a scalar when one lane is left."""
    if form.kind == "U":
        return form
    if lanes == 2:
        got = lo.em.op(form.level, f"extractelement {vec(form.elem, 2)} {form.val}, i64 {half}")
        return Form("U", form.elem, got, form.level, 0, form.dirty)
    n = lanes // 2
    mask = ", ".join(f"i32 {half * n + i}" for i in range(n))
    kind = vec(form.elem, lanes)
    got = lo.em.op(
        form.level, f"shufflevector {kind} {form.val}, {kind} poison, <{n} x i32> <{mask}>"
    )
    return Form("V", form.elem, got, form.level, 0, form.dirty)


def _ascending(
    lo: Lowering, ctx: Context, op: Op, axis: int, size: int, index: Sequence[Form]
) -> Forms:
    """Reduces along an axis that lanes do not run along."""

    def at(ctx: Context, position: Form) -> Forms:
        return _read(lo, ctx, op, (*index[:axis], position, *index[axis:]))

    first = at(Context(ctx.lanes, lo.em.depth), index_const(0))
    if size == 1:
        return first
    with lo.em.loop(size - 1) as loop:
        depth = lo.em.depth
        inner = Context(ctx.lanes, depth)
        carried = _carry(loop, first, ctx.lanes, depth)
        position = lo.em.op(depth, f"add nuw nsw i64 {loop.index}, 1")
        new = at(inner, Form("U", "i64", position, depth))
        out = combine(lo, ctx.lanes, op.regions[0], carried, new)
        out = [vector_form(lo.em, f, ctx.lanes) if ctx.lanes > 1 else f for f in out]
        for form, now in zip(carried, out, strict=True):
            loop.update(str(form.val), str(now.val))
    depth = lo.em.depth
    return [Form(f.kind, f.elem, f.val, depth, 0, f.dirty) for f in out]
