"""Row strides are for addresses. A kernel that takes another branch at one exact stride is right
wherever anybody tests it, so what a stride may become is read from the IR, not sampled.

Which arguments of a launch are strides shows by itself: those that change when the rows of a call's
inputs are padded and nothing else is. From there they may be added and multiplied and moved about
until they are an offset of a pointer; compared, divided or converted they decide something.
"""

from collections.abc import Iterable

from kernelsmith.devices.cpu.ttir import Module, Op, Value
from kernelsmith.devices.cpu.ttir_parse import parse
from kernelsmith.errors import CompileError
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.gate.witness.graph import Graph, graph_of
from kernelsmith.gate.witness.reading import plain
from kernelsmith.model import Case, Plan

CARRIES = frozenset(
    {"arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", "arith.trunci"}
    | {"arith.index_cast", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans"}
)
"""What a stride may go through on its way to an address."""
FLOWS = frozenset({"scf.yield", "tt.return", "tt.call", "cf.br", "scf.for", "scf.while"})
"""Ops that hand their operands on to other values (see ``Graph``); a loop's bounds are not."""


def check(subject: Subject, pairs: Iterable[tuple[Case, Case]]) -> Outcome:
    """Looks at all kernels that are given strides.

    Args:
        pairs: planned cases that differ in the padding of rows alone.

    Returns:
        NONDETERMINISTIC with the kernel and the line where a stride decides something.
    """
    found: dict[str, set[int]] = {}
    for one, other in pairs:
        _note(found, subject.plans[one.id], subject.plans[other.id])
    clean: set[tuple[str, frozenset[int]]] = set()
    for class_id in sorted(found):
        plan_class = subject.classes[class_id]
        key = (plain(plan_class.ttir), frozenset(found[class_id]))
        said = "" if key in clean else misused(plan_class.ttir, key[1])
        clean.add(key)
        if said:
            return Outcome(
                status="NONDETERMINISTIC",
                message=f"kernel {plan_class.kernel}: a row stride reaches {said}; strides are for "
                "addresses, so that no bits can hang on one exact stride",
                evidence={"kernel": plan_class.kernel, "op": said},
            )
    return Outcome()


def _note(found: dict[str, set[int]], one: Plan, other: Plan) -> None:
    """The places of arguments that differ, for the classes of both plans."""
    if len(one.launches) != len(other.launches):
        return
    for a, b in zip(one.launches, other.launches, strict=True):
        if len(a.args) != len(b.args):
            continue
        places = {
            at
            for at, (x, y) in enumerate(zip(a.args, b.args, strict=True))
            if x.kind != "ptr" and x.value != y.value
        }
        for class_id in (
            a.plan_class,
            a.plan_class_unaligned,
            b.plan_class,
            b.plan_class_unaligned,
        ):
            found.setdefault(class_id, set()).update(places)


def misused(ttir: str, places: Iterable[int]) -> str:
    """The first op that takes one of these arguments for something else than an address, with its
    line, or "". A text that cannot be read is for the compiler to refuse."""
    try:
        module = parse(ttir)
    except CompileError:
        return ""
    return _follow(module, graph_of(module), set(places))


def _follow(module: Module, graph: Graph, places: set[int]) -> str:
    strides = {module.kernel.args[at] for at in places}
    before = -1
    while len(strides) != before:
        before = len(strides)
        for step in graph.steps:
            if isinstance(step, Value):
                if any(value in strides for value in graph.merges.get(step, ())):
                    strides.add(step)
                continue
            said = _through(step, strides)
            if said:
                return said
    return ""


def _through(op: Op, strides: set[Value]) -> str:
    """Marks what an op makes of strides; says what it is if that is no address."""
    taken = [at for at, value in enumerate(op.operands) if value in strides]
    if not taken or op.name == "tt.addptr":
        return ""
    if op.name in CARRIES:
        strides.update(op.results)
        return ""
    if op.name in FLOWS and not (op.name == "scf.for" and min(taken) < 3):
        return ""
    return f"{op.name}{f' at {op.line}' if op.line else ''}"
