"""A spot of a source: what stands there, what is planted instead, and the facts that operators
look at to find spots."""

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.gate.policy_base import dotted
from kernelsmith.gate.policy_module import is_jit

KINDS = (
    "order",
    "mask",
    "numeric",
    "constant",
    "index",
    "dtype",
    "boundary",
    "grid",
    "host",
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A piece of the source and what stands there instead. ``operator`` says what was done."""

    kind: str
    operator: str
    node: ast.expr | ast.stmt
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of a module and what operators ask of it.

    ``floats``: locals that hold values, not places. ``kernels``: the module's jit functions.
    """

    node: ast.FunctionDef
    jit: bool
    floats: frozenset[str]
    kernels: Mapping[str, ast.FunctionDef]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(arg.arg for arg in self.node.args.args)

    def is_value(self, node: ast.expr) -> bool:
        """Whether an expression computes with values: it has names, and all hold floats."""
        found = names(node)
        return bool(found) and found <= self.floats

    def calls(self, *wanted: str) -> Iterator[ast.Call]:
        """Calls of these dotted names, in source order."""
        for node in ast.walk(self.node):
            if isinstance(node, ast.Call) and dotted(node.func) in wanted:
                yield node

    def rows(self) -> str:
        """The host's local that holds the number of tokens (``x.shape[0]``), or ""."""
        for node in ast.walk(self.node):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Subscript(
                        value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)
                    ),
                ):
                    return name
        return ""

    def launches(self) -> Iterator[tuple[ast.Call, ast.expr, ast.FunctionDef]]:
        """(call, grid, kernel) of every launch."""
        for node in ast.walk(self.node):
            match node:
                case ast.Call(func=ast.Subscript(value=ast.Name(id=name), slice=grid)):
                    if name in self.kernels:
                        yield node, grid, self.kernels[name]


def functions(source: str) -> tuple[Function, ...]:
    """Every function of a module, in source order."""
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    kernels = {node.name: node for node in found if is_jit(node)}
    return tuple(
        Function(
            node=node,
            jit=node.name in kernels,
            floats=frozenset(_float_names(node)),
            kernels=kernels,
        )
        for node in found
    )


def _float_names(function: ast.FunctionDef) -> set[str]:
    found: set[str] = set()
    assigned = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
    for each in [*assigned, *assigned]:
        text = ast.unparse(each.value)
        if any(word in text for word in _FLOATS) or names(each.value) & found:
            found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    return found


def names(node: ast.AST) -> set[str]:
    """Names that an expression reads, ``tl`` aside."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - {"tl"}


def has(node: ast.AST, call: str) -> bool:
    """Whether a call of this dotted name is anywhere below."""
    return any(isinstance(each, ast.Call) and dotted(each.func) == call for each in ast.walk(node))


def text(node: ast.expr) -> str:
    """An operand as text that binds tighter than any operator."""
    written = ast.unparse(node)
    atom = ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript
    return written if isinstance(node, atom) else f"({written})"


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    """A call's keyword argument of this name."""
    return next((each for each in call.keywords if each.arg == name), None)


def without(call: ast.Call, *dropped: str) -> str:
    """The call as text without some of its keywords."""
    kept = [each for each in call.keywords if each.arg not in dropped]
    return ast.unparse(ast.Call(func=call.func, args=call.args, keywords=kept))


def replaced(source: str, spot: Spot) -> str:
    """The source with the spot changed, nothing else."""
    data = source.encode()
    begin, end = span(line_starts(data), spot.node)
    return (data[:begin] + spot.new.encode() + data[end:]).decode()


def line_starts(data: bytes) -> tuple[int, ...]:
    """Where each line of an encoded source begins."""
    return (0, *itertools.accumulate(len(line) + 1 for line in data.split(b"\n")))


def span(starts: Sequence[int], node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where a node stands in the encoded source; positions of the syntax tree count bytes."""
    begin = starts[node.lineno - 1] + node.col_offset
    return begin, starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
