"""``tt.scan`` with any region: a left fold along the axis, one element after another.

``out[0] = x[0]``, ``out[i] = region(out[i - 1], x[i])``; reversed, from the last element down:
``out[i] = region(out[i + 1], x[i])``. A GPU combines blocks of elements in an order that depends on
layout and warps. The plain fold depends on nothing: the bits of an element are those of its prefix
alone, so padding a row or cutting it into blocks changes no bit before the cut.
"""

from kernelsmith.devices.cpu.codegen_text import Loop
from kernelsmith.devices.cpu.lower_blocks import Run
from kernelsmith.devices.cpu.lower_evaluate import write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, llvm, vec
from kernelsmith.devices.cpu.lower_nest import lane_axis, lane_count, over
from kernelsmith.devices.cpu.lower_reduce import Fold, carry
from kernelsmith.devices.cpu.lower_region import straight
from kernelsmith.devices.cpu.lower_select import Forms
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Index, Lowering, index_const
from kernelsmith.devices.cpu.ttir import Op

#: Longest region that is written out for every lane of a vector.
_MAX_UNROLLED = 8


def scan(lo: Lowering, op: Op, run: Run) -> None:
    """Lowers the op; results are buffers."""
    fold = Fold(lo=lo, run=run, op=op)
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    shape = op.operands[0].ty.shape
    buffers = fold.buffers()
    rest = shape[:axis] + shape[axis + 1 :]
    along = lane_axis(shape) == axis and shape[axis] > 1
    written_out = straight(op.regions) and len(op.regions[0].ops) <= _MAX_UNROLLED

    def row(ctx: Context, index: Index) -> None:
        _row(fold, buffers, axis, index)

    def column(ctx: Context, index: Index) -> None:
        _column(fold, buffers, axis, ctx.lanes, index)

    if along and written_out:
        over(lo, rest, lane_axis(rest), row, lanes=1)
    else:
        over(lo, rest, lane_axis(rest), column, lanes=1 if along or not rest else None)
    for value, buffer in zip(op.results, buffers, strict=True):
        lo.env[value] = buffer


def _write(fold: Fold, buffers: list[Buffer], lanes: int, index: Index, forms: Forms) -> None:
    ctx = Context(lanes, fold.lo.em.depth)
    for buffer, form in zip(buffers, forms, strict=True):
        write_buffer(fold.lo, ctx, buffer, index, form)


def _column(fold: Fold, buffers: list[Buffer], axis: int, lanes: int, index: Index) -> None:
    """Scans along an axis that lanes do not run along."""
    em = fold.lo.em
    size, reverse = buffers[0].ty.shape[axis], bool(fold.op.attrs.get("reverse"))

    def at(position: Form) -> Index:
        return (*index[:axis], position, *index[axis:])

    first = at(index_const(size - 1 if reverse else 0))
    forms = fold.read(Context(lanes, em.depth), first)
    _write(fold, buffers, lanes, first, forms)
    if size == 1:
        return
    with em.loop(size - 1) as loop:
        depth = em.depth
        carried = carry(loop, forms, lanes, depth)
        text = f"sub i64 {size - 2}, {loop.index}" if reverse else f"add i64 {loop.index}, 1"
        here = at(Form("U", "i64", em.op(depth, text), depth))
        new = fold.read(Context(lanes, depth), here)
        out = fold.combine(lanes, carried, new)
        _write(fold, buffers, lanes, here, out)
        _update(loop, carried, out)


def _row(fold: Fold, buffers: list[Buffer], axis: int, index: Index) -> None:
    """Scans along the axis that lanes run along: vectors are read and written whole, and their
    lanes folded one after another in between."""
    em = fold.lo.em
    shape = buffers[0].ty.shape
    size, lanes = shape[axis], lane_count(shape, axis)
    reverse = bool(fold.op.attrs.get("reverse"))

    def at(base: Form) -> Index:
        lane = Form("A", "i64", base.val, base.level, 1, False, lanes)
        return (*index[:axis], lane, *index[axis:])

    def chunk(start: Form, before: Forms | None) -> Forms:
        here = at(start)
        forms = fold.read(Context(lanes, em.depth), here)
        outs, last = _fold_lanes(fold, lanes, forms, before, reverse)
        _write(fold, buffers, lanes, here, outs)
        return last

    last = chunk(index_const(size - lanes if reverse else 0), None)
    if size == lanes:
        return
    with em.loop(size - lanes, lanes) as loop:
        depth = em.depth
        carried = carry(loop, last, 1, depth)
        begin = size - 2 * lanes
        text = f"sub i64 {begin}, {loop.index}" if reverse else f"add i64 {loop.index}, {lanes}"
        start = Form("U", "i64", em.op(depth, text), depth, 0, False, lanes)
        _update(loop, carried, chunk(start, carried))


def _update(loop: Loop, carried: Forms, new: Forms) -> None:
    for form, now in zip(carried, new, strict=True):
        loop.update(str(form.val), str(now.val))


def _fold_lanes(
    fold: Fold, lanes: int, forms: Forms, before: Forms | None, reverse: bool
) -> tuple[Forms, Forms]:
    """Folds the lanes of vectors; returns the vectors of partial results and the last ones."""
    em, depth = fold.lo.em, fold.lo.em.depth
    outs = ["poison"] * len(forms)
    last = before
    for lane in reversed(range(lanes)) if reverse else range(lanes):
        ones = []
        for form in forms:
            one = em.op(depth, f"extractelement {vec(form.elem, lanes)} {form.val}, i64 {lane}")
            ones.append(Form("U", form.elem, one, depth, 0, form.dirty))
        last = ones if last is None else fold.combine(1, last, ones)
        for at, form in enumerate(last):
            kind = vec(form.elem, lanes)
            item = f"{llvm(form.elem)} {form.val}"
            outs[at] = em.op(depth, f"insertelement {kind} {outs[at]}, {item}, i64 {lane}")
    assert last is not None
    vectors = [
        Form("V", form.elem, out, depth, 0, form.elem in ("f32", "f64"))
        for form, out in zip(last, outs, strict=True)
    ]
    return vectors, last
