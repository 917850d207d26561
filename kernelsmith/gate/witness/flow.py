"""Which values hang on loaded floats, and on which sums of them: a dataflow over one module.

Every value has a *front*: the values nearest to it that are no function of single elements any
more: loads, rearrangements, values that a loop carries, and sums. Two values with the same front of
one are functions of the same elements, lane by lane. A *sum* is a reduction, scan or dot of loaded
floats, or an addition of values with different fronts: what has an order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kernelsmith.devices.cpu.ttir import Op, Value
from kernelsmith.devices.cpu.ttir_ops import ATOMIC, CASTS, SHAPE
from kernelsmith.errors import CompileError
from kernelsmith.gate.witness.graph import FOLDS, Graph

ADDS = frozenset({"arith.addf", "arith.subf"})
REARRANGES = frozenset(
    {"tt.split", "tt.trans", "tt.join", "tt.cat", "tt.gather", "tt.expand_dims", "tt.histogram"}
)
BOUNDS = frozenset({"arith.maxnumf", "arith.minnumf", "arith.maximumf", "arith.minimumf"})
MIXES = frozenset(f"arith.{name}" for name in ("addi", "subi", "muli", "andi", "ori", "xori"))
GATES = frozenset({"arith.andi", "arith.muli"})
MEMORY = frozenset({"tt.load", "tt.store", *ATOMIC})
FLAGS = frozenset({"arith.sitofp", "arith.uitofp", "arith.bitcast", "tt.bitcast"})
PASSES_MAX = 40
NONE: frozenset[Value] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A kernel's pointer. ``buffer``: equal for those that point into one buffer; ``floats``:
    whether what lies there hangs on floats, whatever type it is loaded as."""

    buffer: int
    floats: bool


@dataclass(frozen=True, slots=True)
class State:
    """``data``: hangs on a loaded float. ``moved``: on where, or whether, one was loaded, which a
    loaded float decided. ``flag``: a float made of a decision (0 or 1, say). ``factor``: a sum
    times a flag. ``gated``: a sum or bits of one, or a constant in their place, as a loaded float
    decided. ``loose``: the compiler may have put its elements in another order."""

    data: bool = False
    moved: bool = False
    flag: bool = False
    factor: bool = False
    gated: bool = False
    loose: bool = False
    front: frozenset[Value] = NONE
    params: frozenset[int] = frozenset()


NOTHING = State()


@dataclass(slots=True)
class Node:
    """A value of a front: its kind, the buffers behind it, the nodes it is made of."""

    kind: Literal["load", "part", "carry", "sum"]
    buffers: frozenset[int]
    of: frozenset[Value] = NONE


@dataclass(slots=True)
class Flow:
    """States of all values of a module, and the nodes of their fronts. ``stores``: indices of the
    pointers through which something that hangs on floats is stored."""

    graph: Graph
    params: Sequence[Param | None]
    states: dict[Value, State] = field(default_factory=dict)
    nodes: dict[Value, Node] = field(default_factory=dict)
    stores: set[int] = field(default_factory=set)
    loads: set[int] = field(default_factory=set)
    changed: set[Value] = field(default_factory=set)

    def put(self, value: Value, state: State) -> None:
        """What is known of a value by now."""
        old = self.states.get(value, NOTHING)
        if old is not state and old != state:
            self.states[value] = state
            self.changed.add(value)

    def of(self, value: Value) -> State:
        return self.states.get(value, NOTHING)

    def sums(self, front: Iterable[Value]) -> set[Value]:
        """The sums of a front; a carried value is one if additions carry it on."""
        return {v for v in front if self.nodes[v].kind == "sum" or self._accumulates(v)}

    def _accumulates(self, value: Value) -> bool:
        node = self.nodes[value]
        if node.kind != "carry":
            return False
        todo = [(one, False) for one in node.of]
        seen = set(todo)
        while todo:
            one, summed = todo.pop()
            if one is value and summed:
                return True
            inner = self.nodes[one]
            for each in inner.of:
                step = (each, summed or inner.kind == "sum")
                if step not in seen:
                    seen.add(step)
                    todo.append(step)
        return False

    def buffers(self, front: Iterable[Value]) -> frozenset[int]:
        return frozenset().union(*(self.nodes[v].buffers for v in front))

    def mark(
        self, value: Value, kind: Literal["load", "part", "carry", "sum"], of: frozenset[Value]
    ) -> frozenset[Value]:
        """Makes a value a node of these; returns the front that it then is."""
        buffers = self.buffers(of)
        node = self.nodes.get(value)
        if node is None:
            self.nodes[value] = Node(kind, buffers, of)
            self.changed.add(value)
        elif not (of <= node.of and buffers <= node.buffers):
            node.of, node.buffers = node.of | of, node.buffers | buffers
            self.changed.add(value)
        return frozenset((value,))


def run(graph: Graph, args: Sequence[Value], params: Sequence[Param | None]) -> Flow:
    """The flow of a kernel whose arguments are these; None for those that are no pointers.

    Raises:
        CompileError: it does not come to rest.
    """
    flow = Flow(graph, params)
    for number, (arg, param) in enumerate(zip(args, params, strict=True)):
        if param is not None:
            flow.states[arg] = State(params=frozenset((number,)))
    flow.changed.update(flow.states)
    for _ in range(PASSES_MAX):
        before, flow.changed = flow.changed, set()
        for step in graph.steps:
            sources = graph.merges[step] if isinstance(step, Value) else step.operands
            if before.isdisjoint(sources) and flow.changed.isdisjoint(sources):
                continue
            if isinstance(step, Value):
                flow.put(step, _merged(flow, step))
            else:
                _through(flow, step)
        if not flow.changed:
            return flow
    raise CompileError("what flows through this kernel is not to be followed", op="module")


def joined(states: Sequence[State]) -> State:
    """What hangs on all of these."""
    if len(states) == 1:
        return states[0]
    held = {id(s): s for s in states if s is not NOTHING}.values()
    if not held:
        return NOTHING
    if len(held) == 1:
        return next(iter(held))
    return State(
        data=any(s.data for s in held),
        moved=any(s.moved for s in held),
        flag=any(s.flag for s in held),
        factor=any(s.factor for s in held),
        gated=any(s.gated for s in held),
        loose=any(s.loose for s in held),
        front=NONE.union(*(s.front for s in held)),
        params=frozenset().union(*(s.params for s in held)),
    )


def _merged(flow: Flow, value: Value) -> State:
    state = joined([flow.of(v) for v in flow.graph.merges[value]] or [NOTHING])
    fold = flow.graph.inside.get(value)
    if not state.data or not (value in flow.graph.carried or (fold and adds(fold))):
        return state
    kind: Literal["carry", "part"] = "carry" if fold is None else "part"
    return replace(state, front=flow.mark(value, kind, state.front - {value}))


def adds(fold: Op) -> bool:
    """Whether a reduction or scan adds floats: its order shows."""
    todo = list(fold.regions)
    while todo:
        for op in todo.pop().ops:
            todo += op.regions
            if op.name in ADDS or op.name in ("math.fma", "arith.mulf", "tt.call"):
                return True
    return False


def _mixes(fold: Op) -> bool:
    """Whether a reduction of integers makes new ones, as a sum of bit patterns does."""
    ops = [op for block in fold.regions for op in block.ops]
    return any(op.name in MIXES and op.results[0].ty.elem != "i1" for op in ops)


def _through(flow: Flow, op: Op) -> None:
    """The states of what an op makes."""
    known = flow.states
    states = [known.get(v, NOTHING) for v in op.operands]
    if op.name in MEMORY:
        _memory(flow, op, states)
        return
    if not op.results or op.results[0] in flow.graph.merges:
        return
    state = joined(states or [NOTHING])
    if not state.data and not state.params:
        return
    for result in op.results:
        flow.put(result, _made(flow, op, result, states, state) if state.data else state)


def _made(flow: Flow, op: Op, result: Value, states: Sequence[State], state: State) -> State:
    """The state of one result of an op on loaded floats; ``state`` is all it hangs on."""
    name = op.name
    plain = state
    if state.flag or state.factor or state.gated:
        plain = replace(state, flag=False, factor=False, gated=False)
    if name in FOLDS:
        if adds(op):
            return replace(plain, front=flow.mark(result, "sum", state.front))
        if name == "tt.scan" or _mixes(op):
            return replace(plain, front=flow.mark(result, "part", state.front))
        return plain
    if name == "tt.dot":
        return replace(plain, front=flow.mark(result, "sum", state.front))
    if name in REARRANGES:
        moved = state.moved or (name == "tt.gather" and states[1].data)
        loose = state.loose or name == "tt.cat"
        front = flow.mark(result, "part", state.front)
        return replace(state, moved=moved, loose=loose, front=front)
    if name == "tt.reshape" and "allow_reorder" in str(op.attrs["head"]):
        return replace(state, loose=True, front=flow.mark(result, "part", state.front))
    if name in ADDS:
        if _is_sum(flow, result, states[0], states[1]):
            return replace(plain, front=flow.mark(result, "sum", state.front))
        return _flagged(plain, states)
    if name == "math.fma":
        product = joined(states[:2])
        if _is_sum(flow, result, product, states[2]):
            return replace(plain, front=flow.mark(result, "sum", state.front))
        return plain
    if name == "arith.mulf":
        a, b = states
        summed = (a.flag and flow.sums(b.front)) or (b.flag and flow.sums(a.front))
        if summed or state.factor or state.gated:
            factor = state.factor or bool(summed)
            plain = replace(plain, factor=factor, gated=state.gated)
        return _flagged(plain, states)
    if name == "arith.select":
        return _selected(flow, states, plain, result)
    if name in GATES and all(s.data for s in states):
        return replace(plain, gated=True)
    if name in MIXES:
        return replace(plain, gated=True) if state.gated else plain
    if name in FLAGS and not op.operands[0].ty.is_float and result.ty.is_float:
        return replace(plain, flag=True)
    if name in CASTS or name in SHAPE or name == "arith.negf":
        return state
    if name in BOUNDS:
        return _flagged(plain, states)
    return plain


def _is_sum(flow: Flow, result: Value, a: State, b: State) -> bool:
    """Whether an addition of these has an order: once found to be one, it stays one."""
    known = result in flow.nodes
    return known or (a.data and b.data and a.front != b.front)


def _flagged(state: State, states: Sequence[State]) -> State:
    """A flag with a constant, or with another flag, is still one."""
    still = any(s.flag for s in states) and all(s.flag or not s.data for s in states)
    return replace(state, flag=True) if still else state


def _selected(flow: Flow, states: Sequence[State], plain: State, result: Value) -> State:
    condition, *arms = states
    held = [arm for arm in arms if arm.data]
    if not held:
        return replace(plain, flag=True)
    flag = all(arm.flag or not arm.data for arm in arms)
    factor = any(arm.factor for arm in arms)
    gated = any(arm.gated for arm in arms)
    if condition.data and len(held) == 1:
        gated = gated or not result.ty.is_float or bool(flow.sums(held[0].front))
    if not (flag or factor or gated):
        return plain
    return replace(plain, flag=flag, factor=factor, gated=gated)


def _memory(flow: Flow, op: Op, states: Sequence[State]) -> None:
    pointers = states[0].params
    decided = joined([states[0], *(s for v, s in zip(op.operands, states, strict=True)
                                   if v.ty.elem == "i1")])  # fmt: skip
    if op.name != "tt.load" and any(s.data for s in states[1:]):
        flow.stores |= pointers
    if not op.results:
        return
    flow.loads |= pointers
    result = op.results[0]
    held = [flow.params[number] for number in pointers]
    floats = result.ty.is_float or any(p is not None and p.floats for p in held)
    state = joined(states)
    if not (floats or state.data):
        return
    front = flow.mark(result, "load", state.front)
    flow.nodes[result].buffers |= frozenset(p.buffer for p in held if p is not None)
    moved = decided.data or any(s.moved for s in states)
    flow.put(result, State(data=True, moved=moved, front=front))
