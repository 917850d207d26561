"""Fewer dimensions: adjacent ones are merged where no op tells them apart.

``tl.sort`` works on a tensor of shape 2x2x...x2. A nest of ten loops of two steps each, with two
lanes in the innermost, is slow code and much of it; but for the one or two dimensions that a step
compares along, all before and all behind is one dimension. What such a step reduces gets a name of
its own for its readers (a reshape), so that each step merges as it can. A merged dimension is a
relabelling in row-major order: the order of reductions, scans and stores stays, and with it every
bit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernelsmith.devices.cpu.ttir import Block, Function, Module, Op, Ty, Value
from kernelsmith.devices.cpu.ttir_ops import CASTS, ELEMENTWISE

#: Kernels whose tensors have fewer dimensions stay as they are.
MIN_RANK = 4

_SAME = ELEMENTWISE | {"tt.load", "tt.store", "tt.map_elementwise"}
_FREE = frozenset({"arith.constant", "ub.poison", "tt.splat", "tt.unsplat", "tt.reshape"})

#: The boundary before a dimension (1 .. rank - 1) of a value.
Boundary = tuple[Value, int]


@dataclass(slots=True)
class _Cuts:
    """Boundaries that must stay, and those that stay or go together."""

    parent: dict[Boundary, Boundary] = field(default_factory=dict)
    kept: set[Boundary] = field(default_factory=set)

    def find(self, at: Boundary) -> Boundary:
        while self.parent.get(at, at) != at:
            at = self.parent[at]
        return at

    def join(self, a: Boundary, b: Boundary) -> None:
        one, other = self.find(a), self.find(b)
        if one == other:
            return
        self.parent[other] = one
        if other in self.kept:
            self.kept.add(one)

    def cut(self, value: Value, *dims: int) -> None:
        """Keeps the boundaries before dimensions; one before the first or behind the last is
        none."""
        for dim in dims:
            if 0 < dim < len(value.ty.shape):
                self.kept.add(self.find((value, dim)))

    def cut_all(self, values: Iterable[Value]) -> None:
        for value in values:
            self.cut(value, *range(1, len(value.ty.shape)))

    def same(self, values: Sequence[Value]) -> None:
        """Tensors of one shape keep the same boundaries."""
        tensors = [v for v in values if v.ty.shape]
        for other in tensors[1:]:
            for dim in range(1, len(other.ty.shape)):
                self.join((tensors[0], dim), (other, dim))

    def groups(self, value: Value) -> list[range]:
        """The dimensions of a value that become one each."""
        rank = len(value.ty.shape)
        starts = [0, *(d for d in range(1, rank) if self.find((value, d)) in self.kept)]
        return [range(a, b) for a, b in zip(starts, [*starts[1:], rank], strict=True)]

    def position(self, value: Value, dim: int) -> int:
        """Where a dimension lies among the groups."""
        return next(at for at, group in enumerate(self.groups(value)) if dim in group)


def merged(module: Module) -> Module:
    """The module with merged dimensions; the module itself if it has no tensor of many."""
    if not any(_many(f.blocks) for f in [module.kernel, *module.callees.values()]):
        return module
    callees = {name: _merge(function) for name, function in module.callees.items()}
    return Module(_merge(module.kernel), callees)


def _many(blocks: Iterable[Block]) -> bool:
    return any(
        any(len(r.ty.shape) >= MIN_RANK for r in op.results) or _many(op.regions)
        for block in blocks
        for op in block.ops
    )


def _merge(function: Function) -> Function:
    cuts = _Cuts()
    cuts.cut_all(function.args)
    names: dict[Value, Value] = {}
    opener = _Opener(_folded(function.blocks))
    opened = tuple(opener.block(block) for block in function.blocks)
    for block in opened:
        cuts.cut_all(block.args)
        _visit(cuts, block)
    args = tuple(_renamed(cuts, names, arg) for arg in function.args)
    blocks = tuple(_rewritten(cuts, names, block) for block in opened)
    return Function(function.name, function.public, args, blocks)


def _folded(blocks: Iterable[Block]) -> set[Value]:
    """Tensors of many dimensions that a reduction reads, through casts too."""
    found: set[Value] = set()
    for block in blocks:
        for op in reversed(block.ops):
            found |= _folded(op.regions)
            if op.name == "tt.reduce" and len(op.operands[0].ty.shape) >= MIN_RANK:
                found.update(op.operands)
            elif op.name in CASTS and op.results[0] in found:
                found.discard(op.results[0])
                found.update(op.operands)
    return found


@dataclass(slots=True)
class _Opener:
    """Gives readers names of their own, so that what one of them needs binds no other.

    All readers of a ``folded`` tensor share a reshape to its own shape; each reader of a constant
    or reshape gets its own copy of it, which costs nothing: it is index arithmetic."""

    folded: set[Value]
    given: dict[Value, Value] = field(default_factory=dict)
    copied: dict[Value, Op] = field(default_factory=dict)

    def block(self, block: Block) -> Block:
        """The block with these names."""
        ops: list[Op] = []
        for op in block.ops:
            operands = tuple(self._read(ops, o) for o in op.operands)
            regions = tuple(self.block(region) for region in op.regions)
            new = Op(op.name, operands, op.results, op.attrs, regions, op.line)
            ops.append(new)
            for result in op.results:
                if len(result.ty.shape) < MIN_RANK:
                    continue
                if op.name in _FREE:
                    self.copied[result] = new
                elif result in self.folded:
                    self.given[result] = Value(result.name, result.ty)
                    attrs: dict[str, object] = {"view": True}
                    view = Op("tt.reshape", (result,), (self.given[result],), attrs, (), op.line)
                    ops.append(view)
        return Block(block.args, tuple(ops), block.label)

    def _read(self, ops: list[Op], value: Value) -> Value:
        source = self.copied.get(value)
        if source is None:
            return self.given.get(value, value)
        copy = Value(value.name, value.ty)
        ops.append(Op(source.name, source.operands, (copy,), source.attrs, (), source.line))
        return copy


def _visit(cuts: _Cuts, block: Block) -> None:
    for op in block.ops:
        _constrain(cuts, op)
        for region in op.regions:
            _visit(cuts, region)


def _constrain(cuts: _Cuts, op: Op) -> None:
    """What an op needs to stay apart."""
    name, values = op.name, [*op.operands, *op.results]
    if name in _FREE or not any(v.ty.shape for v in values):
        return
    if name in _SAME:
        cuts.same(values)
    elif name == "tt.broadcast":
        _broadcast(cuts, op.operands[0], op.results[0])
    elif name == "tt.trans":
        _trans(cuts, op)
    elif name in ("tt.reduce", "tt.scan", "tt.gather"):
        _along(cuts, op)
    elif name == "tt.expand_dims":
        _removed(cuts, op.results[0], op.operands[0], _axis(op))
    elif name == "tt.split":
        for result in op.results:
            _removed(cuts, op.operands[0], result, len(result.ty.shape))
    elif name == "tt.join":
        for operand in op.operands:
            _removed(cuts, op.results[0], operand, len(operand.ty.shape))
    elif name == "tt.cat":
        cuts.same(values)
        cuts.cut(op.results[0], 1)
    elif name in ("scf.for", "scf.if", "scf.while"):
        _control(cuts, op)
    elif name not in ("scf.yield", "scf.condition"):
        cuts.cut_all(values)


def _axis(op: Op) -> int:
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    return axis


def _broadcast(cuts: _Cuts, source: Value, result: Value) -> None:
    """Merged dimensions are repeated all, or none of them."""
    cuts.same((source, result))
    before: bool | None = None
    for dim, (a, b) in enumerate(zip(source.ty.shape, result.ty.shape, strict=True)):
        if b == 1:
            continue
        if before is not None and before != (a != b):
            cuts.cut(result, dim)
        before = a != b


def _trans(cuts: _Cuts, op: Op) -> None:
    source, result = op.operands[0], op.results[0]
    order = op.attrs["order"]
    assert isinstance(order, tuple)
    follow = {order[j - 1]: j for j in range(1, len(order)) if order[j] == order[j - 1] + 1}
    for dim in range(1, len(order)):
        if dim - 1 in follow:
            cuts.join((source, dim), (result, follow[dim - 1]))
        else:
            cuts.cut(source, dim)
    cuts.cut(result, *(j for j in range(1, len(order)) if j not in follow.values()))


def _along(cuts: _Cuts, op: Op) -> None:
    """The axis stays a dimension of its own."""
    axis, source = _axis(op), op.operands[0]
    if op.name == "tt.reduce":
        cuts.same(op.operands)
        for result in op.results:
            if result.ty.shape:
                _removed(cuts, source, result, axis)
        cuts.cut(source, axis, axis + 1)
        return
    values = [*op.operands, *op.results]
    cuts.same(values)
    cuts.cut(source, axis, axis + 1)


def _removed(cuts: _Cuts, whole: Value, rest: Value, axis: int) -> None:
    """``rest`` is ``whole`` without a dimension, which stays one of its own."""
    cuts.cut(whole, axis, axis + 1)
    for dim in range(1, len(rest.ty.shape)):
        if dim < axis:
            cuts.join((whole, dim), (rest, dim))
        elif dim == axis:
            cuts.cut(rest, dim)
        else:
            cuts.join((whole, dim + 1), (rest, dim))


def _control(cuts: _Cuts, op: Op) -> None:
    """What is passed from one place to another keeps its dimensions there."""
    regions = op.regions
    passed: list[tuple[Sequence[Value], ...]]
    if op.name == "scf.for":
        body = regions[0]
        passed = [(op.operands[3:], body.args[1:], body.ops[-1].operands, op.results)]
    elif op.name == "scf.if":
        passed = [(op.results, *(region.ops[-1].operands for region in regions))]
        passed = passed if op.results else []
    else:
        before, after = regions
        passed = [
            (op.operands, before.args, after.ops[-1].operands),
            (before.ops[-1].operands[1:], after.args, op.results),
        ]
    for group in passed:
        for values in zip(*group, strict=True):
            cuts.same(values)


def _renamed(cuts: _Cuts, names: dict[Value, Value], value: Value) -> Value:
    """The value with merged dimensions; the same object where none is."""
    shape = value.ty.shape
    new = []
    for group in cuts.groups(value) if shape else ():
        size = 1
        for dim in group:
            size *= shape[dim]
        new.append(size)
    ty = Ty(value.ty.elem, tuple(new), value.ty.pointee)
    names[value] = value if ty == value.ty else Value(value.name, ty)
    return names[value]


def _rewritten(cuts: _Cuts, names: dict[Value, Value], block: Block) -> Block:
    args = tuple(_renamed(cuts, names, arg) for arg in block.args)
    ops = []
    for op in block.ops:
        operands = tuple(names[o] for o in op.operands)
        regions = tuple(_rewritten(cuts, names, region) for region in op.regions)
        results = tuple(_renamed(cuts, names, r) for r in op.results)
        if op.attrs.get("view") and operands[0].ty == results[0].ty:
            names[op.results[0]] = operands[0]
            continue
        ops.append(Op(op.name, operands, results, _attrs(cuts, op), regions, op.line))
    return Block(args, tuple(ops), block.label)


def _attrs(cuts: _Cuts, op: Op) -> dict[str, object]:
    """The attributes, with dimensions counted as they are now."""
    attrs = dict(op.attrs)
    if op.name in ("tt.reduce", "tt.scan", "tt.gather"):
        attrs["axis"] = cuts.position(op.operands[0], _axis(op))
    elif op.name == "tt.expand_dims":
        attrs["axis"] = cuts.position(op.results[0], _axis(op))
    elif op.name == "tt.trans":
        order = op.attrs["order"]
        assert isinstance(order, tuple)
        firsts = [group[0] for group in cuts.groups(op.results[0])]
        attrs["order"] = tuple(cuts.position(op.operands[0], order[first]) for first in firsts)
    return attrs
