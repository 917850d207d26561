"""Ops that walk whole tensors: when kept tensors get their buffers, and when loads run."""

from kernelsmith.devices.cpu import lower_elementwise, lower_memory
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.lower_dot import dot
from kernelsmith.devices.cpu.lower_evaluate import evaluate
from kernelsmith.devices.cpu.lower_forms import Form
from kernelsmith.devices.cpu.lower_fusion import no_overlap
from kernelsmith.devices.cpu.lower_graph import pointwise, reaches
from kernelsmith.devices.cpu.lower_masks import Masks, versioned
from kernelsmith.devices.cpu.lower_nest import lane_axis, materialise, over
from kernelsmith.devices.cpu.lower_plan import writes_memory
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Lazy, Lowering
from kernelsmith.devices.cpu.ttir import Op, Value


def settle(lo: Lowering, op: Op, *, everything: bool = False) -> None:
    """Before a root runs: buffers for the kept tensors that it reads and cannot write on its way;
    before one that writes memory, all loads that are not its own run.

    ``everything``: all of them, where the code is about to branch."""
    writes = writes_memory(op) or everything
    for value in list(lo.waiting):
        if writes or op.name.startswith("scf.") or _must_be_ready(lo, op, value):
            keep(lo, value)
    if not writes:
        return
    for value in list(lo.pending):
        if not lo.needed(value):
            del lo.pending[value]
        elif everything or op.name != "tt.store" or lo.roots.get(value, set()) != {op}:
            materialise(lo, value)
            del lo.pending[value]


def _must_be_ready(lo: Lowering, op: Op, value: Value) -> bool:
    read = [operand for operand in op.operands if reaches(lo, operand, value)]
    if op.name != "tt.reduce":
        return bool(read)
    return not all(pointwise(lo, operand, value) for operand in read)


def keep(lo: Lowering, value: Value) -> None:
    """Gives a waiting tensor its buffer now."""
    op = lo.waiting.pop(value)
    if isinstance(lo.env[value], Lazy):
        materialise(lo, value)
    if op not in lo.waiting.values():
        lo.consumed(op)


def _accumulator(lo: Lowering, op: Op) -> Buffer | None:
    """The buffer of ``acc`` in ``acc = dot(a, b, acc)`` when the loop carries it and nothing
    else reads it; the result then needs no buffer and no copy."""
    result, acc = op.results[0], op.operands[2]
    bound = lo.env.get(acc)
    block = lo.home[op]
    users = lo.uses.get(result, [])
    if not isinstance(bound, Buffer) or acc not in block.args or lo.uses[acc] != [op]:
        return None
    if len(users) != 1 or users[0] is not block.ops[-1] or bound.ty != result.ty:
        return None
    position = users[0].operands.index(result)
    return bound if block.args.index(acc) == position + 1 else None


def dot_in_place(lo: Lowering, op: Op) -> None:
    """A dot, into its accumulator's buffer where that is allowed."""
    dot(lo, op, _accumulator(lo, op))


def store(lo: Lowering, op: Op) -> None:
    """A tensor or scalar store. Its own loads run inside its loop unless they overlap with it."""
    own = [v for v in lo.pending if lo.roots.get(v, set()) == {op}]
    safe = no_overlap(lo, op, own) if own else None
    if not own or safe is None:
        for value in own:
            materialise(lo, value)
        _store(lo, op)
        return
    em, level = lo.em, lo.em.depth
    name = em.fresh("apart")
    em.do(level, f"br i1 {safe}, label %{name}.t, label %{name}.f")
    em.block(level, f"{name}.t")
    _store(lo, op)
    em.do(level, f"br label %{name}.end")
    em.block(level, f"{name}.f")
    before, lo.plain = lo.plain, True
    for value in own:
        materialise(lo, value)
    _store(lo, op)
    lo.plain = before
    em.do(level, f"br label %{name}.end")
    em.block(level, f"{name}.end")


def _store(lo: Lowering, op: Op) -> None:
    shape = op.operands[0].ty.shape

    def body(ctx: Context, index: tuple[Form, ...]) -> None:
        masks = Masks(lo, ctx)
        if ctx.lanes > 1:
            masks.add(op, index)

        def put(ctx: Context) -> list[Form]:
            if ctx.dead is not None and len(op.operands) > 2:
                return []
            pointer, value, *rest = (evaluate(lo, ctx, v, index) for v in op.operands)
            value = _clean(lo, ctx, value)
            mask = rest[0] if rest and ctx.unmasked is None else None
            lower_memory.store(lo.em, ctx.lanes, pointer, value, mask, lo.em.depth)
            return []

        versioned(lo, ctx, masks, put, dead=True)

    over(lo, shape, lane_axis(shape), body)


def _clean(lo: Lowering, ctx: Context, form: Form) -> Form:
    return lower_elementwise.clean(Asm(lo.em, form.level, ctx.lanes), form, ctx.lanes)
