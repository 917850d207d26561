"""``tt.map_elementwise``: a scalar function, which may branch and loop, applied to each element.

With ``pack`` p one call of the function takes p consecutive elements, in row-major order.
"""

from kernelsmith.devices.cpu.lower_blocks import Run
from kernelsmith.devices.cpu.lower_carry import is_dirty
from kernelsmith.devices.cpu.lower_evaluate import evaluate, read_buffer, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form
from kernelsmith.devices.cpu.lower_nest import dense, lane_axis, over
from kernelsmith.devices.cpu.lower_region import apply_region, in_vectors
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Index, Lowering
from kernelsmith.devices.cpu.ttir import Op, Ty


def map_elementwise(lo: Lowering, op: Op, run: Run) -> None:
    """Lowers the op; results are buffers."""
    buffers = [lo.new_buffer(r.ty, is_dirty(r)) for r in op.results]
    if op.attrs.get("pack", 1) == 1 and in_vectors(lo, op.regions):
        _vectors(lo, op, run, buffers)
    else:
        _calls(lo, op, run, buffers)
    for value, buffer in zip(op.results, buffers, strict=True):
        lo.env[value] = buffer


def _vectors(lo: Lowering, op: Op, run: Run, buffers: list[Buffer]) -> None:
    """A function without loops: on whole vectors."""
    shape = op.operands[0].ty.shape

    def body(ctx: Context, index: Index) -> None:
        inputs = [evaluate(lo, ctx, operand, index) for operand in op.operands]
        forms = apply_region(lo, run, ctx.lanes, op.regions, inputs)
        for buffer, form in zip(buffers, forms, strict=True):
            write_buffer(lo, ctx, buffer, index, form)

    over(lo, shape, lane_axis(shape), body)


def _calls(lo: Lowering, op: Op, run: Run, buffers: list[Buffer]) -> None:
    """One call after another, over the elements in a row."""
    em, pack = lo.em, op.attrs.get("pack", 1)
    assert isinstance(pack, int)
    given = [_row(dense(lo, operand)) for operand in op.operands]
    outs = [_row(buffer) for buffer in buffers]
    with em.loop(op.operands[0].ty.size, pack) as loop:
        depth = em.depth
        places: list[Index] = []
        for part in range(pack):
            at = em.op(depth, f"add nuw nsw i64 {loop.index}, {part}") if part else loop.index
            places.append((Form("U", "i64", at, depth),))
        ctx = Context(1, depth)
        inputs = [read_buffer(lo, ctx, buffer, at) for buffer in given for at in places]
        forms = apply_region(lo, run, 1, op.regions, inputs)
        for number, form in enumerate(forms):
            buffer, at_ = outs[number // pack], places[number % pack]
            write_buffer(lo, Context(1, em.depth), buffer, at_, form)


def _row(buffer: Buffer) -> Buffer:
    """The same elements in one dimension."""
    ty = buffer.ty
    return Buffer(buffer.base, Ty(ty.elem, (ty.size,), ty.pointee), buffer.dirty)
