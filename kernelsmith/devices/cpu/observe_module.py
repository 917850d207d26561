"""Where notes go: a parsed module rewritten for the observing build.

Before every access stands an ``observe.access`` of its pointers and mask, whose result, the lanes
that may go on, becomes the access's mask; before a store of several lanes also an ``observe.lanes``
of its values. The condition of a ``while`` loop goes through an
``observe.turn``; a ``for`` loop is marked to beat.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from kernelsmith.devices.cpu import observe
from kernelsmith.devices.cpu.observe import Site
from kernelsmith.devices.cpu.observe_pointers import parameters_of
from kernelsmith.devices.cpu.ttir import Block, Function, Module, Op, Ty, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE, SHAPE
from kernelsmith.errors import CompileError

ACCESS, LANES = "observe.access", "observe.lanes"
TURN, SINK = "observe.turn", "observe.sink"
_ANYWHERE = frozenset(
    {"tt.call", "tt.return", "scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition"}
    | {"cf.br", "cf.cond_br", "arith.constant", "ub.poison"}
)
_DOES = {
    "tt.load": "reads", "tt.store": "writes", "tt.atomic_cas": "compares and swaps",
    "tt.atomic_load": "reads", "tt.atomic_store": "writes",
}  # fmt: skip
_CHANGES = {
    "fadd": "adds floats atomically to", "add": "adds atomically to", "exch": "exchanges",
    "and": "ands", "or": "ors", "xor": "xors", "max": "takes the maximum into",
    "min": "takes the minimum into", "umax": "takes the maximum into",
    "umin": "takes the minimum into",
}  # fmt: skip
_WORDS = {"f32": "i32", "f64": "i64"}
_MASK_AT = {
    "tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2, "tt.atomic_load": 1, "tt.atomic_store": 2,
}  # fmt: skip


def observed(module: Module) -> tuple[Module, tuple[Site, ...]]:
    """The module with notes, and the sites that they name by number.

    Raises:
        CompileError: a kernel that cannot be observed; names op and line.
    """
    functions = (module.kernel, *module.callees.values())
    used = {value for f in functions for block in f.blocks for value in _operands(block)}
    placed = _Notes(parameters_of(module), used, len(module.kernel.args))
    callees = {name: placed.function(function) for name, function in module.callees.items()}
    return Module(placed.function(module.kernel), callees), tuple(placed.sites)


def stats(module: Module, sites: Iterable[Site]) -> dict[str, Any]:
    """What an observing build tells its host, JSON-able: sites and names of parameters."""
    names = [arg.name.lstrip("%") for arg in module.kernel.args]
    return {"sites": [asdict(site) for site in sites], "names": names}


def _operands(block: Block) -> Iterator[Value]:
    """All that the ops of a block and of its regions use."""
    for op in block.ops:
        yield from op.operands
        for region in op.regions:
            yield from _operands(region)


class _Notes:
    """Places notes and numbers their sites."""

    def __init__(self, parameters: dict[Value, int], used: set[Value], count: int) -> None:
        self.sites: list[Site] = []
        self._parameters = parameters
        self._used = used
        # The slot after the last argument holds the address of the block.
        self._slot = 8 * count

    def function(self, function: Function) -> Function:
        blocks = tuple(self.block(block) for block in function.blocks)
        return Function(function.name, function.public, function.args, blocks)

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            ops += self._op(op)
        return Block(block.args, tuple(ops), block.label)

    def _op(self, op: Op) -> list[Op]:
        if op.name in _MASK_AT or op.name == "tt.atomic_cas":
            return self._access(op)
        self._refuse_others(op)
        regions = tuple(self.block(region) for region in op.regions)
        attrs = op.attrs
        if op.name == "scf.for":
            attrs = {**attrs, "beat": self._site(op, "loops"), "slot": self._slot}
        if op.name == "scf.while":
            regions = (self._turn(op, regions[0]), *regions[1:])
        return [Op(op.name, op.operands, op.results, attrs, regions, op.line)]

    def _access(self, op: Op) -> list[Op]:
        pointer = op.operands[0]
        kind, does = _kind(op)
        if observe.MIXED < kind < observe.FLOAT and self._used.intersection(op.results):
            # What was there before tells a program its place in the order.
            kind, does = observe.MIXED, f"{does} and reads back"
        site = self._site(
            op,
            does,
            param=self._parameters.get(pointer, -1),
            size=Ty(pointer.ty.pointee).item_bytes,
            writes=kind != observe.READ,
        )
        goes = Value("%goes", Ty("i1", pointer.ty.shape))
        at = _MASK_AT.get(op.name, 0)
        mask = op.operands[at : at + 1] if at else ()
        placed = self.sites[site]
        attrs: dict[str, object] = {"site": site, "kind": kind, "slot": self._slot}
        attrs |= {"param": placed.param, "size": placed.size}
        note = Op(ACCESS, (pointer, *mask), (goes,), attrs, (), op.line)
        if at:
            operands = (*op.operands[:at], goes, *op.operands[at + 1 :])
            access = Op(op.name, operands, op.results, op.attrs, op.regions, op.line)
            return [note, *self._lanes(op, goes, attrs), access]
        return [note, *self._aside(op, goes)]

    def _lanes(self, op: Op, goes: Value, attrs: dict[str, object]) -> list[Op]:
        """Of a store of several elements: a note of what it puts where."""
        if op.name != "tt.store" or not goes.ty.shape:
            return []
        pointer, value = op.operands[:2]
        if value.ty.elem not in _WORDS:
            return [Op(LANES, (pointer, goes, value), (), attrs, (), op.line)]
        # As bits a NaN is the one that the store writes.
        bits = Value("%bits", Ty(_WORDS[value.ty.elem], value.ty.shape))
        cast = Op("tt.bitcast", (value,), (bits,), {}, (), op.line)
        return [cast, Op(LANES, (pointer, goes, bits), (), attrs, (), op.line)]

    def _aside(self, op: Op, goes: Value) -> list[Op]:
        """An access without a mask: what may not go on goes to a word of the block instead."""
        pointer = op.operands[0]
        sink = Value("%sink", Ty("ptr", (), pointer.ty.pointee))
        slot: dict[str, object] = {"slot": self._slot}
        ops = [Op(SINK, (), (sink,), slot, (), op.line)]
        if pointer.ty.shape:
            wide = Value("%sinks", pointer.ty)
            ops.append(Op("tt.splat", (sink,), (wide,), {}, (), op.line))
            sink = wide
        safe = Value("%safe", pointer.ty)
        ops.append(Op("arith.select", (goes, pointer, sink), (safe,), {}, (), op.line))
        operands = (safe, *op.operands[1:])
        return [*ops, Op(op.name, operands, op.results, op.attrs, op.regions, op.line)]

    def _turn(self, op: Op, before: Block) -> Block:
        end = before.ops[-1]
        goes = Value("%goes", Ty("i1"))
        scalars = tuple(arg for arg in before.args if not arg.ty.shape)
        attrs: dict[str, object] = {
            "site": self._site(op, "loops"),
            "slot": self._slot,
            "known": len(scalars) == len(before.args),
        }
        note = Op(TURN, (end.operands[0], *scalars), (goes,), attrs, (), op.line)
        last = Op(end.name, (goes, *end.operands[1:]), end.results, end.attrs, (), end.line)
        return Block(before.args, (*before.ops[:-1], note, last), before.label)

    def _site(self, op: Op, does: str, **facts: Any) -> int:
        self.sites.append(Site(op=op.name, line=op.line, does=does, **facts))
        return len(self.sites) - 1

    def _refuse_others(self, op: Op) -> None:
        """An op that takes addresses and is not known here could touch memory unseen."""
        known = op.name in ELEMENTWISE or op.name in SHAPE or op.name in _ANYWHERE
        if known or all(value.ty.elem != "ptr" for value in op.operands):
            return
        raise CompileError(
            f"op {op.name} cannot be observed (at {op.line})", op=op.name, line=op.line
        )


def _kind(op: Op) -> tuple[int, str]:
    if op.name in ("tt.load", "tt.atomic_load"):
        return observe.READ, _DOES[op.name]
    if op.name == "tt.store":
        return observe.WRITE, _DOES[op.name]
    if op.name in ("tt.atomic_cas", "tt.atomic_store"):
        return observe.MIXED, _DOES[op.name]
    change = str(op.attrs["head"]).split(",")[0].strip()
    if change not in observe.ATOMIC:
        raise CompileError(
            f"atomic {change} cannot be observed (at {op.line})", op=op.name, line=op.line
        )
    return observe.ATOMIC[change], _CHANGES[change]
