"""Small steps on libcst trees that the rewrites share."""

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import cast

import libcst as cst

_EMPTY = cst.Module([])


@lru_cache(maxsize=1024)
def code(node: cst.CSTNode) -> str:
    """Source text of a node (nodes are immutable and compare by identity)."""
    return _EMPTY.code_for_node(node)


@lru_cache(maxsize=8)
def module(source: str) -> cst.Module:
    """The tree of a source."""
    return cst.parse_module(source)


def expression(text: str) -> cst.BaseExpression:
    """An expression from its text."""
    return cst.parse_expression(text)


def statement(text: str) -> cst.BaseStatement:
    """A statement from its text."""
    return cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine)


@lru_cache(maxsize=4096)
def _read(source: str) -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]:
    """(names used or bound, names bound, names called) of a statement or expression. Python's own
    parser reads a text faster than a visitor walks a libcst tree."""
    nodes = list(ast.walk(ast.parse(source)))
    used = [n for n in nodes if isinstance(n, ast.Name)]
    return (
        frozenset(n.id for n in used),
        tuple(n.id for n in used if isinstance(n.ctx, ast.Store)),
        tuple(ast.unparse(n.func) for n in nodes if isinstance(n, ast.Call)),
    )


def names(node: cst.CSTNode) -> frozenset[str]:
    """Names that stand as expressions or targets in a node (not attributes, not keywords)."""
    return _read(code(node))[0]


def assigned(nodes: Sequence[cst.CSTNode]) -> list[str]:
    """Names that statements bind, once for each binding."""
    return [name for node in nodes for name in _read(code(node))[1]]


def calls(node: cst.CSTNode, name: str) -> int:
    """How often ``name`` is called in a statement, expression or function."""
    return _read(code(node))[2].count(name)


def replace(
    node: cst.CSTNode, matches: Callable[[cst.BaseExpression], cst.BaseExpression | None]
) -> cst.CSTNode:
    """Replaces expressions bottom-up where ``matches`` returns something else than None."""

    class Replace(cst.CSTTransformer):
        def on_leave(
            self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
        ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
            new = matches(updated_node) if isinstance(updated_node, cst.BaseExpression) else None
            return updated_node if new is None else cast(cst.CSTNodeT, new)

    result = node.visit(Replace())
    assert isinstance(result, cst.CSTNode)
    return result


def call_name(node: cst.CSTNode) -> str:
    """Dotted name of what a call calls, or ""."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name | cst.Attribute):
        return code(node.func).strip()
    return ""


def single_assign(node: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """(name, value) of a statement ``name = value``."""
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        small = node.body[0]
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            target = small.targets[0].target
            if isinstance(target, cst.Name):
                return target.value, small.value
    return None


def body_of(function: cst.FunctionDef) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """(docstring statement if any, the rest) of a function."""
    block = cst.ensure_type(function.body, cst.IndentedBlock)
    statements = list(block.body)
    if function.get_docstring() is not None:
        return statements[:1], statements[1:]
    return [], statements


def with_body(
    function: cst.FunctionDef, statements: Sequence[cst.BaseStatement]
) -> cst.FunctionDef:
    """The function with other statements, its docstring kept."""
    head, _ = body_of(function)
    block = cst.ensure_type(function.body, cst.IndentedBlock)
    return function.with_changes(body=block.with_changes(body=[*head, *statements]))


def with_parameter(function: cst.FunctionDef, name: str, *, constexpr: bool) -> cst.FunctionDef:
    """The function with one more parameter at the end; a run-time one is not specialised, so that
    it adds no compiled variants."""
    annotation = cst.Annotation(expression("tl.constexpr")) if constexpr else None
    added = cst.Param(name=cst.Name(name), annotation=annotation)
    function = function.with_changes(params=appended(function.params, added))
    return function if constexpr else _not_specialised(function, name)


def appended(parameters: cst.Parameters, added: cst.Param) -> cst.Parameters:
    """Parameters with one more, laid out like the others."""
    params = list(parameters.params)
    if params:
        between = params[-2].comma if len(params) > 1 else cst.MaybeSentinel.DEFAULT
        added = added.with_changes(comma=params[-1].comma)
        params[-1] = params[-1].with_changes(comma=between)
    return parameters.with_changes(params=[*params, added])


def _not_specialised(function: cst.FunctionDef, name: str) -> cst.FunctionDef:
    decorator = function.decorators[0].decorator
    listed: list[str] = []
    others: list[str] = []
    if isinstance(decorator, cst.Call):
        for argument in decorator.args:
            word = argument.keyword.value if argument.keyword else ""
            if word == "do_not_specialize" and isinstance(argument.value, cst.List | cst.Tuple):
                listed = [code(e.value) for e in argument.value.elements]
            else:
                others.append(f"{word}={code(argument.value)}")
    listed.append(f'"{name}"')
    text = ", ".join([f"do_not_specialize=[{', '.join(listed)}]", *others])
    new = cst.Decorator(expression(f"triton.jit({text})"))
    return function.with_changes(decorators=[new, *function.decorators[1:]])


def loops(function: cst.FunctionDef) -> list[tuple[str, str, str]]:
    """(v, P, B) for each ``for v in range(0, P, B)`` over names."""
    return list(_loops(code(function)))


@lru_cache(maxsize=256)
def _loops(source: str) -> tuple[tuple[str, str, str], ...]:
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.For(
                target=ast.Name(id=variable),
                iter=ast.Call(
                    func=ast.Name(id="range"),
                    args=[ast.Constant(value=0), ast.Name(id=bound), ast.Name(id=step)],
                ),
            ):
                found.append((variable, bound, step))
    return tuple(found)


def loop_of(node: cst.For) -> tuple[str, str, str] | None:
    """(v, P, B) if the loop is ``for v in range(0, P, B)`` over names."""
    call = node.iter
    if not isinstance(call, cst.Call) or call_name(call) != "range" or len(call.args) != 3:
        return None
    start, bound, step = (a.value for a in call.args)
    words = [node.target, bound, step]
    if code(start) != "0" or not all(isinstance(w, cst.Name) for w in words):
        return None
    return code(node.target), code(bound), code(step)
