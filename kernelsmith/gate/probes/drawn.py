"""One-spot mutants drawn from the syntax of a seed that nobody wrote mutants for.

Kinds, in turn: the order of a sum, a mask, the sign of a term, a constant. Whether a mutant can be
told from its seed is not known beforehand: a change may change nothing. One that is not told is
named, for whoever wrote the task to judge: it changes nothing, or no case sees that spot.
"""

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelsmith.gate import policy
from kernelsmith.gate.policy_module import is_jit

_FLOATS = (
    "float32",
    "tl.load(",
    "tl.exp",
    "tl.log",
    "tl.sqrt",
    "tl.rsqrt",
    "tl.div_rn",
    "tree_sum(",
)
NUDGE = 1 + 2.0**-20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A piece of the source and what stands there instead."""

    kind: str
    node: ast.expr
    new: str


def drawn(source: str, entries: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(name, source) of mutants within the language, those of different kinds first."""
    spots: dict[str, list[Spot]] = {"order": [], "mask": [], "sign": [], "constant": []}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and is_jit(node):
            for spot in _spots(node):
                spots[spot.kind].append(spot)
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*spots.values()))
    made = [_mutant(source, spot) for spot in in_turn if spot is not None]
    return tuple((name, text) for name, text in made if not policy.check(text, tuple(entries)))


def _spots(function: ast.FunctionDef) -> Iterator[Spot]:
    floats = _float_names(function)
    skipped = {id(each.value) for each in ast.walk(function) if isinstance(each, ast.keyword)}
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id="tree_sum"), args=[argument], keywords=[]):
                new = f"tl.sum({ast.unparse(argument)}, axis=0)"
                yield Spot(kind="order", node=node, new=new)
            case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]):
                new = f"{ast.unparse(left)} < {ast.unparse(right)} - 1"
                yield Spot(kind="mask", node=node, new=new)
            case ast.BinOp(op=ast.Sub() | ast.Add()) if _names(node) and _names(node) <= floats:
                other = "+" if isinstance(node.op, ast.Sub) else "-"
                new = f"({ast.unparse(node.left)} {other} ({ast.unparse(node.right)}))"
                yield Spot(kind="sign", node=node, new=new)
            case ast.Constant(value=float(value)) if value and id(node) not in skipped:
                yield Spot(kind="constant", node=node, new=repr(value * NUDGE))


def _float_names(function: ast.FunctionDef) -> set[str]:
    """Locals that hold values, not places: what follows from loads and float functions."""
    found: set[str] = set()
    assigned = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
    for each in [*assigned, *assigned]:
        text = ast.unparse(each.value)
        if any(word in text for word in _FLOATS) or _names(each.value) & found:
            found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    return found


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - {"tl"}


def _mutant(source: str, spot: Spot) -> tuple[str, str]:
    """The source with the spot changed; positions of the syntax tree count bytes."""
    node, data = spot.node, source.encode()
    starts = [0, *itertools.accumulate(len(line) + 1 for line in data.split(b"\n"))]
    begin = starts[node.lineno - 1] + node.col_offset
    end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
    old = " ".join(data[begin:end].decode().split())
    text = (data[:begin] + spot.new.encode() + data[end:]).decode()
    return f"line {node.lineno}: {old} → {spot.new}", text
