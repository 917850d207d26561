"""Loop nests over a tensor's index space, and the values that are put into buffers by them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kernelsmith.devices.cpu.codegen_text import LANES
from kernelsmith.devices.cpu.lower_evaluate import evaluate, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form
from kernelsmith.devices.cpu.lower_masks import Masks, versioned
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Lowering, index_const
from kernelsmith.devices.cpu.ttir import Value


def lane_count(shape: tuple[int, ...], axis: int) -> int:
    """Lanes along an axis: a full vector, or the whole axis when it is shorter."""
    return min(LANES, shape[axis]) if shape else 1


def lane_axis(shape: tuple[int, ...]) -> int:
    """The axis lanes run along by default: the last one that is longer than 1."""
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1:
            return axis
    return len(shape) - 1


def over(
    lo: Lowering,
    shape: tuple[int, ...],
    axis: int,
    body: Callable[[Context, tuple[Form, ...]], None],
    lanes: int | None = None,
) -> None:
    """Runs ``body(ctx, index)`` for every vector of a shape, lanes along ``axis``, which is the
    innermost loop; the other axes in order around it."""
    lanes = lane_count(shape, axis) if lanes is None else lanes
    ctx = Context(lanes, lo.em.depth)
    index: list[Form] = [index_const(0)] * len(shape)
    order = [d for d in range(len(shape)) if d != axis] + ([axis] if shape else [])
    with ExitStack() as stack:
        for dim in order:
            step = lanes if dim == axis else 1
            index[dim] = stack.enter_context(_axis(lo, shape[dim], step, dim == axis))
        ctx.natural = tuple(index)
        body(ctx, tuple(index))


@contextmanager
def _axis(lo: Lowering, size: int, step: int, lane: bool) -> Iterator[Form]:
    """A loop along one axis, if it takes more than one step; yields the axis' index form."""
    with ExitStack() as stack:
        base = index_const(0)
        if size != step:
            loop = stack.enter_context(lo.em.loop(size, step))
            base = Form("U", "i64", loop.index, lo.em.depth, 0, False, step)
        if lane and step > 1:
            yield Form("A", "i64", base.val, base.level, 1, False, max(base.align, step))
        else:
            yield base


def materialise(lo: Lowering, value: Value, into: Buffer | None = None) -> Buffer:
    """Evaluates a tensor into a buffer (a new one unless given) and binds the value to it."""
    buffer = fill(lo, value, into)
    lo.env[value] = buffer
    return buffer


def fill(lo: Lowering, value: Value, into: Buffer | None = None) -> Buffer:
    """Evaluates a tensor into a buffer without binding the value to it."""
    target = into or lo.new_buffer(value.ty, False)
    (dirty,) = fill_all(lo, [(value, target)])
    return Buffer(target.base, target.ty, dirty)


def fill_all(lo: Lowering, pairs: Sequence[tuple[Value, Buffer]]) -> list[bool]:
    """Evaluates tensors of one shape into a buffer each, in one loop, so that what they share is
    computed once. A vector of all of them is evaluated before any of it is written. Returns which
    hold NaNs of any payload."""
    dirty = [False] * len(pairs)
    shape = pairs[0][0].ty.shape

    def body(ctx: Context, index: tuple[Form, ...]) -> None:
        masks = Masks(lo, ctx)
        if ctx.lanes > 1:
            for value, _ in pairs:
                masks.visit(value, index)

        def put(ctx: Context) -> list[Form]:
            forms = [evaluate(lo, ctx, value, index) for value, _ in pairs]
            for i, (form, (_, target)) in enumerate(zip(forms, pairs, strict=True)):
                dirty[i] = dirty[i] or form.dirty
                write_buffer(lo, ctx, target, index, form)
            return []

        versioned(lo, ctx, masks, put, dead=True)

    over(lo, shape, lane_axis(shape), body)
    return dirty


def dense(lo: Lowering, value: Value) -> Buffer:
    """A buffer with a tensor's elements: its own if it has one. The value is not bound to it."""
    bound = lo.env[value]
    return bound if isinstance(bound, Buffer) else fill(lo, value)
