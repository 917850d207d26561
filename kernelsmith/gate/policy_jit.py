"""The language of jit bodies: tensor expressions over ``triton.language``, loops and branches.

A jit body runs as Python while it is compiled, so every node type and every name is looked up in
an allow-list; what is not found is reported with what to use instead.
"""

import ast

from kernelsmith.gate.policy_base import Scope, dotted, is_literal, node_name
from kernelsmith.model import language as tables

_BINARY = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow,
    ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor,
)  # fmt: skip
_COMPARE = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot)
_LOOPS = "use range, tl.range or tl.static_range over integers"


def check_body(node: ast.FunctionDef, scope: Scope) -> None:
    """Reports every construct of ``node``'s body outside the language."""
    for index, statement in enumerate(node.body):
        if index == 0 and _is_docstring(statement):
            continue
        _statement(statement, scope)


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _statement(node: ast.stmt, scope: Scope) -> None:
    match node:
        case ast.Assign():
            for target in node.targets:
                _target(target, scope)
            _expression(node.value, scope)
        case ast.AugAssign():
            _target(node.target, scope)
            if not isinstance(node.op, _BINARY):
                scope.report(node, f"the operator {type(node.op).__name__}", "use tl.dot")
            _expression(node.value, scope)
        case ast.AnnAssign():
            if dotted(node.annotation) != "tl.constexpr":
                scope.report(node.annotation, "an annotation", "use none or tl.constexpr")
            _target(node.target, scope)
            if node.value is not None:
                _expression(node.value, scope)
        case ast.Expr():
            _expression_statement(node, scope)
        case ast.For():
            _for(node, scope)
        case ast.While() | ast.If():
            _expression(node.test, scope)
            for child in [*node.body, *node.orelse]:
                _statement(child, scope)
        case ast.Return():
            if node.value is not None:
                _expression(node.value, scope)
        case ast.Pass():
            pass
        case ast.Assert():
            scope.report(node, "`assert` in a jit body", "use tl.static_assert on constexprs")
        case ast.Break() | ast.Continue():
            scope.report(node, node_name(node), "use a bound of the loop, or masks")
        case _:
            hint = "use assignments, tl calls, for, while, if and return"
            scope.report(node, node_name(node), hint)


def _expression_statement(node: ast.Expr, scope: Scope) -> None:
    if isinstance(node.value, ast.Call):
        _expression(node.value, scope)
    else:
        scope.report(node, "an expression whose value is dropped", "assign it or remove it")


def _target(node: ast.expr, scope: Scope) -> None:
    match node:
        case ast.Name():
            pass  # bindings of reserved names are reported for the whole function at once
        case ast.Tuple():
            for child in node.elts:
                _target(child, scope)
        case ast.Attribute() | ast.Subscript():
            what = "a store to an attribute or an element"
            scope.report(node, what, "bind a local name, write memory with tl.store")
        case _:
            scope.report(node, f"{node_name(node)} as a target", "bind local names")


def _for(node: ast.For, scope: Scope) -> None:
    _target(node.target, scope)
    call = node.iter
    name = dotted(call.func) if isinstance(call, ast.Call) else None
    if isinstance(call, ast.Call) and name in ("range", "tl.range", "tl.static_range"):
        _arguments(call, scope, tables.TL_KEYWORDS)
    else:
        scope.report(call, f"a loop over {name or node_name(call)}", _LOOPS)
    for child in node.body:
        _statement(child, scope)
    if node.orelse:
        scope.report(node, "`for … else`", "write the statements after the loop")


def _expression(node: ast.expr, scope: Scope) -> None:
    match node:
        case ast.Constant():
            _constant(node, scope)
        case ast.Name():
            _name(node, scope)
        case ast.Attribute():
            _attribute(node, scope)
        case ast.Call():
            _call(node, scope)
        case ast.BinOp():
            if not isinstance(node.op, _BINARY):
                scope.report(node, f"the operator {type(node.op).__name__}", "use tl.dot")
            _expression(node.left, scope)
            _expression(node.right, scope)
        case ast.UnaryOp():
            _expression(node.operand, scope)
        case ast.BoolOp():
            for child in node.values:
                _expression(child, scope)
        case ast.Compare():
            _compare(node, scope)
        case ast.IfExp():
            for child in (node.test, node.body, node.orelse):
                _expression(child, scope)
        case ast.Subscript():
            _expression(node.value, scope)
            _index(node.slice, scope)
        case ast.Tuple() | ast.List():
            for child in node.elts:
                _expression(child, scope)
        case ast.Starred():
            scope.report(node, "a starred argument", "write the arguments out")
        case _:
            scope.report(node, node_name(node), "use arithmetic, comparisons, tl calls and tuples")


def _constant(node: ast.Constant, scope: Scope) -> None:
    if not is_literal(node):
        hint = "use numbers, True, False or None; strings only where tl takes an option by keyword"
        scope.report(node, f"the constant {str(node.value)[:30]!r}", hint)


def _name(node: ast.Name, scope: Scope) -> None:
    known = node.id in scope.local or node.id in scope.module.constants
    if not known:
        hint = "use parameters, local names, module constants, tl.* and this module's jit functions"
        scope.report(node, f"the name `{node.id}`", hint)


def _attribute(node: ast.Attribute, scope: Scope) -> None:
    name = dotted(node)
    root = name.split(".")[0] if name else ""
    if root in tables.IMPORT_ROOTS and root not in scope.local:
        parts = (name or "").split(".")
        if root != "tl" or len(parts) != 2 or parts[1] not in tables.TL_VALUES:
            _report_dotted(node, name or "", scope)
        return
    if node.attr not in tables.JIT_ATTRIBUTES:
        hint = f"use .{', .'.join(sorted(tables.JIT_ATTRIBUTES))} and the listed tensor methods"
        scope.report(node, f"the attribute `.{node.attr}`", hint)
    _expression(node.value, scope)


def _report_dotted(node: ast.AST, name: str, scope: Scope) -> None:
    prefix = ".".join(name.split(".")[:2])
    hint = tables.TL_HINTS.get(prefix)
    if hint is None:
        hint = "use pure functions of triton.language, such as tl.load, tl.dot or tl.sum"
    scope.report(node, f"`{name}`", hint)


def _call(node: ast.Call, scope: Scope) -> None:
    name = dotted(node.func)
    root = name.split(".")[0] if name else ""
    if isinstance(node.func, ast.Name):
        _call_by_name(node, node.func.id, scope)
    elif name and root in tables.IMPORT_ROOTS and root not in scope.local:
        parts = name.split(".")
        if root != "tl" or len(parts) != 2 or parts[1] not in tables.TL_CALLS:
            is_loop = root == "tl" and parts[1:] in (["range"], ["static_range"])
            if is_loop:
                scope.report(node, f"`{name}` outside a for statement", _LOOPS)
            else:
                _report_dotted(node.func, name, scope)
            return
        _tl_call(node, parts[1], scope)
    elif isinstance(node.func, ast.Attribute):
        if node.func.attr not in tables.TENSOR_METHODS:
            hint = "use tl functions or listed methods such as .to, .reshape and .trans"
            scope.report(node, f"the method `.{node.func.attr}()`", hint)
        _expression(node.func.value, scope)
        _arguments(node, scope, tables.TL_KEYWORDS)
    else:
        scope.report(node, "a call of an expression", "call tl functions or jit functions by name")


def _call_by_name(node: ast.Call, name: str, scope: Scope) -> None:
    known = scope.module.jit.get(name) or scope.module.lang.get(name)
    if name in scope.module.jit or name in scope.module.lang:
        _arguments(node, scope, frozenset(known or ()), strings=True)
    elif name == "range":
        scope.report(node, "`range` outside a for statement", _LOOPS)
    elif name == "float" and _is_float_string(node):
        pass
    elif name in tables.JIT_BUILTINS:
        _arguments(node, scope, frozenset())
    else:
        hint = "call tl functions, jit functions of this module or names from kernelsmith.lang"
        scope.report(node, f"a call of `{name}`", hint)


def _is_float_string(node: ast.Call) -> bool:
    if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Constant):
        return False
    value = node.args[0].value
    return isinstance(value, str) and value.lower() in tables.FLOAT_STRINGS


def _tl_call(node: ast.Call, name: str, scope: Scope) -> None:
    skip: list[ast.expr] = []
    if name in tables.TL_COMBINE:
        named = [k.value for k in node.keywords if k.arg == "combine_fn"]
        skip = [a for a in [*node.args[2:3], *named] if _is_combine(a, scope)]
    elif name == "static_assert" and len(node.args) == 2:
        message = node.args[1]
        if isinstance(message, ast.Constant) and isinstance(message.value, str):
            skip = [message]
    _arguments(node, scope, tables.TL_KEYWORDS, skip=skip)


def _is_combine(node: ast.expr, scope: Scope) -> bool:
    return isinstance(node, ast.Name) and (
        node.id in scope.module.jit or node.id in scope.module.lang
    )


def _arguments(
    node: ast.Call,
    scope: Scope,
    keywords: frozenset[str],
    *,
    strings: bool = False,
    skip: list[ast.expr] | None = None,
) -> None:
    for argument in node.args:
        if argument not in (skip or []):
            _expression(argument, scope)
    for keyword in node.keywords:
        if keyword.arg is None:
            scope.report(keyword.value, "`**` in a call", "write the arguments out")
        elif keyword.arg not in keywords:
            allowed = ", ".join(sorted(keywords)) or "positional arguments only"
            scope.report(keyword, f"the keyword `{keyword.arg}`", f"use {allowed}")
        elif keyword.value not in (skip or []):
            strings_here = strings or keyword.arg in tables.TL_STRING_KEYWORDS
            if not (strings_here and _short(keyword.value)):
                _expression(keyword.value, scope)


def _short(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return tables.SHORT_STRING.match(node.value) is not None


def _compare(node: ast.Compare, scope: Scope) -> None:
    for operator in node.ops:
        if not isinstance(operator, _COMPARE):
            scope.report(node, f"the comparison {type(operator).__name__}", "use == and `or`")
    for child in [node.left, *node.comparators]:
        if not _short(child):
            _expression(child, scope)


def _index(node: ast.expr, scope: Scope) -> None:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    for part in parts:
        if isinstance(part, ast.Slice):
            bounds: list[ast.expr | None] = [part.lower, part.upper, part.step]
            for bound in bounds:
                if bound is not None:
                    _expression(bound, scope)
        else:
            _expression(part, scope)
