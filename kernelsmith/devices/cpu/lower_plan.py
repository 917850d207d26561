"""Which tensors are kept in buffers: found once, before a function is lowered.

A *root* is an op that walks a whole tensor (store, reduce, dot, a loop's carried value). A tensor
stays unevaluated until a root needs it. It is kept in a buffer when computing it again would be
wrong or slow: a load or an expensive formula with several roots, or with a root in a loop that
the tensor is defined outside of.
"""

from kernelsmith.devices.cpu.lower_pairs import kept_levels, pair_source
from kernelsmith.devices.cpu.lower_state import Lowering
from kernelsmith.devices.cpu.observe_module import LANES
from kernelsmith.devices.cpu.ttir import Block, Op, Value
from kernelsmith.devices.cpu.ttir_ops import ATOMIC, ELEMENTWISE, SHAPE

_LAZY = ELEMENTWISE | frozenset(SHAPE) | {"tt.load", "arith.constant", "ub.poison"}
_WRITES = frozenset({"tt.store", "tt.call", LANES, *ATOMIC})
#: Rough instructions a vector; what costs more is not computed twice.
_COST = {
    "arith.divf": 12, "tt.precise_divf": 12, "math.sqrt": 12, "math.rsqrt": 24,
    "tt.precise_sqrt": 12, "arith.divsi": 60, "arith.divui": 60, "arith.remsi": 60,
    "arith.remui": 60, "math.exp": 20, "math.exp2": 20, "math.log": 25, "math.log2": 25,
    "math.sin": 40, "math.cos": 40, "math.erf": 40, "math.tanh": 40, "math.powf": 60,
    "arith.remf": 60,
}  # fmt: skip
_KEEP_COST = 12
#: What costs more, counted once for each way that leads to it, is not read at several places.
_MOVED_COST = 32
_MOVES = frozenset({"tt.reshape", "tt.trans", "tt.split", "tt.join", "tt.cat"})


def index_ops(lo: Lowering, blocks: tuple[Block, ...]) -> None:
    """Fills ``uses``, ``home`` and ``definer`` of every op and value, regions included."""
    for block in blocks:
        for op in block.ops:
            lo.home[op] = block
            for operand in op.operands:
                lo.uses.setdefault(operand, []).append(op)
            for result in op.results:
                lo.definer[result] = op
            index_ops(lo, op.regions)


def is_lazy(op: Op) -> bool:
    """Whether the op's tensors are evaluated where they are used."""
    return op.name in _LAZY and all(r.ty.shape for r in op.results)


def writes_memory(op: Op) -> bool:
    """Whether the op, or one in its regions, may write memory."""
    return op.name in _WRITES or any(writes_memory(o) for b in op.regions for o in b.ops)


def plan(lo: Lowering, blocks: tuple[Block, ...]) -> set[Value]:
    """The values to keep in buffers."""
    kept = kept_levels(lo.definer, [r for b in blocks for r in _tensors(b)])
    roots = lo.roots
    cost: dict[Value, int] = {}
    for block in blocks:
        _costs(lo, block, kept, cost)
    for block in reversed(blocks):
        _plan_block(lo, block, kept, roots, cost)
    return kept


def _tensors(block: Block) -> list[Value]:
    """Tensor results of a block and of its regions, in order."""
    found = []
    for op in block.ops:
        for region in op.regions:
            found += _tensors(region)
        found += [r for r in op.results if r.ty.shape]
    return found


def _costs(lo: Lowering, block: Block, kept: set[Value], cost: dict[Value, int]) -> None:
    """Fills ``cost`` of each tensor that is not kept, and keeps those that shape ops would have
    evaluated at ever more places: ``x + trans(x)`` twice over reads four of them."""
    for op in block.ops:
        own = _COST.get(op.name, 1) if op.name in ELEMENTWISE else 0
        total = own + sum(cost.get(o, 0) for o in set(op.operands) if o.ty.shape)
        for result in op.results:
            if own and total >= _MOVED_COST and _is_moved(lo, result):
                kept.add(result)
            cost[result] = total if is_lazy(op) and result not in kept else 0
        for region in op.regions:
            _costs(lo, region, kept, cost)


def _is_moved(lo: Lowering, value: Value) -> bool:
    """Whether a shape op reads the value elsewhere than at its reader's index; the steps of a tree
    of pairs read each element once."""
    long = [dim for dim in value.ty.shape if dim > 1]
    movers = [
        op
        for op in lo.uses.get(value, [])
        if op.name in _MOVES
        and (op.name != "tt.reshape" or [d for d in op.results[0].ty.shape if d > 1] != long)
    ]
    splits = [user for op in movers for result in op.results for user in lo.uses.get(result, [])]
    pairs = all(op.name == "tt.split" and pair_source(lo.definer, op) is value for op in splits)
    return bool(movers) and not (splits and pairs)


def roots_of(lo: Lowering, value: Value, kept: set[Value], roots: dict[Value, set[Op]]) -> set[Op]:
    """The ops that walk the value: directly, or through tensors that are not kept."""
    if value not in roots:
        found: set[Op] = set()
        for user in lo.uses.get(value, []):
            if not is_lazy(user):
                found.add(user)
                continue
            for result in user.results:
                if result in kept:
                    found.add(user)
                else:
                    found |= roots_of(lo, result, kept, roots)
        roots[value] = found
    return roots[value]


def _plan_block(
    lo: Lowering,
    block: Block,
    kept: set[Value],
    roots: dict[Value, set[Op]],
    cost: dict[Value, int],
) -> None:
    for op in reversed(block.ops):
        for region in op.regions:
            _plan_block(lo, region, kept, roots, cost)
        if not is_lazy(op) or op.name in ("arith.constant", "tt.make_range", "tt.splat"):
            continue
        for result in op.results:
            found = roots_of(lo, result, kept, roots)
            elsewhere = any(lo.home[r] is not block for r in found)
            costly = op.name in ELEMENTWISE and cost[result] >= _KEEP_COST
            worth = op.name == "tt.load" or (costly and result.ty.elem != "ptr")
            plain = lo.plain and (op.name == "tt.load" or result.ty.is_float)
            plain = plain or any(u.attrs.get("view") for u in lo.uses.get(result, []))
            if not plain and not elsewhere and _again(lo, block, op, found):
                continue
            if plain or (worth and (len(found) > 1 or elsewhere)):
                kept.add(result)


def _again(lo: Lowering, block: Block, load: Op, found: set[Op]) -> bool:
    """Whether a load runs once more for each of its roots: a line of memory that nothing writes
    before the last of them is as good as a copy of it, and its mask still tells which vectors
    have no lane on."""
    row = load.name == "tt.load" and len(load.results[0].ty.shape) == 1
    if not row or len(load.operands) < 2 or load.attrs.get("isVolatile"):
        return False
    if not all(op.name == "tt.reduce" or is_lazy(op) for op in found):
        return False
    last = max(block.ops.index(op) for op in found) if found else 0
    between = block.ops[block.ops.index(load) : last]
    quiet = all(is_lazy(op) or op.name == "tt.reduce" or not op.regions for op in between)
    return quiet and not any(map(writes_memory, between)) and _is_line(lo, load.operands[0])


def _is_line(lo: Lowering, value: Value) -> bool:
    """Whether a tensor is a range plus what is the same for all elements."""
    op = lo.definer.get(value)
    if op is None:
        return False
    if op.name == "tt.make_range":
        return True
    if op.name in ("arith.extsi", "arith.extui"):
        return _is_line(lo, op.operands[0])
    if op.name not in ("arith.addi", "tt.addptr"):
        return False
    first, second = (lo.definer.get(operand) for operand in op.operands)
    for same, line in ((first, op.operands[1]), (second, op.operands[0])):
        if same is not None and same.name in ("tt.splat", "arith.constant"):
            return _is_line(lo, line)
    return False
