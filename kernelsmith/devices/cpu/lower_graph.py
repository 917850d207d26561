"""What evaluating a tensor evaluates: walks over unevaluated values, each visited once."""

from collections.abc import Iterator

from kernelsmith.devices.cpu.lower_state import Buffer, Lazy, Lowering, Shifted
from kernelsmith.devices.cpu.ttir import Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE, SHAPE


def behind(lo: Lowering, root: Value) -> Iterator[Value]:
    """``root`` and all values that evaluating it evaluates or reads."""
    seen: set[Value] = set()
    todo = [root]
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        bound = lo.env.get(value)
        if isinstance(bound, Shifted):
            todo.append(bound.init)
        elif isinstance(bound, Lazy):
            todo += bound.op.operands


def reaches(lo: Lowering, root: Value, value: Value) -> bool:
    """Whether evaluating ``root`` evaluates ``value``."""
    return any(found is value for found in behind(lo, root))


def reads_memory(lo: Lowering, root: Value) -> bool:
    """Whether evaluating a tensor runs a load, which must not happen again in a loop."""
    bounds = (lo.env.get(value) for value in behind(lo, root))
    return any(isinstance(b, Lazy) and b.op.name == "tt.load" for b in bounds)


def depends_on(lo: Lowering, root: Value, owned: list[Buffer]) -> bool:
    """Whether evaluating a value reads one of some buffers."""
    bounds = [lo.env.get(value) for value in behind(lo, root)]
    return any(bound is buffer for bound in bounds for buffer in owned)


def pointwise(lo: Lowering, root: Value, value: Value) -> bool:
    """Whether every way from ``root`` down to ``value`` is elementwise: the element at an index
    then needs ``value`` at that index alone."""
    for found in behind(lo, root):
        bound = lo.env.get(found)
        if found is value or not isinstance(bound, Lazy) or bound.op.name in ELEMENTWISE:
            continue
        if reaches(lo, found, value):
            return False
    return True


def reads_in_place(lo: Lowering, root: Value, own: Buffer, owned: list[Buffer]) -> bool:
    """Whether a value depends on carried buffers only through ``own``, at its own index."""
    others = [buffer for buffer in owned if buffer is not own]
    if depends_on(lo, root, others):
        return False
    for found in behind(lo, root):
        bound = lo.env.get(found)
        moves = isinstance(bound, Lazy) and bound.op.name in (*SHAPE, "tt.load")
        if moves and depends_on(lo, found, [own]):
            return False
    return True
