"""``tt.map_elementwise``: a scalar function, which may branch and loop, applied to each element.

With ``pack`` p one call of the function takes p consecutive elements, in row-major order.
"""

from kernelsmith.devices.cpu.lower_blocks import Run
from kernelsmith.devices.cpu.lower_carry import is_dirty
from kernelsmith.devices.cpu.lower_evaluate import evaluate, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form
from kernelsmith.devices.cpu.lower_nest import lane_axis, over
from kernelsmith.devices.cpu.lower_region import apply_region
from kernelsmith.devices.cpu.lower_reshape import reshape
from kernelsmith.devices.cpu.lower_state import Context, Index, Lowering
from kernelsmith.devices.cpu.ttir import Op


def map_elementwise(lo: Lowering, op: Op, run: Run) -> None:
    """Lowers the op; results are buffers."""
    pack = op.attrs.get("pack", 1)
    assert isinstance(pack, int)
    shape = op.operands[0].ty.shape
    buffers = [lo.new_buffer(r.ty, is_dirty(r)) for r in op.results]

    def each(ctx: Context, index: Index) -> None:
        forms = [evaluate(lo, ctx, operand, index) for operand in op.operands]
        for buffer, form in zip(
            buffers, apply_region(lo, run, ctx.lanes, op.regions, forms), strict=True
        ):
            write_buffer(lo, Context(ctx.lanes, lo.em.depth), buffer, index, form)

    def packed(ctx: Context, index: Index) -> None:
        depth = lo.em.depth
        places = []
        for part in range(pack):
            at = lo.em.op(depth, f"add i64 {index[0].val}, {part}")
            here = (Form("U", "i64", at, depth),)
            places.append(reshape(lo, ctx, (op.operands[0].ty.size,), shape, here))
        forms = [evaluate(lo, ctx, operand, at) for operand in op.operands for at in places]
        results = apply_region(lo, run, 1, op.regions, forms)
        for position, form in enumerate(results):
            ctx = Context(1, lo.em.depth)
            write_buffer(lo, ctx, buffers[position // pack], places[position % pack], form)

    if pack == 1:
        over(lo, shape, lane_axis(shape), each)
    else:
        size = op.operands[0].ty.size
        with lo.em.loop(size, pack) as loop:
            depth = lo.em.depth
            packed(Context(1, depth), (Form("U", "i64", loop.index, depth),))
    for value, buffer in zip(op.results, buffers, strict=True):
        lo.env[value] = buffer
