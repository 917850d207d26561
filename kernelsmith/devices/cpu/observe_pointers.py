"""Which parameter a pointer comes from: what its bounds are.

A pointer is followed from its access back through arithmetic, shapes, loops and branches to the
kernel's parameters. One that may come from several, or from memory, has no parameter of its own.
"""

from kernelsmith.devices.cpu.ttir import Block, Module, Op, Value
from kernelsmith.devices.cpu.ttir_branch import BRANCHES, targets

_UNKNOWN = -1
_FROM_MEMORY = frozenset(
    {"tt.load", "tt.int_to_ptr", "ub.poison", "tt.atomic_rmw", "tt.atomic_cas"}
)


def parameters_of(module: Module) -> dict[Value, int]:
    """The one parameter that each pointer of a module comes from, -1 where that is not known."""
    sources: dict[Value, set[int]] = {}
    edges: list[tuple[Value, Value]] = []
    for index, arg in enumerate(module.kernel.args):
        sources[arg] = {index}
    for function in (module.kernel, *module.callees.values()):
        blocks = {block.label: block for block in function.blocks}
        for block in function.blocks:
            _edges(module, block, blocks, edges, sources)
    edges = [edge for edge in edges if edge[1].ty.elem == "ptr"]
    changed = True
    while changed:
        changed = False
        for source, target in edges:
            known = sources.setdefault(target, set())
            size = len(known)
            known |= sources.get(source, set())
            changed = changed or len(known) > size
    return {
        value: next(iter(known)) if len(known) == 1 else _UNKNOWN
        for value, known in sources.items()
    }


def _edges(
    module: Module,
    block: Block,
    blocks: dict[str, Block],
    edges: list[tuple[Value, Value]],
    sources: dict[Value, set[int]],
) -> None:
    """Adds where each pointer of a block flows to, and those that come from nowhere known."""
    for op in block.ops:
        inner = {**blocks, **{region.label: region for region in op.regions}}
        for region in op.regions:
            _edges(module, region, inner, edges, sources)
        if op.name == "scf.for":
            body = op.regions[0]
            edges += zip(op.operands[3:], body.args[1:], strict=True)
            edges += zip(body.ops[-1].operands, body.args[1:], strict=True)
            edges += zip(body.args[1:], op.results, strict=True)
        elif op.name == "scf.while":
            before, after = op.regions
            edges += zip(op.operands, before.args, strict=True)
            edges += zip(before.ops[-1].operands[1:], after.args, strict=True)
            edges += zip(before.ops[-1].operands[1:], op.results, strict=True)
            edges += zip(after.ops[-1].operands, before.args, strict=True)
        elif op.name == "scf.if":
            for region in op.regions:
                edges += zip(region.ops[-1].operands, op.results, strict=bool(op.results))
        elif op.name in BRANCHES:
            _branch(op, blocks, edges)
        elif op.name == "tt.call":
            _call(module, op, edges)
        else:
            _plain(op, edges, sources)


def _plain(op: Op, edges: list[tuple[Value, Value]], sources: dict[Value, set[int]]) -> None:
    pointers = [value for value in op.operands if value.ty.elem == "ptr"]
    for result in op.results:
        if result.ty.elem != "ptr":
            continue
        if op.name in _FROM_MEMORY or not pointers or op.regions:
            sources.setdefault(result, set()).add(_UNKNOWN)
        else:
            edges += [(pointer, result) for pointer in pointers]


def _call(module: Module, op: Op, edges: list[tuple[Value, Value]]) -> None:
    callee = module.callees[str(op.attrs["callee"])]
    edges += zip(op.operands, callee.args, strict=True)
    for block in callee.blocks:
        if block.ops[-1].name == "tt.return":
            edges += zip(block.ops[-1].operands, op.results, strict=True)


def _branch(op: Op, blocks: dict[str, Block], edges: list[tuple[Value, Value]]) -> None:
    for label, given in targets(op):
        edges += zip(given, blocks[label].args, strict=True)
