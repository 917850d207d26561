"""Structured control flow: scf.for, scf.if, scf.while."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelsmith.devices.cpu import lower_chain
from kernelsmith.devices.cpu.codegen_text import Stream
from kernelsmith.devices.cpu.lower_evaluate import evaluate
from kernelsmith.devices.cpu.lower_forms import Form, llvm
from kernelsmith.devices.cpu.lower_nest import fill, lane_axis, over
from kernelsmith.devices.cpu.lower_evaluate import read_buffer, write_buffer
from kernelsmith.devices.cpu.lower_plan import is_lazy
from kernelsmith.devices.cpu.lower_state import (
    Buffer,
    Context,
    Lazy,
    Lowering,
    Scalar,
    Shifted,
    index_const,
)
from kernelsmith.devices.cpu.ttir import Block, Op, Value
from kernelsmith.errors import CompileError

Run = Callable[[Lowering, Sequence[Op]], None]


def scalar(lo: Lowering, value: Value) -> Form:
    """The form of a scalar value."""
    bound = lo.env[value]
    assert isinstance(bound, Scalar)
    return bound.form


def is_dirty(value: Value) -> bool:
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
        from kernelsmith.devices.cpu.ttir import Ty

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
class _Carried:
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


def lower_for(lo: Lowering, op: Op, run: Run) -> None:
    """``scf.for``. The induction variable runs in 64 bits so that it cannot overflow."""
    body = op.regions[0]
    unsigned = bool(op.attrs.get("unsigned"))
    carried = [
        _Carried(arg, init, new)
        for arg, init, new in zip(
            body.args[1:], op.operands[3:], body.ops[-1].operands, strict=True
        )
    ]
    depth = lo.em.depth
    bounds = [_widen(lo, scalar(lo, v), unsigned, depth) for v in op.operands[:3]]
    for item in carried:
        _start(lo, item)
    deltas = {
        i.arg: None if i.kind == "buffer" else uniform_delta(lo, i.new, i.arg) for i in carried
    }
    chain = lower_chain.match(lo, op, deltas)
    if chain is not None:
        bounds[0] = _blocks(lo, chain, carried, bounds)
    _loop(lo, op, run, carried, bounds)
    for item, result in zip(carried, op.results, strict=True):
        _leave(lo, item, result, depth)


def _blocks(
    lo: Lowering, chain: lower_chain.Chain, carried: list[_Carried], bounds: list[str | int]
) -> str:
    """The part of a chain that runs as a matrix product. Returns the loop's new lower bound and
    moves what the loop carries to it."""
    em, level = lo.em, lo.em.depth
    (item,) = (i for i in carried if i.arg is chain.acc)
    assert item.buffer is not None
    lower, upper = (Form("U", "i64", b, level) for b in bounds[:2])
    covered = lower_chain.blocks(lo, chain, item.buffer, lower, upper)
    done = Form("U", "i64", covered, level)
    lower_chain.bind_iteration(lo, chain, lower, done)
    for other in carried:
        if other.kind == "shifted":
            bound = lo.env[other.arg]
            assert isinstance(bound, Shifted)
            other.first = str(bound.delta.val)
        elif other.kind == "scalar":
            value = evaluate(lo, Context(1, level), other.arg, ())
            other.first = str(value.val)
    return em.op(level, f"add i64 {lower.val}, {covered}")


def _loop(
    lo: Lowering, op: Op, run: Run, carried: list[_Carried], bounds: list[str | int]
) -> None:
    """The loop itself, tested at the top."""
    em, body = lo.em, op.regions[0]
    elem = body.args[0].ty.elem
    name = em.fresh("for")
    em.streams.append(Stream([], f"{name}.body"))
    inner = em.depth
    narrow = f"%{name}.i"
    if elem != "i64":
        narrow = em.op(inner, f"trunc i64 %{name}.i to {elem}")
    lo.env[body.args[0]] = Scalar(Form("U", elem, narrow, inner))
    for item in carried:
        _enter(lo, item, inner)
    run(lo, body.ops[:-1])
    phis = commit(lo, carried)
    lo.consumed(body.ops[-1])
    stream = em.streams.pop()
    outer = em.streams[-1]
    pre, head, latch, end = (f"{name}.{x}" for x in ("pre", "head", "latch", "end"))
    lines = outer.lines
    lines += [f"  br label %{pre}", f"{pre}:", f"  br label %{head}", f"{head}:"]
    lines.append(f"  %{name}.i = phi i64 [{bounds[0]}, %{pre}], [%{name}.n, %{latch}]")
    for phi, type_, first, new in phis:
        lines.append(f"  {phi} = phi {type_} [{first}, %{pre}], [{new}, %{latch}]")
    compare = "ult" if op.attrs.get("unsigned") else "slt"
    lines += [
        f"  %{name}.c = icmp {compare} i64 %{name}.i, {bounds[1]}",
        f"  br i1 %{name}.c, label %{name}.body, label %{end}",
        f"{name}.body:",
        *stream.lines,
        f"  br label %{latch}",
        f"{latch}:",
        f"  %{name}.n = add i64 %{name}.i, {bounds[2]}",
        f"  br label %{head}",
        f"{end}:",
    ]
    outer.label = end


def _widen(lo: Lowering, form: Form, unsigned: bool, level: int) -> str | int:
    if isinstance(form.val, int) or form.elem == "i64":
        return form.val
    name = "zext" if unsigned else "sext"
    return lo.em.op(level, f"{name} {form.elem} {form.val} to i64")


def _start(lo: Lowering, item: _Carried) -> None:
    """Before the loop: chooses how the value is carried and prepares its first value."""
    if not item.arg.ty.shape:
        item.kind, item.first = "scalar", str(scalar(lo, item.init).val)
        return
    item.deltas = uniform_delta(lo, item.new, item.arg)
    if item.deltas is not None:
        item.kind = "shifted"
        return
    item.kind = "buffer"
    item.buffer = lo.new_buffer(item.arg.ty, is_dirty(item.arg))
    filled = fill(lo, item.init, item.buffer)
    item.buffer = Buffer(filled.base, filled.ty, is_dirty(item.arg))


def _enter(lo: Lowering, item: _Carried, level: int) -> None:
    """At the top of the body: binds the region argument."""
    if item.kind == "buffer":
        assert item.buffer is not None
        lo.env[item.arg] = item.buffer
        return
    item.name = f"%{lo.em.fresh('p')}"
    if item.kind == "scalar":
        form = Form("U", item.arg.ty.elem, item.name, level, 0, is_dirty(item.arg))
        lo.env[item.arg] = Scalar(form)
        return
    elem = "i64" if item.arg.ty.elem == "ptr" else item.arg.ty.elem
    lo.env[item.arg] = Shifted(item.init, Form("U", elem, item.name, level))


def commit(lo: Lowering, carried: list[_Carried]) -> list[tuple[str, str, str, str]]:
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


def commit_buffers(lo: Lowering, items: list[_Carried]) -> None:
    """Writes the next values of carried tensors over the present ones.

    A value that reads only its own buffer, element by element, is computed in place; others are
    computed aside first, so that none sees another's next value."""
    args = {item.arg for item in items}
    aside: list[tuple[_Carried, Buffer]] = []
    direct: list[_Carried] = []
    for item in items:
        if item.new is item.arg:
            continue
        if reads_in_place(lo, item.new, item.arg, args):
            direct.append(item)
        elif isinstance(lo.env[item.new], Buffer) and item.new not in args:
            bound = lo.env[item.new]
            assert isinstance(bound, Buffer)
            aside.append((item, bound))
        else:
            aside.append((item, fill(lo, item.new)))
    for item in direct:
        assert item.buffer is not None
        if lo.env[item.new] is not item.buffer:
            fill(lo, item.new, item.buffer)
    for item, source in aside:
        assert item.buffer is not None
        copy(lo, source, item.buffer)


def reads_in_place(lo: Lowering, value: Value, own: Value, args: set[Value]) -> bool:
    """Whether a value depends on carried buffers only through ``own`` at its own index."""
    if value is own:
        return True
    if value in args:
        return False
    bound = lo.env[value]
    if isinstance(bound, Buffer):
        return all(b is not bound for b in (lo.env[a] for a in args if a is not own))
    if isinstance(bound, Shifted):
        return reads_in_place(lo, bound.init, own, args)
    if not isinstance(bound, Lazy):
        return True
    moves = bound.op.name in (
        "tt.trans", "tt.reshape", "tt.split", "tt.join", "tt.cat", "tt.broadcast",
        "tt.expand_dims",
    )  # fmt: skip
    for operand in bound.op.operands:
        if moves and depends_on(lo, operand, args):
            return False
        if not reads_in_place(lo, operand, own, args):
            return False
    return True


def depends_on(lo: Lowering, value: Value, args: set[Value]) -> bool:
    """Whether evaluating a value reads one of the carried buffers."""
    if value in args:
        return True
    bound = lo.env.get(value)
    if isinstance(bound, Shifted):
        return depends_on(lo, bound.init, args)
    if isinstance(bound, Lazy):
        return any(depends_on(lo, o, args) for o in bound.op.operands)
    return False


def copy(lo: Lowering, source: Buffer, target: Buffer) -> None:
    """Copies a dense buffer."""

    def body(ctx: Context, index: tuple[Form, ...]) -> None:
        write_buffer(lo, ctx, target, index, read_buffer(lo, ctx, source, index))

    over(lo, source.ty.shape, lane_axis(source.ty.shape), body)


def _leave(lo: Lowering, item: _Carried, result: Value, level: int) -> None:
    """After the loop: binds the result."""
    if item.kind == "buffer":
        assert item.buffer is not None
        lo.env[result] = item.buffer
    elif item.kind == "scalar":
        form = Form("U", result.ty.elem, item.name, level, 0, is_dirty(result))
        lo.env[result] = Scalar(form)
    else:
        elem = "i64" if result.ty.elem == "ptr" else result.ty.elem
        lo.env[result] = Shifted(item.init, Form("U", elem, item.name, level))


def lower_if(lo: Lowering, op: Op, run: Run) -> None:
    """``scf.if``: scalar results meet in phis, tensors in a buffer that each side fills."""
    em, level = lo.em, lo.em.depth
    name = em.fresh("if")
    cond = scalar(lo, op.operands[0])
    buffers = {
        r: lo.new_buffer(r.ty, is_dirty(r)) for r in op.results if r.ty.shape
    }
    sides: list[tuple[str, list[str]]] = []
    em.do(level, f"br i1 {cond.val}, label %{name}.0, label %{name}.1")
    for side in (0, 1):
        em.block(level, f"{name}.{side}")
        values: list[str] = []
        if side < len(op.regions):
            region = op.regions[side]
            run(lo, region.ops[:-1])
            for result, new in zip(op.results, region.ops[-1].operands, strict=True):
                if result in buffers:
                    fill(lo, new, buffers[result])
                else:
                    values.append(str(scalar(lo, new).val))
            lo.consumed(region.ops[-1])
        sides.append((em.label(level), values))
        em.do(level, f"br label %{name}.end")
    em.block(level, f"{name}.end")
    at = 0
    for result in op.results:
        if result in buffers:
            lo.env[result] = buffers[result]
            continue
        pairs = ", ".join(f"[{values[at]}, %{label}]" for label, values in sides)
        got = em.op(level, f"phi {llvm(result.ty.elem)} {pairs}")
        lo.env[result] = Scalar(Form("U", result.ty.elem, got, level, 0, is_dirty(result)))
        at += 1


def lower_while(lo: Lowering, op: Op, run: Run) -> None:
    """``scf.while`` over scalars."""
    em, level = lo.em, lo.em.depth
    before, after = op.regions
    values = [*before.args, *after.args, *op.results]
    if any(v.ty.shape for v in values):
        raise CompileError(
            f"scf.while that carries a tensor at {op.line} is not lowered on the cpu device",
            op=op.name,
            line=op.line,
            hint="use a for loop",
        )
    name = em.fresh("while")
    firsts = [scalar(lo, v) for v in op.operands]
    em.streams.append(Stream([], f"{name}.head"))
    inner = em.depth
    names = [f"%{em.fresh('p')}" for _ in before.args]
    for arg, phi in zip(before.args, names, strict=True):
        lo.env[arg] = Scalar(Form("U", arg.ty.elem, phi, inner, 0, is_dirty(arg)))
    run(lo, before.ops[:-1])
    condition, *passed = (scalar(lo, v) for v in before.ops[-1].operands)
    em.do(inner, f"br i1 {condition.val}, label %{name}.body, label %{name}.end")
    em.block(inner, f"{name}.body")
    for arg, form in zip(after.args, passed, strict=True):
        lo.env[arg] = Scalar(form)
    run(lo, after.ops[:-1])
    nexts = [scalar(lo, v) for v in after.ops[-1].operands]
    latch = em.label(inner)
    stream = em.streams.pop()
    outer = em.streams[-1]
    lines = outer.lines
    lines += [f"  br label %{name}.pre", f"{name}.pre:", f"  br label %{name}.head", f"{name}.head:"]
    for phi, first, new in zip(names, firsts, nexts, strict=True):
        pairs = f"[{first.val}, %{name}.pre], [{new.val}, %{latch}]"
        lines.append(f"  {phi} = phi {llvm(first.elem)} {pairs}")
    lines += [*stream.lines, f"  br label %{name}.head", f"{name}.end:"]
    outer.label = f"{name}.end"
    for result, form in zip(op.results, passed, strict=True):
        lo.env[result] = Scalar(
            Form("U", form.elem, form.val, min(form.level, level), 0, form.dirty)
        )


__all__ = ["Block", "is_lazy", "lower_for", "lower_if", "lower_while"]
