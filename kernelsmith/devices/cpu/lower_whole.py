"""Loads whose mask turns out all true at run time: decided once a tile, then read without it.

A masked load of a tile costs a mask a row even when no element is off, as in every tile of a
matrix but the last.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kernelsmith.devices.cpu.lower_evaluate import evaluate
from kernelsmith.devices.cpu.lower_forms import Form, as_vector
from kernelsmith.devices.cpu.lower_state import Context, Lazy, Lowering, Scalar, index_const
from kernelsmith.devices.cpu.ttir import Op, Value

#: Longest mask that is tested in one vector.
_MAX_MASK = 1024


def masked_load(lo: Lowering, value: Value) -> Op | None:
    """The masked load behind a value, through widening and transposing; None if it is not one."""
    bound = lo.env[value]
    if not isinstance(bound, Lazy):
        return None
    op = bound.op
    if op.name in ("arith.extf", "tt.trans"):
        return masked_load(lo, op.operands[0])
    return op if op.name == "tt.load" and len(op.operands) > 1 else None


@contextmanager
def unmasked(lo: Lowering, load: Op) -> Iterator[None]:
    """Inside the block the load is lowered as if it had no mask."""
    value = load.results[0]
    bound = lo.env[value]
    plain = Op(load.name, load.operands[:1], load.results, load.attrs, (), load.line)
    lo.env[value] = Lazy(plain)
    try:
        yield
    finally:
        lo.env[value] = bound


def all_true(lo: Lowering, mask: Value) -> str | None:
    """An i1 operand: whether every element of a mask is true; None if that is not cheap to tell."""
    bound = lo.env[mask]
    if isinstance(bound, Scalar):
        return str(bound.form.val)
    if isinstance(bound, Lazy):
        op = bound.op
        if op.name == "arith.andi":
            sides = [all_true(lo, operand) for operand in op.operands]
            if None in sides:
                return None
            return lo.em.op(lo.em.depth, f"and i1 {sides[0]}, {sides[1]}")
        if op.name in ("tt.broadcast", "tt.expand_dims", "tt.splat", "tt.trans", "tt.reshape"):
            return all_true(lo, op.operands[0])
    size = mask.ty.size
    if len([dim for dim in mask.ty.shape if dim > 1]) > 1 or size > _MAX_MASK:
        return None
    ctx = Context(size, lo.em.depth)
    form = evaluate(lo, ctx, mask, tuple(_lanes(dim) for dim in mask.ty.shape))
    if form.kind == "U":
        return str(form.val)
    kind, name = f"<{size} x i1>", f"llvm.vector.reduce.and.v{size}i1"
    lo.em.declare(name, f"i1 @{name}({kind})")
    bits = as_vector(lo.em, form, size)
    return lo.em.op(form.level, f"call i1 @{name}({kind} {bits})")


def _lanes(dim: int) -> Form:
    """Index of a whole axis in one vector."""
    return index_const(0) if dim == 1 else Form("A", "i64", 0, 0, 1, False, dim)
