"""Values that a loop carries: how each is held, and its next value at the end of the body.

A scalar is a phi. A tensor to which every iteration adds one and the same scalar (pointers, column
numbers) stays unevaluated, with a running sum beside it. Any other tensor has a buffer that is
rewritten at the end of the body.
"""

from dataclasses import dataclass

from kernelsmith.devices.cpu.lower_evaluate import evaluate, read_buffer, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, llvm
from kernelsmith.devices.cpu.lower_graph import reads_in_place, reads_memory
from kernelsmith.devices.cpu.lower_nest import fill, fill_all, lane_axis, over
from kernelsmith.devices.cpu.lower_state import (
    Buffer,
    Context,
    Lazy,
    Lowering,
    Scalar,
    Shifted,
    index_const,
)
from kernelsmith.devices.cpu.ttir import Ty, Value


def scalar(lo: Lowering, value: Value) -> Form:
    """The form of a scalar value."""
    bound = lo.env[value]
    assert isinstance(bound, Scalar)
    return bound.form


def elements(lo: Lowering, value: Value) -> str:
    """Address of a value's elements, one after the other, as they are now."""
    bound = lo.env[value]
    if isinstance(bound, Buffer):
        return bound.base
    if value.ty.shape:
        return fill(lo, value).base
    buffer = lo.new_buffer(value.ty, False)
    write_buffer(lo, Context(1, lo.em.depth), buffer, (), scalar(lo, value))
    return buffer.base


def is_dirty(value: Value) -> bool:
    """Whether a value's NaNs may have any payload once a loop or branch has joined it."""
    return value.ty.elem in ("f32", "f64")


def uniform_delta(lo: Lowering, value: Value, arg: Value) -> list[tuple[Value, int]] | None:
    """Scalars (with the bytes one step of each is worth; 0: an integer) that ``value`` adds to
    the loop-carried ``arg``, the same for every element; None when it is not of that form."""
    if value is arg:
        return []
    op = lo.definer.get(value)
    if op is None or op.name not in ("tt.addptr", "arith.addi"):
        return None
    base, step = op.operands
    if op.name == "arith.addi" and uniform_delta(lo, base, arg) is None:
        base, step = step, base
    rest = uniform_delta(lo, base, arg)
    if rest is None:
        return None
    source = uniform_source(lo, step) if step.ty.shape else step
    if source is None:
        return None
    unit = 0
    if op.name == "tt.addptr":
        unit = Ty(op.results[0].ty.pointee).item_bytes
    return [*rest, (source, unit)]


def uniform_source(lo: Lowering, value: Value) -> Value | None:
    """The scalar or constant that a tensor repeats, None if it is not uniform."""
    op = lo.definer.get(value)
    if op is None:
        return None
    if op.name == "tt.splat":
        return op.operands[0]
    if op.name == "arith.constant" and str(op.attrs["value"]).startswith("dense<"):
        return value
    if op.name in ("tt.broadcast", "tt.expand_dims"):
        return uniform_source(lo, op.operands[0])
    return None


@dataclass(slots=True)
class Carried:
    """One loop-carried value while its loop is lowered. ``first``: where a shifted value's
    running sum starts."""

    arg: Value
    init: Value
    new: Value
    deltas: list[tuple[Value, int]] | None = None
    name: str = ""
    kind: str = ""
    first: str = "0"
    buffer: Buffer | None = None


def start(lo: Lowering, item: Carried, *, moving: bool = True) -> None:
    """Before the loop: chooses how the value is carried and prepares its first value. ``moving``:
    a tensor may be carried as its first value and a running sum."""
    if not item.arg.ty.shape:
        item.kind, item.first = "scalar", str(scalar(lo, item.init).val)
        return
    item.deltas = uniform_delta(lo, item.new, item.arg) if moving else None
    if item.deltas is not None:
        item.kind = "shifted" if item.deltas else "same"
        item.init = settled(lo, item.init, always=not item.deltas)
        return
    item.kind = "buffer"
    item.buffer = lo.new_buffer(item.arg.ty, is_dirty(item.arg))
    filled = fill(lo, item.init, item.buffer)
    item.buffer = Buffer(filled.base, filled.ty, is_dirty(item.arg))


def settled(lo: Lowering, value: Value, *, always: bool) -> Value:
    """A tensor that means the same wherever it is evaluated later on: ``value`` itself, or one
    with its elements in a buffer. ``value`` is not bound to the buffer: it may be defined outside
    of a branch that this loop is in, and the buffer is filled only there."""
    bound = lo.env[value]
    repeatable = not (always and value.ty.is_float) and not reads_memory(lo, value)
    constant = isinstance(bound, Lazy) and bound.op.name == "arith.constant"
    if not isinstance(bound, Lazy | Shifted) or constant or repeatable:
        return value
    copied = Value(value.name, value.ty)
    lo.env[copied] = fill(lo, value)
    return copied


def enter(lo: Lowering, item: Carried, level: int) -> None:
    """At the top of the body: binds the region argument."""
    if item.kind == "buffer":
        assert item.buffer is not None
        lo.env[item.arg] = item.buffer
        return
    if item.kind == "same":
        lo.env[item.arg] = lo.env[item.init]
        return
    item.name = f"%{lo.em.fresh('p')}"
    if item.kind == "scalar":
        form = Form("U", item.arg.ty.elem, item.name, level, 0, is_dirty(item.arg))
        lo.env[item.arg] = Scalar(form)
        return
    elem = "i64" if item.arg.ty.elem == "ptr" else item.arg.ty.elem
    lo.env[item.arg] = Shifted(item.init, Form("U", elem, item.name, level))


def commit(lo: Lowering, carried: list[Carried]) -> list[tuple[str, str, str, str]]:
    """At the end of the body: next values. Returns phis (name, type, first, next)."""
    phis = []
    for item in carried:
        if item.kind == "scalar":
            new = scalar(lo, item.new)
            phis.append((item.name, llvm(new.elem), item.first, str(new.val)))
        elif item.kind == "shifted":
            assert item.deltas is not None
            elem = "i64" if item.arg.ty.elem == "ptr" else item.arg.ty.elem
            total: str = item.name
            for source, unit in item.deltas:
                total = lo.em.op(lo.em.depth, f"add {elem} {total}, {delta(lo, source, unit)}")
            phis.append((item.name, elem, item.first, total))
    commit_buffers(lo, [i for i in carried if i.kind == "buffer"])
    return phis


def delta(lo: Lowering, source: Value, unit: int) -> str | int:
    """One step of a shifted value, in bytes for pointers."""
    if source.ty.shape:
        origin = (index_const(0),) * len(source.ty.shape)
        form = evaluate(lo, Context(1, lo.em.depth), source, origin)
    else:
        form = scalar(lo, source)
    if unit == 0:
        return form.val
    if isinstance(form.val, int):
        return form.val * unit
    wide = form.val
    if form.elem != "i64":
        wide = lo.em.op(form.level, f"sext {form.elem} {wide} to i64")
    return lo.em.op(form.level, f"mul i64 {wide}, {unit}")


def commit_buffers(lo: Lowering, items: list[Carried]) -> None:
    """Writes the next values of carried tensors over the present ones.

    A value that reads only its own buffer, element by element, is computed in place; others are
    computed aside first, so that none sees another's next value."""
    owned = [item.buffer for item in items if item.buffer is not None]
    aside: list[tuple[Carried, Buffer]] = []
    direct: dict[tuple[int, ...], list[tuple[Value, Buffer]]] = {}
    for item in items:
        assert item.buffer is not None
        bound = lo.env[item.new]
        if bound is item.buffer:
            continue
        if reads_in_place(lo, item.new, item.buffer, owned):
            direct.setdefault(item.new.ty.shape, []).append((item.new, item.buffer))
        elif isinstance(bound, Buffer) and all(bound is not b for b in owned):
            aside.append((item, bound))
        else:
            aside.append((item, fill(lo, item.new)))
    for pairs in direct.values():
        fill_all(lo, pairs)
    for item, source in aside:
        assert item.buffer is not None
        copy(lo, source, item.buffer)


def copy(lo: Lowering, source: Buffer, target: Buffer) -> None:
    """Copies a dense buffer."""

    def body(ctx: Context, index: tuple[Form, ...]) -> None:
        write_buffer(lo, ctx, target, index, read_buffer(lo, ctx, source, index))

    over(lo, source.ty.shape, lane_axis(source.ty.shape), body)


def leave(lo: Lowering, item: Carried, result: Value, level: int) -> None:
    """After the loop: binds the result."""
    if item.kind == "buffer":
        assert item.buffer is not None
        lo.env[result] = item.buffer
    elif item.kind == "same":
        lo.env[result] = lo.env[item.init]
    elif item.kind == "scalar":
        form = Form("U", result.ty.elem, item.name, level, 0, is_dirty(result))
        lo.env[result] = Scalar(form)
    else:
        elem = "i64" if result.ty.elem == "ptr" else result.ty.elem
        lo.env[result] = Shifted(item.init, Form("U", elem, item.name, level))
