"""Nouns that the policy's files share: a violation, what a module defines, where we are in it."""

import ast
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One construct outside the language of candidates.

    ``line`` is 1-based, ``col`` 0-based; ``construct`` names what was met and ``instead`` what may
    be used in its place.
    """

    line: int
    col: int
    construct: str
    instead: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.construct} is not allowed; {self.instead}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNames:
    """Names a candidate's module level binds. ``jit`` and ``lang`` map a callable jit function to
    its parameter names, ``host`` a plain function to its own; ``constants`` are literals."""

    jit: dict[str, tuple[str, ...]]
    lang: dict[str, tuple[str, ...]]
    host: dict[str, tuple[str, ...]]
    constants: frozenset[str]


Report = Callable[[ast.AST, str, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The function being read: the module around it, its local names, and where to report."""

    module: ModuleNames
    local: frozenset[str]
    report: Report
    grid_parameter: str = ""


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` as text where the chain starts at a name, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def node_name(node: ast.AST) -> str:
    """How messages call a node that has no better name."""
    return f"`{type(node).__name__}` syntax"


def is_literal(node: ast.expr, *, tuples: bool = False) -> bool:
    """Whether ``node`` is an int, float, bool or None literal, perhaps signed; with ``tuples``
    also (nested) tuples of such."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
        return isinstance(node, ast.Constant) and type(node.value) in (int, float)
    if isinstance(node, ast.Constant):
        return node.value is None or type(node.value) in (int, float, bool)
    return (
        tuples
        and isinstance(node, ast.Tuple)
        and all(is_literal(e, tuples=True) for e in node.elts)
    )


def parameters(node: ast.FunctionDef) -> list[ast.arg]:
    """All named parameters, in order."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def stored_names(node: ast.FunctionDef) -> list[ast.Name]:
    """Name nodes that the body binds."""
    return [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
