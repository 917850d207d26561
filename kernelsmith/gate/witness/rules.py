"""What a kernel may not let a loaded float decide: how, and in what order, it sums.

Control flow, addresses of stores, and what enters a sum are the same for all values; else a kernel
could tell a probe from a real call and sum in another order there. Sums that are all computed and
blended by arithmetic alone are not found here: see ``docs/numerics.md``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelsmith.devices.cpu.ttir import Op, Value
from kernelsmith.gate.witness.flow import ADDS, BOUNDS, MIXES, Flow, State, adds, joined
from kernelsmith.gate.witness.graph import FOLDS

MASKED = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}
"""Which operand of an op on memory is its mask."""
ALWAYS: frozenset[int] = frozenset()
Broken = Iterator[tuple[str, frozenset[int]]]
"""Rules that are broken, each with :attr:`Decision.if_read`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a loaded float decides: ``kind`` names the rule, ``line`` the source line or "".
    ``if_read``: it counts only if the plan loads what was stored through one of these pointers."""

    kind: str
    line: str = ""
    if_read: frozenset[int] = ALWAYS


SAYS = {
    "branch": "branches on what it loaded as a float",
    "bound": "lets a loaded float bound a loop",
    "store": "lets a loaded float choose where, or whether, it writes",
    "load": "sums what it reads where, or if, a loaded float says so",
    "select": "lets a loaded float choose between two sums",
    "arrangement": "lets a loaded float choose what is summed in which place",
    "bits": "mixes the bits of two sums or arrangements of its floats",
    "factor": "weighs one of two sums with a decision made of loaded floats",
    "loose": "sums floats that the compiler may have reordered",
    "atomic": "adds floats atomically, in whatever order programs run",
}
"""Rule -> what a kernel does that breaks it. The last two are no decisions, but leave the order of
a sum to the compiler and to chance."""
UNORDERED = frozenset({"loose", "atomic"})


def decisions(flow: Flow) -> list[Decision]:
    """All that the kernel of a flow lets loaded floats decide, each rule and line once."""
    found: dict[Decision, None] = {}
    for step in flow.graph.steps:
        if isinstance(step, Op):
            for kind, if_read in _of(flow, step):
                found[Decision(kind=kind, line=step.line, if_read=if_read)] = None
    order = list(SAYS)
    return sorted(found, key=lambda one: order.index(one.kind))


def _of(flow: Flow, op: Op) -> Broken:
    states = [flow.of(v) for v in op.operands]
    if op.name in ("scf.if", "cf.cond_br", "scf.condition") and states[0].data:
        yield "branch", ALWAYS
    elif op.name == "scf.for" and any(s.data for s in states[:3]):
        yield "bound", ALWAYS
    elif op.name in MASKED or op.name.startswith("tt.atomic"):
        mask = MASKED.get(op.name, len(states))
        decided = states[0].data or any(s.data for s in states[mask : mask + 1])
        if decided and op.name != "tt.load":
            yield "store", ALWAYS
        if op.name == "tt.atomic_rmw" and "fadd" in str(op.attrs["head"]):
            yield "atomic", ALWAYS
    elif op.name == "arith.select" and states[0].data:
        yield from _chosen(flow, op)
    elif op.name in ADDS or op.name in BOUNDS or op.name == "math.fma":
        yield from _added(flow, op, states)
    elif (op.name in FOLDS and adds(op)) or op.name == "tt.dot":
        if any(s.moved for s in states):
            yield "load", ALWAYS
        if any(s.loose for s in states):
            yield "loose", ALWAYS
    elif op.name in MIXES and all(s.data for s in states):
        yield from _mixed(flow, op, states)


def _mixed(flow: Flow, op: Op, states: list[State]) -> Broken:
    """Rules that arithmetic on bits breaks."""
    # A sum of bit patterns alone, as a reversal is made of, chooses nothing.
    choiceless = op.name == "arith.xori" and not any(s.gated for s in states)
    a, b = op.operands
    front = states[0].front | states[1].front
    if choiceless or op.results[0].ty.elem == "i1" or _of_one(flow, a, b):
        return
    if len(flow.sums(front)) > 1:
        yield "bits", ALWAYS
    elif _alternates(flow, front):
        yield from (("bits", if_read) for if_read in _summed(flow, op.results[0]))


def _chosen(flow: Flow, op: Op) -> Broken:
    _, a, b = op.operands
    fronts = flow.of(a).front, flow.of(b).front
    if not all(fronts) or _of_one(flow, a, b):
        return
    if all(flow.sums(front) for front in fronts):
        yield "select", ALWAYS
    elif _alternates(flow, fronts[0] | fronts[1]):
        yield from (("arrangement", if_read) for if_read in _summed(flow, op.results[0]))


def _added(flow: Flow, op: Op, states: list[State]) -> Broken:
    """Rules that an addition, or the larger of two, breaks."""
    a, b = (states[0], states[1]) if op.name != "math.fma" else (joined(states[:2]), states[2])
    if not (a.data and b.data) or a.front == b.front:
        return
    if op.name not in BOUNDS and a.moved and b.moved:
        yield "load", ALWAYS
    if op.name not in BOUNDS and a.loose and b.loose:
        yield "loose", ALWAYS
    if not (flow.sums(a.front) and flow.sums(b.front)):
        return
    if (a.factor or b.factor) or (a.gated and b.gated):
        yield "factor", ALWAYS


def _alternates(flow: Flow, front: frozenset[Value]) -> bool:
    """Whether two of these are arrangements of what lies in one buffer."""
    seen: set[int] = set()
    for value in front:
        node = flow.nodes[value]
        if node.kind in ("load", "part"):
            if seen & node.buffers:
                return True
            seen |= node.buffers
    return False


def _of_one(flow: Flow, a: Value, b: Value) -> bool:
    """Whether both are functions, lane by lane, of one value."""
    if flow.of(a).front == flow.of(b).front and len(flow.of(a).front) == 1:
        return True
    shared = [v for v in _behind(flow, a) if v in set(_behind(flow, b))]
    return any(_only(flow, a, value) and _only(flow, b, value) for value in shared)


def _behind(flow: Flow, value: Value) -> list[Value]:
    """A value and those it is made of, up to its front."""
    found = {value: None}
    todo = [value]
    while todo:
        one = todo.pop()
        if one in flow.nodes:
            continue
        for each in flow.graph.into(one):
            if flow.of(each).data and each not in found:
                found[each] = None
                todo.append(each)
    return list(found)


def _only(flow: Flow, value: Value, through: Value) -> bool:
    """Whether all that a value knows of loaded floats it knows through another."""
    todo, seen = [value], {value}
    while todo:
        one = todo.pop()
        if one is through:
            continue
        if one in flow.nodes:
            return False
        for each in flow.graph.into(one):
            if flow.of(each).data and each not in seen:
                seen.add(each)
                todo.append(each)
    return True


def _summed(flow: Flow, value: Value) -> Iterator[frozenset[int]]:
    """Whether a value goes into a sum (as :data:`ALWAYS`), or the pointers it is stored through
    if it does not; nothing if neither."""
    if value in _behind_all(flow, [v for v, node in flow.nodes.items() if node.kind == "sum"]):
        yield ALWAYS
        return
    stores = [s for s in flow.graph.steps if isinstance(s, Op) and s.name == "tt.store"]
    through = [s.operands[0] for s in stores if value in _behind_all(flow, [s.operands[1]])]
    if through:
        yield frozenset().union(*(flow.of(pointer).params for pointer in through))


def _behind_all(flow: Flow, values: list[Value]) -> set[Value]:
    """These values and all that they are made of."""
    seen, todo = set(values), list(values)
    while todo:
        for each in flow.graph.into(todo.pop()):
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return seen
