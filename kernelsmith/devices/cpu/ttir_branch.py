"""Branches between blocks: where each leads, and an order in which all lead forwards."""

import re

from kernelsmith.devices.cpu.ttir import Block, Op, Value
from kernelsmith.errors import CompileError

BRANCHES = ("cf.br", "cf.cond_br")
_TARGET = re.compile(r"(\^[\w.$-]+)(?:\(([^)]*)\))?")


def ordered(blocks: tuple[Block, ...]) -> list[Block]:
    """The blocks that the first one leads to, each behind all that lead to it.

    Raises:
        CompileError: branches that make a loop.
    """
    ways = {b.label: [at for at, _ in targets(b.ops[-1])] for b in blocks}
    reached, todo = set[str](), [blocks[0].label]
    while todo:
        label = todo.pop()
        if label not in reached:
            reached.add(label)
            todo += ways[label]
    left = [b for b in blocks if b.label in reached]
    out: list[Block] = []
    while left:
        blocked = {at for b in left for at in ways[b.label]}
        ready = next((b for b in left if b.label not in blocked), None)
        if ready is None:
            last = left[0].ops[-1]
            raise CompileError(
                "a loop of branches is not lowered",
                op=last.name,
                line=last.line,
                hint="write the loop with for or while",
            )
        left.remove(ready)
        out.append(ready)
    return out


def targets(op: Op) -> list[tuple[str, tuple[Value, ...]]]:
    """The labels that a block's last op leads to, and what it passes to each."""
    found = []
    given = op.operands[op.name == "cf.cond_br" :]
    for label, passed in _TARGET.findall(str(op.attrs["head"])) if op.name in BRANCHES else ():
        count = passed.count("%")
        found.append((label, given[:count]))
        given = given[count:]
    return found
