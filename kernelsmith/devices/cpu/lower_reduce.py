"""``tt.reduce`` with any region, in one documented order that depends on the shape alone.

Along the last axis of length D, element j belongs to lane j mod L, L = min(D, 32). A lane combines
its elements in ascending order; then the lanes are folded by halves: lane l with lane l + L/2,
and so on. Along any other axis the elements combine in ascending order. The left operand of the
region is always the earlier element.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelsmith.devices.cpu.codegen_text import Loop
from kernelsmith.devices.cpu.lower_blocks import Run
from kernelsmith.devices.cpu.lower_carry import is_dirty
from kernelsmith.devices.cpu.lower_evaluate import evaluate, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, llvm, vec, vector_form
from kernelsmith.devices.cpu.lower_graph import reaches
from kernelsmith.devices.cpu.lower_masks import Masks, versioned
from kernelsmith.devices.cpu.lower_nest import lane_axis, lane_count, over
from kernelsmith.devices.cpu.lower_region import apply_region
from kernelsmith.devices.cpu.lower_select import Forms
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Lowering, Scalar, index_const
from kernelsmith.devices.cpu.ttir import Op
from kernelsmith.errors import CompileError


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """The parts of a reduction or scan: where its elements come from and how two are combined."""

    lo: Lowering
    run: Run
    op: Op

    def combine(self, lanes: int, left: Forms, right: Forms) -> Forms:
        """One application of the region to vectors (or scalars for ``lanes`` 1)."""
        forms = apply_region(self.lo, self.run, lanes, self.op.regions, [*left, *right])
        return [vector_form(self.lo.em, f, lanes) if lanes > 1 else f for f in forms]

    def read(self, ctx: Context, index: Sequence[Form]) -> Forms:
        """All operands at a place, as vectors."""
        lo, op = self.lo, self.op
        shape = op.operands[0].ty.shape
        ctx.natural = tuple(
            index_const(0) if size == 1 else at for size, at in zip(shape, index, strict=True)
        )
        place = tuple(index)
        if ctx.lanes == 1:
            return [evaluate(lo, ctx, o, place) for o in op.operands]
        masks = Masks(lo, ctx)
        for operand in op.operands:
            masks.visit(operand, place)

        def get(ctx: Context) -> Forms:
            return [evaluate(lo, ctx, o, place) for o in op.operands]

        forms = versioned(lo, ctx, masks, get, dead=True)
        return [vector_form(lo.em, f, ctx.lanes) for f in forms]

    def buffers(self) -> list[Buffer]:
        """A buffer for each result."""
        return [self.lo.new_buffer(r.ty, is_dirty(r)) for r in self.op.results]


def reduce_and_keep(lo: Lowering, op: Op, run: Run) -> None:
    """A reduction, which also writes the waiting tensors that it computes to their buffers."""
    for value in list(lo.waiting):
        if any(reaches(lo, operand, value) for operand in op.operands):
            lo.tee[value] = lo.new_buffer(value.ty, False)
            del lo.waiting[value]
    reduce(Fold(lo=lo, run=run, op=op))
    for value, buffer in lo.tee.items():
        lo.env[value] = Buffer(buffer.base, buffer.ty, value in lo.dirty)
    lo.tee.clear()


def reduce(fold: Fold) -> None:
    """Lowers the op; results become scalars or buffers."""
    lo, op = fold.lo, fold.op
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    if op.attrs.get("reduction_ordering", "unordered") != "unordered":
        raise CompileError(
            f"tt.reduce with reduction_ordering = {op.attrs['reduction_ordering']} is not lowered",
            op=op.name,
            line=op.line,
            hint="leave reduction_ordering out: this device has one documented order",
        )
    shape = op.operands[0].ty.shape
    if len(shape) == 1:
        ctx = Context(lane_count(shape, 0), lo.em.depth)
        results = _last_axis(fold, ctx, shape, ())
        for value, form in zip(op.results, results, strict=True):
            kind = Form(form.kind, form.elem, form.val, form.level, 0, is_dirty(value))
            lo.env[value] = Scalar(kind)
        return
    buffers = fold.buffers()
    rest = shape[:axis] + shape[axis + 1 :]

    def row(ctx: Context, index: tuple[Form, ...]) -> None:
        inner = Context(lane_count(shape, axis), lo.em.depth)
        forms = _last_axis(fold, inner, shape, index)
        for buffer, form in zip(buffers, forms, strict=True):
            write_buffer(lo, Context(1, lo.em.depth), buffer, index, form)

    def column(ctx: Context, index: tuple[Form, ...]) -> None:
        forms = _ascending(fold, ctx, axis, shape[axis], index)
        for buffer, form in zip(buffers, forms, strict=True):
            write_buffer(lo, ctx, buffer, index, form)

    if axis == len(shape) - 1:
        over(lo, rest, lane_axis(rest), row, lanes=1)
    else:
        over(lo, rest, lane_axis(rest), column)
    for value, buffer in zip(op.results, buffers, strict=True):
        lo.env[value] = buffer


def _last_axis(fold: Fold, ctx: Context, shape: tuple[int, ...], outer: tuple[Form, ...]) -> Forms:
    """Reduces one row to scalars."""
    size, lanes = shape[-1], ctx.lanes
    ways = min(2, size // lanes)

    def at(ctx: Context, base: Form) -> Forms:
        lane = base
        if lanes > 1:
            lane = Form("A", "i64", base.val, base.level, 1, False, lanes)
        return fold.read(ctx, (*outer, lane))

    parts = [at(ctx, index_const(w * lanes)) for w in range(ways)]
    if size > lanes * ways:
        parts = _row_loop(fold, size, lanes, parts, at)
    forms = parts[0]
    if ways == 2:
        forms = fold.combine(lanes, parts[0], parts[1])
    while lanes > 1:
        halves = [[_half(fold.lo, f, lanes, h) for f in forms] for h in (0, 1)]
        lanes //= 2
        forms = fold.combine(lanes, halves[0], halves[1])
    return forms


def _row_loop(
    fold: Fold,
    size: int,
    lanes: int,
    parts: list[Forms],
    at: Callable[[Context, Form], Forms],
) -> list[Forms]:
    """The chunks after the first, in a loop whose accumulators start at the first chunk."""
    em, step = fold.lo.em, lanes * len(parts)
    with em.loop(size - step, step) as loop:
        inner = Context(lanes, em.depth)
        start = em.op(em.depth, f"add nuw nsw i64 {loop.index}, {step}")
        done = []
        for way, part in enumerate(parts):
            carried = carry(loop, part, lanes, em.depth)
            base = start
            if way:
                base = em.op(em.depth, f"add nuw nsw i64 {start}, {way * lanes}")
            new = at(inner, Form("U", "i64", base, em.depth, 0, False, lanes))
            out = fold.combine(lanes, carried, new)
            for form, now in zip(carried, out, strict=True):
                loop.update(str(form.val), str(now.val))
            done.append(out)
    depth = em.depth
    return [[Form(f.kind, f.elem, f.val, depth, 0, f.dirty) for f in forms] for forms in done]


def carry(loop: Loop, part: Forms, lanes: int, level: int) -> Forms:
    """Values that a loop carries, starting at ``part``."""
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


def _ascending(fold: Fold, ctx: Context, axis: int, size: int, index: Sequence[Form]) -> Forms:
    """Reduces along an axis that lanes do not run along."""
    em = fold.lo.em

    def at(ctx: Context, position: Form) -> Forms:
        return fold.read(ctx, (*index[:axis], position, *index[axis:]))

    first = at(Context(ctx.lanes, em.depth), index_const(0))
    if size == 1:
        return first
    with em.loop(size - 1) as loop:
        depth = em.depth
        inner = Context(ctx.lanes, depth)
        carried = carry(loop, first, ctx.lanes, depth)
        position = em.op(depth, f"add nuw nsw i64 {loop.index}, 1")
        new = at(inner, Form("U", "i64", position, depth))
        out = fold.combine(ctx.lanes, carried, new)
        for form, now in zip(carried, out, strict=True):
            loop.update(str(form.val), str(now.val))
    depth = em.depth
    return [Form(f.kind, f.elem, f.val, depth, 0, f.dirty) for f in out]
