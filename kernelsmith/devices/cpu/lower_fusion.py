"""Loads that run inside the loop of the op that uses them, without a buffer between.

A load must see memory as it was at its place in the program. Fused into a store's loop, it would
see what that loop has stored already, if the two overlap. So whether they do is decided at run
time from the addresses that both can touch, and the rare overlap takes the slow way through
buffers.
"""

from dataclasses import dataclass

from kernelsmith.devices.cpu.lower_carry import scalar, uniform_source
from kernelsmith.devices.cpu.lower_evaluate import evaluate
from kernelsmith.devices.cpu.lower_graph import pointwise
from kernelsmith.devices.cpu.lower_state import (
    Context,
    Lazy,
    Lowering,
    Scalar,
    Shifted,
    index_const,
)
from kernelsmith.devices.cpu.ttir import Op, Ty, Value

#: Fewer elements are not worth a second version of the loop.
_MIN_ELEMENTS = 64
Step = int | str


@dataclass(frozen=True, slots=True)
class Extent:
    """Addresses a pointer tensor can hold: from ``first`` up to but not including ``end`` (i64
    operands); ``steps`` in bytes along each axis."""

    first: str
    end: str
    base: str
    steps: tuple[Step, ...]


def no_overlap(lo: Lowering, store: Op, loads: list[Value]) -> str | None:
    """An i1 operand that is true only if running the loads inside the store's loop is safe; None
    if that cannot be told from scalars."""
    pointer = store.operands[0]
    if lo.plain or pointer.ty.size < _MIN_ELEMENTS:
        return None
    target = extent(lo, pointer)
    if target is None:
        return None
    em, level, safe = lo.em, lo.em.depth, ""
    for value in loads:
        source = extent(lo, lo.definer[value].operands[0])
        if source is None:
            return None
        below = em.op(level, f"icmp ule i64 {source.end}, {target.first}")
        above = em.op(level, f"icmp uge i64 {source.first}, {target.end}")
        apart = em.op(level, f"or i1 {below}, {above}")
        if in_step(lo, store, value, source, target):
            same = em.op(level, f"icmp eq i64 {source.base}, {target.base}")
            apart = em.op(level, f"or i1 {apart}, {same}")
        safe = em.op(level, f"and i1 {safe}, {apart}") if safe else apart
    return safe or None


def in_step(lo: Lowering, store: Op, value: Value, source: Extent, target: Extent) -> bool:
    """Whether, started from one address, load and store touch the same element at each step: an
    update in place of a tensor that is contiguous along its one axis."""
    long = [axis for axis, size in enumerate(value.ty.shape) if size > 1]
    stored = store.operands[1].ty
    return (
        value.ty == stored
        and len(long) == 1
        and source.steps == target.steps
        and source.steps[long[0]] == value.ty.item_bytes
        and pointwise(lo, store.operands[1], value)
    )


def extent(lo: Lowering, pointer: Value) -> Extent | None:
    """The addresses of a pointer tensor that is affine in its index, masks aside."""
    em, level = lo.em, lo.em.depth
    steps = []
    for axis in range(len(pointer.ty.shape)):
        step = stride(lo, pointer, axis)
        if step is None:
            return None
        steps.append(step)
    origin = (index_const(0),) * len(pointer.ty.shape)
    start = evaluate(lo, Context(1, level), pointer, origin)
    base = em.op(level, f"ptrtoint ptr {start.val} to i64")
    first, last = base, base
    for step, size in zip(steps, pointer.ty.shape, strict=True):
        if size == 1 or step == 0:
            continue
        if isinstance(step, int):
            reach: str = str(step * (size - 1))
            down, up = (reach, "0") if step < 0 else ("0", reach)
        else:
            reach = em.op(level, f"mul i64 {step}, {size - 1}")
            negative = em.op(level, f"icmp slt i64 {reach}, 0")
            down = em.op(level, f"select i1 {negative}, i64 {reach}, i64 0")
            up = em.op(level, f"select i1 {negative}, i64 0, i64 {reach}")
        first = em.op(level, f"add i64 {first}, {down}")
        last = em.op(level, f"add i64 {last}, {up}")
    item = Ty(pointer.ty.pointee).item_bytes
    return Extent(first, em.op(level, f"add i64 {last}, {item}"), base, tuple(steps))


def stride(lo: Lowering, value: Value, axis: int) -> Step | None:
    """Growth per element along an axis, an integer or an i64 operand; bytes for pointers. None
    where a tensor is not affine."""
    if not value.ty.shape or value.ty.shape[axis] == 1:
        return 0
    bound = lo.env.get(value)
    if isinstance(bound, Shifted):
        return stride(lo, bound.init, axis)
    if isinstance(bound, Scalar):
        return 0
    if not isinstance(bound, Lazy):
        return None
    op = bound.op
    if op.name in ("arith.constant", "tt.splat"):
        return 0
    if op.name == "tt.make_range":
        return 1
    if op.name in ("tt.broadcast", "arith.extsi"):
        return stride(lo, op.operands[0], axis)
    if op.name == "tt.expand_dims":
        new = op.attrs["axis"]
        assert isinstance(new, int)
        return 0 if axis == new else stride(lo, op.operands[0], axis - (axis > new))
    if op.name in ("arith.addi", "arith.subi", "tt.addptr"):
        return _sum(lo, op, axis)
    if op.name == "arith.muli":
        return _product(lo, op, axis)
    return None


def _sum(lo: Lowering, op: Op, axis: int) -> Step | None:
    a, b = (stride(lo, operand, axis) for operand in op.operands)
    if a is None or b is None:
        return None
    if op.name == "tt.addptr":
        b = _times(lo, b, Ty(op.results[0].ty.pointee).item_bytes)
    if isinstance(a, int) and isinstance(b, int):
        return a - b if op.name == "arith.subi" else a + b
    name = "sub" if op.name == "arith.subi" else "add"
    return lo.em.op(lo.em.depth, f"{name} i64 {a}, {b}")


def _product(lo: Lowering, op: Op, axis: int) -> Step | None:
    """One factor may vary along the axis if the other is one scalar for the whole tensor."""
    for moving, other in (op.operands, op.operands[::-1]):
        step, source = stride(lo, moving, axis), uniform_source(lo, other)
        if step is None or source is None:
            continue
        if step == 0:
            return 0
        if source.ty.shape:
            origin = (index_const(0),) * len(source.ty.shape)
            form = evaluate(lo, Context(1, lo.em.depth), source, origin)
        else:
            form = scalar(lo, source)
        factor: Step = form.val
        if isinstance(factor, str) and form.elem != "i64":
            factor = lo.em.op(form.level, f"sext {form.elem} {factor} to i64")
        return _times(lo, step, factor)
    steps = [stride(lo, operand, axis) for operand in op.operands]
    return 0 if steps == [0, 0] else None


def _times(lo: Lowering, a: Step, b: Step) -> Step:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 0 in (a, b):
        return 0
    if 1 in (a, b):
        return b if a == 1 else a
    return lo.em.op(lo.em.depth, f"mul i64 {a}, {b}")
