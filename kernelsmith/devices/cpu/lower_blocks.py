"""Bodies of several blocks: what an early ``return`` makes of a kernel, of a function that is
called, or of the region of an op.

Triton makes no loop of branches. Blocks are lowered after all that lead to them, which the printer
need not put before them. What a branch passes meets in phis (scalars) or in a buffer that
each side fills (tensors), and so does what several ``return`` give.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernelsmith.devices.cpu.lower_carry import is_dirty, scalar
from kernelsmith.devices.cpu.lower_forms import Form, llvm
from kernelsmith.devices.cpu.lower_nest import fill
from kernelsmith.devices.cpu.lower_roots import settle
from kernelsmith.devices.cpu.lower_state import Bound, Buffer, Lowering, Scalar
from kernelsmith.devices.cpu.ttir import Block, Op, Value
from kernelsmith.devices.cpu.ttir_branch import BRANCHES, ordered, targets

Run = Callable[[Lowering, Sequence[Op]], None]


@dataclass(slots=True)
class _Place:
    """Where control arrives: its label, what it receives, and from where each scalar came."""

    label: str
    receives: tuple[Value, ...]
    buffers: dict[Value, Buffer]
    sources: list[tuple[str, list[str]]] = field(default_factory=list)


def run_blocks(lo: Lowering, blocks: tuple[Block, ...], run: Run) -> list[Bound]:
    """Lowers a body at the innermost level; its entry block's arguments are bound already.

    Returns what its ``return`` ops give, in order.

    Raises:
        CompileError: branches that make a loop.
    """
    if len(blocks) == 1:
        last = blocks[0].ops[-1]
        run(lo, blocks[0].ops[:-1])
        if any(value.ty.shape for value in last.operands):
            settle(lo, last, everything=True)  # the caller may write before it reads them
        lo.left(blocks[0])
        return [lo.env[value] for value in last.operands]
    em, level = lo.em, lo.em.depth
    returns = [b.ops[-1] for b in blocks if b.ops[-1].name not in BRANCHES]
    # Several returns meet in the values of the first one, which serve as names here.
    met = tuple(Value(v.name, v.ty) for v in returns[0].operands) if len(returns) > 1 else ()
    end = _place(lo, em.fresh("end"), met)
    places = {b.label: _place(lo, em.fresh("bb"), b.args) for b in blocks[1:]}
    for block in ordered(blocks):
        if block is not blocks[0]:
            _arrive(lo, places[block.label])
        run(lo, block.ops[:-1])
        settle(lo, block.ops[-1], everything=True)
        _leave(lo, block.ops[-1], places, end)
    if met:
        _arrive(lo, end)
        return [lo.env[value] for value in met]
    em.block(level, end.label)
    return [lo.env[value] for value in returns[0].operands]


def _place(lo: Lowering, label: str, receives: tuple[Value, ...]) -> _Place:
    buffers = {v: lo.new_buffer(v.ty, is_dirty(v)) for v in receives if v.ty.shape}
    return _Place(label, receives, buffers)


def _arrive(lo: Lowering, place: _Place) -> None:
    """Starts the block of a place and binds what it receives."""
    em, level = lo.em, lo.em.depth
    em.block(level, place.label)
    at = 0
    for value in place.receives:
        if value in place.buffers:
            lo.env[value] = place.buffers[value]
            continue
        pairs = ", ".join(f"[{texts[at]}, %{label}]" for label, texts in place.sources)
        got = em.op(level, f"phi {llvm(value.ty.elem)} {pairs}")
        lo.env[value] = Scalar(Form("U", value.ty.elem, got, level, 0, is_dirty(value)))
        at += 1


def _go(lo: Lowering, place: _Place, values: Sequence[Value]) -> None:
    """From here to a place, with values."""
    em, level = lo.em, lo.em.depth
    texts: list[str] = []
    for value, wanted in zip(values, place.receives, strict=True):
        if wanted in place.buffers:
            fill(lo, value, place.buffers[wanted])
        else:
            texts.append(str(scalar(lo, value).val))
    place.sources.append((em.label(level), texts))
    em.do(level, f"br label %{place.label}")


def _leave(lo: Lowering, op: Op, places: dict[str, _Place], end: _Place) -> None:
    """The branch or return at a block's end."""
    em, level = lo.em, lo.em.depth
    if op.name not in BRANCHES:
        _go(lo, end, op.operands if end.receives else ())
        return
    ways = [(places[label], given) for label, given in targets(op)]
    if op.name == "cf.br":
        _go(lo, *ways[0])
        return
    # Each way has a block of its own: it fills buffers, and both may lead to one place.
    name = em.fresh("edge")
    em.do(level, f"br i1 {scalar(lo, op.operands[0]).val}, label %{name}.t, label %{name}.f")
    for side, target in zip("tf", ways, strict=True):
        em.block(level, f"{name}.{side}")
        _go(lo, *target)
