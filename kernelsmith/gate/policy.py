"""The first check of the gate: is a candidate's source within the language?

An allow-list of syntax and of fully qualified names, for host code and jit bodies alike, read from
the syntax tree: the source is never imported or run here. Whatever is not listed is refused, and
each refusal says what may be used instead. The lists are in ``model/language.py``.
"""

import ast
import warnings

from kernelsmith.gate.policy_base import Violation
from kernelsmith.gate.policy_module import check_module
from kernelsmith.gate.policy_text import text_violations

__all__ = ["Violation", "check"]

MAX_DEPTH = 200
CONSTRUCT_MAX_CHARS = 160
INSTEAD_MAX_CHARS = 1000
_DEEP = "split it into named steps"


def check(source: str, entries: tuple[str, ...]) -> list[Violation]:
    """Returns what in ``source`` is outside the language of candidates, in source order.

    Args:
        source: a candidate's module.
        entries: the task's entries; one that the module defines must be a plain function. That
            all of them are defined, with the seed's parameters, is for the trace to say.

    Returns:
        Violations sorted by line and column, without repeats; empty when the source is accepted.
        Pure: depends on the arguments and the shipped tables alone.
    """
    found = text_violations(source)
    if found:
        return found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        text = (error.msg or "a syntax error").split("\n")[0]
        return [Violation(error.lineno or 1, error.offset or 0, text, "write valid Python 3.11")]
    except (RecursionError, MemoryError):
        return [Violation(1, 0, "an expression nested too deeply to parse", _DEEP)]
    except ValueError as error:
        return [Violation(1, 0, f"text that does not parse ({error})", "write valid Python 3.11")]
    deep = _too_deep(tree)
    if deep is not None:
        return [Violation(deep, 0, f"nesting deeper than {MAX_DEPTH} levels", _DEEP)]

    def report(node: ast.AST, construct: str, instead: str) -> None:
        line, col = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        found.append(Violation(line, col, construct, instead))

    check_module(tree, entries, report)
    _dunders(tree, found)
    return sorted({_short(violation) for violation in found})


def _short(found: Violation) -> Violation:
    """A name may be as long as the source; what is said of it is not."""
    return Violation(
        found.line,
        found.col,
        _cut(found.construct, CONSTRUCT_MAX_CHARS),
        _cut(found.instead, INSTEAD_MAX_CHARS),
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _too_deep(tree: ast.Module) -> int | None:
    """Line of the first node nested deeper than ``MAX_DEPTH``, found without recursion."""
    level: list[tuple[ast.AST, int]] = [(tree, 1)]
    for _ in range(MAX_DEPTH):
        level = [
            (child, getattr(child, "lineno", line))
            for node, line in level
            for child in ast.iter_child_nodes(node)
        ]
        if not level:
            return None
    return level[0][1]


def _dunders(tree: ast.Module, found: list[Violation]) -> None:
    """Names with two leading underscores, wherever they stand: a second line of defence."""
    for node in ast.walk(tree):
        name = ""
        match node:
            case ast.Name():
                name = node.id
            case ast.Attribute():
                name = node.attr
            case ast.arg() | ast.keyword():
                name = node.arg or ""
            case ast.FunctionDef():
                name = node.name
        if name.startswith("__"):
            line, col = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
            found.append(Violation(line, col, f"the name `{name}`", "use names without `__`"))
