"""When two sources are the same candidate."""

import ast
import hashlib
from functools import lru_cache

DEEPEST = 300  # levels; the policy refuses anything deeper than 200
REMEMBERED = 512  # a candidate is asked for at each step of its way; one takes about 10 ms


@lru_cache(maxsize=REMEMBERED)
def normalised_hash(source: str) -> str:
    """A hash of what a module does, blind to how it is written down.

    Comments, docstrings, formatting, the names of locals and of parameters that no caller names,
    the names of functions but the entries (those without a leading underscore), the order of
    function definitions and functions that nothing reaches do not count. Two sources of equal hash
    compile to the same kernels; the converse does not hold.

    Returns:
        64 hex digits. A source that does not parse, or is nested too deeply to walk, is hashed as
        text.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or _is_deep(tree):
        return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    reached = _reached(functions)
    names = {name: f"function {i}" for i, name in enumerate(reached) if name.startswith("_")}
    parts = [
        ast.dump(node)
        for node in tree.body
        if not isinstance(node, ast.FunctionDef) and not _is_docstring(node)
    ]
    parts += [_function_text(functions[name], names) for name in reached]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _is_deep(tree: ast.Module) -> bool:
    """Found level by level, so that it does not hang on how deep the caller is."""
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _reached(functions: dict[str, ast.FunctionDef]) -> list[str]:
    """Public functions in order of name, then what they use, in order of first use."""
    order = sorted(name for name in functions if not name.startswith("_"))
    for name in order:  # grows while it is read: breadth first
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Name) and node.id in functions and node.id not in order:
                order.append(node.id)
    return order


def _function_text(node: ast.FunctionDef, functions: dict[str, str]) -> str:
    """The function with locals numbered in order of appearance, changed in place. Parameters keep
    their names, since callers use them as keywords. No source can have the new names."""
    parameters = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
    names = dict(functions)
    for inner in ast.walk(node):
        stored = isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
        if isinstance(inner, ast.Name) and stored and inner.id not in parameters:
            names.setdefault(inner.id, f"local {len(names)}")
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            inner.id = names.get(inner.id, inner.id)
    node.name = functions.get(node.name, node.name)
    if len(node.body) > 1 and _is_docstring(node.body[0]):
        node.body = node.body[1:]
    return ast.dump(node)
