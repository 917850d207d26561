"""Structured control flow: scf.for, scf.if, scf.while."""

from kernelsmith.devices.cpu import lower_chain, lower_observe
from kernelsmith.devices.cpu.codegen_text import Stream
from kernelsmith.devices.cpu.lower_blocks import Run
from kernelsmith.devices.cpu.lower_carry import (
    Carried,
    commit,
    enter,
    is_dirty,
    leave,
    scalar,
    start,
    uniform_delta,
)
from kernelsmith.devices.cpu.lower_evaluate import evaluate
from kernelsmith.devices.cpu.lower_forms import Form, llvm
from kernelsmith.devices.cpu.lower_nest import fill
from kernelsmith.devices.cpu.lower_state import Bound, Buffer, Context, Lowering, Scalar, Shifted
from kernelsmith.devices.cpu.ttir import Op, Value


def lower_for(lo: Lowering, op: Op, run: Run) -> None:
    """``scf.for``. The induction variable runs in 64 bits so that it cannot overflow."""
    body = op.regions[0]
    unsigned = bool(op.attrs.get("unsigned"))
    carried = [
        Carried(arg, init, new)
        for arg, init, new in zip(
            body.args[1:], op.operands[3:], body.ops[-1].operands, strict=True
        )
    ]
    depth = lo.em.depth
    bounds = [_widen(lo, scalar(lo, v), unsigned, depth) for v in op.operands[:3]]
    for item in carried:
        start(lo, item)
    deltas = {
        i.arg: None if i.kind == "buffer" else uniform_delta(lo, i.new, i.arg) for i in carried
    }
    chain = lower_chain.match(lo, op, deltas)
    if chain is not None:
        bounds[0] = _blocks(lo, chain, carried, bounds)
    _loop(lo, op, run, carried, bounds)
    for item, result in zip(carried, op.results, strict=True):
        leave(lo, item, result, depth)


def _blocks(
    lo: Lowering, chain: lower_chain.Chain, carried: list[Carried], bounds: list[str | int]
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


def _loop(lo: Lowering, op: Op, run: Run, carried: list[Carried], bounds: list[str | int]) -> None:
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
        enter(lo, item, inner)
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
    beat, goes = lower_observe.beat(lo, op, name, f"%{name}.c")
    lines += [
        f"  %{name}.c = icmp {compare} i64 %{name}.i, {bounds[1]}",
        *beat,
        f"  br i1 {goes}, label %{name}.body, label %{end}",
        f"{name}.body:",
        *stream.lines,
        f"  br label %{latch}",
        f"{latch}:",
        f"  %{name}.n = add i64 %{name}.i, {bounds[2]}",
        f"  br label %{head}{em.loop_mark()}",
        f"{end}:",
    ]
    outer.label = end


def _widen(lo: Lowering, form: Form, unsigned: bool, level: int) -> str | int:
    if isinstance(form.val, int) or form.elem == "i64":
        return form.val
    name = "zext" if unsigned else "sext"
    return lo.em.op(level, f"{name} {form.elem} {form.val} to i64")


def lower_if(lo: Lowering, op: Op, run: Run) -> None:
    """``scf.if``: scalar results meet in phis, tensors in a buffer that each side fills."""
    em, level = lo.em, lo.em.depth
    name = em.fresh("if")
    cond = scalar(lo, op.operands[0])
    buffers = {r: lo.new_buffer(r.ty, is_dirty(r)) for r in op.results if r.ty.shape}
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
    """``scf.while``. Scalars are phis; a carried tensor has a buffer, and so has a tensor that the
    condition passes on, unless it is a carried one as it stands."""
    em, level = lo.em, lo.em.depth
    before, after = op.regions
    name = em.fresh("while")
    carried = [
        Carried(arg, init, new)
        for arg, init, new in zip(before.args, op.operands, after.ops[-1].operands, strict=True)
    ]
    for item in carried:
        start(lo, item, moving=False)
    em.streams.append(Stream([], f"{name}.head"))
    inner = em.depth
    for item in carried:
        enter(lo, item, inner)
    run(lo, before.ops[:-1])
    condition, *passed = before.ops[-1].operands
    test = scalar(lo, condition).val
    bounds = [_passed(lo, value) for value in passed]
    lo.consumed(before.ops[-1])
    em.do(inner, f"br i1 {test}, label %{name}.body, label %{name}.end")
    em.block(inner, f"{name}.body")
    for arg, bound in zip(after.args, bounds, strict=True):
        lo.env[arg] = bound
    run(lo, after.ops[:-1])
    phis = commit(lo, carried)
    lo.consumed(after.ops[-1])
    latch = em.label(inner)
    stream = em.streams.pop()
    outer = em.streams[-1]
    lines = outer.lines
    lines += [
        f"  br label %{name}.pre",
        f"{name}.pre:",
        f"  br label %{name}.head",
        f"{name}.head:",
    ]
    for phi, type_, first, new in phis:
        lines.append(f"  {phi} = phi {type_} [{first}, %{name}.pre], [{new}, %{latch}]")
    lines += [*stream.lines, f"  br label %{name}.head", f"{name}.end:"]
    outer.label = f"{name}.end"
    for result, bound in zip(op.results, bounds, strict=True):
        if isinstance(bound, Scalar):
            form = bound.form
            at = min(form.level, level)
            bound = Scalar(Form("U", form.elem, form.val, at, 0, form.dirty))
        lo.env[result] = bound


def _passed(lo: Lowering, value: Value) -> Bound:
    """What a loop's condition hands to the body and to the results, evaluated now."""
    if not value.ty.shape:
        return Scalar(scalar(lo, value))
    bound = lo.env[value]
    if isinstance(bound, Buffer):
        return bound
    return fill(lo, value, lo.new_buffer(value.ty, False))
