"""The functions and constants of a winner's module: which are the same program in two winners, and
each one's text under other names."""

import ast
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.errors import InputError

LANG = "kernelsmith.lang"
_NAME = re.compile(rb"def\s+(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One function or constant. ``uses``: the module's own names in it; ``bound``: parameters and
    local names; ``program``: equal for equal programs, what they use included."""

    name: str
    node: ast.FunctionDef | ast.Assign | ast.AnnAssign
    uses: tuple[str, ...]
    bound: frozenset[str]
    program: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A module in parts, in its own order. ``imported``: the vetted functions it names."""

    source: str
    docstring: str
    imported: tuple[str, ...]
    parts: Mapping[str, Part]


def read(source: str) -> Parts:
    """The parts of a module that the gate's policy accepted.

    Raises:
        SyntaxError: no Python.
    """
    source = source.replace("\r\n", "\n")
    body = ast.parse(source).body
    nodes = {
        name: node
        for node in body
        if isinstance(node, ast.FunctionDef | ast.Assign | ast.AnnAssign)
        for name in _defined(node)
    }
    imported = tuple(
        alias.name
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module == LANG
        for alias in node.names
    )
    parts = {
        name: Part(
            name=name,
            node=node,
            uses=_used(node, [each for each in nodes if each != name]),
            bound=_bound(node) - {name},
            program=_program(name, nodes, imported),
        )
        for name, node in nodes.items()
    }
    docstring = ""
    if body and _is_text(body[0]):
        docstring = ast.get_source_segment(source, body[0]) or ""
    return Parts(source=source, docstring=docstring, imported=imported, parts=parts)


def written(parts: Parts, name: str, names: Mapping[str, str]) -> str:
    """A part's text, comments right above it included, with the module's names replaced.

    Raises:
        InputError: its name stands where it cannot be replaced.
    """
    node, data = parts.parts[name].node, parts.source.encode()
    lines = data.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    begin, end = _extent(node, lines, starts)
    edits = [
        (starts[each.lineno - 1] + each.col_offset, each.id, names[each.id])
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and each.id in names
    ]
    if isinstance(node, ast.FunctionDef) and name in names:
        found = _NAME.match(data, starts[node.lineno - 1] + node.col_offset)
        if found is None:
            raise InputError(f"`def {name}` is spread over lines", hint="write it on one line")
        edits.append((found.start(1), name, names[name]))
    text = data[begin:end]
    for at, old, new in sorted(edits, reverse=True):
        text = text[: at - begin] + new.encode() + text[at - begin + len(old.encode()) :]
    return text.decode().strip("\n")


def reached(parts: Parts, name: str) -> list[str]:
    """The names of a part and of all that it uses, in the module's order."""
    found = _closure(name, lambda each: parts.parts[each].uses)
    return [each for each in parts.parts if each in found]


def _closure(name: str, uses: Callable[[str], Iterable[str]]) -> set[str]:
    """``name`` and all that it uses, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(uses(each))
    return found


def function(parts: Parts, name: str) -> ast.FunctionDef:
    """A part that must be a function.

    Raises:
        InputError: it is a constant.
    """
    node = parts.parts[name].node
    if not isinstance(node, ast.FunctionDef):
        raise InputError(f"`{name}` is no function")
    return node


def parameters(node: ast.FunctionDef) -> list[ast.arg]:
    """The named parameters of a function, in order."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [each.id for each in targets if isinstance(each, ast.Name)]
    return []


def _used(node: ast.AST, known: Sequence[str]) -> tuple[str, ...]:
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return tuple(each for each in known if each in found)


def _bound(node: ast.AST) -> frozenset[str]:
    found = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return frozenset(found) | {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _program(name: str, nodes: Mapping[str, ast.stmt], imported: Sequence[str]) -> str:
    """The hash of a part and of all that it uses, without docstrings."""
    found = _closure(name, lambda each: _used(nodes[each], list(nodes)))
    told = [name]
    for each in sorted(found):
        told += [_dump(nodes[each]), *(f"lang {one}" for one in _used(nodes[each], imported))]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _dump(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef) and len(node.body) > 1 and _is_text(node.body[0]):
        parts = [node.args, *node.decorator_list, *node.body[1:]]
        return "\n".join([node.name, *(ast.dump(each) for each in parts)])
    return ast.dump(node)


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _extent(node: ast.stmt, lines: Sequence[bytes], starts: Sequence[int]) -> tuple[int, int]:
    """First byte and the byte after the last: whole lines, but for statements that share one."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    first = min([node.lineno, *(each.lineno for each in decorators)])
    last = node.end_lineno or node.lineno
    begin, end = starts[first - 1], starts[last]
    tail = lines[last - 1][node.end_col_offset or 0 :].strip()
    if node.col_offset or (tail and not tail.startswith(b"#")):
        own = starts[node.lineno - 1] + node.col_offset
        return own, starts[last - 1] + (node.end_col_offset or 0)
    while first > 1 and lines[first - 2].startswith(b"#"):
        first -= 1
        begin = starts[first - 1]
    return begin, end
