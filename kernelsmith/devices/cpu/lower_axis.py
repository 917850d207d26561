"""Along which axis a tensor lies contiguously in memory: found without emitting code."""

from kernelsmith.devices.cpu.lower_constant import constant
from kernelsmith.devices.cpu.lower_nest import lane_axis
from kernelsmith.devices.cpu.lower_state import Buffer, Lazy, Lowering, Scalar, Shifted
from kernelsmith.devices.cpu.ttir import Ty, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE

_PASS = ("arith.extsi", "arith.extui", "arith.index_cast", "tt.bitcast")


def step(lo: Lowering, value: Value, axis: int) -> int | None:
    """How much an integer or pointer (bytes) tensor grows per element along an axis; None if
    that is not a compile-time constant."""
    if not value.ty.shape or value.ty.shape[axis] == 1:
        return 0
    bound = lo.env.get(value)
    if isinstance(bound, Shifted):
        return step(lo, bound.init, axis)
    if isinstance(bound, Scalar):
        return 0
    if not isinstance(bound, Lazy):
        return None
    op = bound.op
    if op.name in ("arith.constant", "tt.splat"):
        return 0
    if op.name == "tt.make_range":
        return 1
    if op.name in ("tt.broadcast", *_PASS):
        return step(lo, op.operands[0], axis)
    if op.name == "tt.expand_dims":
        new = op.attrs["axis"]
        assert isinstance(new, int)
        return 0 if axis == new else step(lo, op.operands[0], axis - (axis > new))
    if op.name == "tt.trans":
        order = op.attrs["order"]
        assert isinstance(order, tuple)
        return step(lo, op.operands[0], order[axis])
    if op.name not in ELEMENTWISE:
        return None
    steps = [step(lo, o, axis) for o in op.operands]
    if all(s == 0 for s in steps):
        return 0
    if any(s is None for s in steps):
        return None
    a, b = steps[0] or 0, (steps[1] or 0) if len(steps) > 1 else 0
    if op.name == "arith.addi":
        return a + b
    if op.name == "arith.subi":
        return a - b
    if op.name == "tt.addptr":
        return a + b * Ty(op.results[0].ty.pointee).item_bytes
    if op.name == "arith.muli":
        for moving, other in ((a, op.operands[1]), (b, op.operands[0])):
            factor = constant_of(lo, other)
            if factor is not None and moving:
                return moving * factor
    return None


def constant_of(lo: Lowering, value: Value) -> int | None:
    """The integer that a scalar or a whole tensor is known to be."""
    bound = lo.env.get(value)
    if isinstance(bound, Scalar):
        return bound.form.val if isinstance(bound.form.val, int) else None
    if isinstance(bound, Lazy):
        if bound.op.name == "arith.constant":
            val = constant(bound.op).val
            return val if isinstance(val, int) else None
        if bound.op.name in ("tt.splat", "tt.broadcast", "tt.expand_dims", *_PASS):
            return constant_of(lo, bound.op.operands[0])
    return None


def contiguous_axis(lo: Lowering, value: Value) -> int:
    """The axis to run lanes along when a tensor is read once: where its loads are contiguous,
    else the last axis longer than 1."""
    found = _contiguous(lo, value)
    return lane_axis(value.ty.shape) if found is None else found


def _contiguous(lo: Lowering, value: Value) -> int | None:
    bound = lo.env.get(value)
    if isinstance(bound, Buffer):
        return len(value.ty.shape) - 1
    if not isinstance(bound, Lazy):
        return None
    op = bound.op
    if op.name == "tt.load":
        for axis in reversed(range(len(value.ty.shape))):
            size = value.ty.shape[axis]
            if size > 1 and step(lo, op.operands[0], axis) == value.ty.item_bytes:
                return axis
        return None
    if op.name == "tt.trans":
        order = op.attrs["order"]
        assert isinstance(order, tuple)
        inner = _contiguous(lo, op.operands[0])
        return None if inner is None else order.index(inner)
    if op.name in ELEMENTWISE:
        for operand in op.operands:
            found = _contiguous(lo, operand)
            if found is not None:
                return found
    return None
