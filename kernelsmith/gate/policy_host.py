"""The language of host code: shapes in, allocations, views and launches out.

Host code runs on tensors without data. It reads only ``.shape``, ``.stride()``, ``.dtype`` and
integers, so nothing in it can tell a trace from a real call.
"""

import ast
from dataclasses import replace

from kernelsmith.gate.policy_base import Scope, dotted, is_literal, node_name
from kernelsmith.model import language as tables

_BINARY = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow,
    ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor,
)  # fmt: skip
_IDENTITY = (ast.Is, ast.IsNot)
_STATEMENTS = "use assignments, launches, if, for over range, assert and return"


def check_body(node: ast.FunctionDef, scope: Scope) -> None:
    """Reports every construct of ``node``'s body outside the language."""
    for index, statement in enumerate(node.body):
        if index == 0 and _is_string_statement(statement):
            continue
        _statement(statement, scope)


def _is_string(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_string_statement(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _is_string(node.value)


def _statement(node: ast.stmt, scope: Scope) -> None:
    match node:
        case ast.Assign():
            for target in node.targets:
                _target(target, scope)
            if isinstance(node.value, ast.Lambda):
                _grid_lambda(node.value, scope)
            else:
                _expression(node.value, scope)
        case ast.AugAssign():
            _target(node.target, scope)
            if not isinstance(node.op, _BINARY):
                scope.report(node, f"the operator {type(node.op).__name__}", "launch a kernel")
            _expression(node.value, scope)
        case ast.AnnAssign():
            scope.report(node, "an annotated assignment", "assign without an annotation")
        case ast.Expr():
            if isinstance(node.value, ast.Call):
                _expression(node.value, scope)
            else:
                hint = "assign it or remove it"
                scope.report(node, "an expression whose value is dropped", hint)
        case ast.For():
            _for(node, scope)
        case ast.If():
            _expression(node.test, scope)
            for child in [*node.body, *node.orelse]:
                _statement(child, scope)
        case ast.Return():
            if node.value is not None:
                _expression(node.value, scope)
        case ast.Assert():
            _expression(node.test, scope)
            if node.msg is not None and not _is_string(node.msg):
                scope.report(node.msg, "an assert message that is computed", "use a literal string")
        case ast.Pass() | ast.Break() | ast.Continue():
            pass
        case ast.While():
            scope.report(node, "`while` in host code", "use for over range")
        case ast.Raise():
            scope.report(node, "`raise`", "use assert on shapes and dtypes")
        case _:
            scope.report(node, node_name(node), _STATEMENTS)


def _target(node: ast.expr, scope: Scope) -> None:
    match node:
        case ast.Name():
            pass  # bindings of reserved names are reported for the whole function at once
        case ast.Tuple() | ast.List():
            for child in node.elts:
                _target(child, scope)
        case ast.Starred():
            _target(node.value, scope)
        case _:
            what = "a store to an attribute or an element"
            scope.report(node, what, "bind a local name; kernels write tensors")


def _for(node: ast.For, scope: Scope) -> None:
    _target(node.target, scope)
    call = node.iter
    is_range = isinstance(call, ast.Call) and dotted(call.func) == "range"
    if is_range or isinstance(call, ast.Tuple | ast.List):
        _expression(call, scope, loop=True)
    else:
        scope.report(call, f"a loop over {node_name(call)}", "use for over range or over a tuple")
    for child in [*node.body, *node.orelse]:
        _statement(child, scope)


def _expression(node: ast.expr, scope: Scope, *, loop: bool = False) -> None:
    match node:
        case ast.Constant():
            if not is_literal(node) and node.value is not Ellipsis:
                hint = "use numbers, True, False or None"
                scope.report(node, f"the constant {str(node.value)[:30]!r}", hint)
        case ast.Name():
            if node.id not in scope.local and node.id not in scope.module.constants:
                _report_name(node, scope)
        case ast.Attribute():
            _attribute(node, scope)
        case ast.Call():
            _call(node, scope, loop=loop)
        case ast.BinOp():
            if not isinstance(node.op, _BINARY):
                what = f"the operator {type(node.op).__name__}"
                scope.report(node, what, "launch a kernel")
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
            _subscript(node, scope)
        case ast.Tuple() | ast.List():
            for child in node.elts:
                _expression(child.value if isinstance(child, ast.Starred) else child, scope)
        case ast.Lambda():
            scope.report(node, "a lambda", "use one only as a launch grid")
        case _:
            hint = "use arithmetic on shapes, comparisons, tuples and launches"
            scope.report(node, node_name(node), hint)


def _report_name(node: ast.Name, scope: Scope) -> None:
    if node.id in scope.module.jit:
        hint = f"launch it with {node.id}[grid](...)"
    elif node.id in scope.module.host:
        hint = f"call it: {node.id}(...)"
    else:
        hint = "use parameters, local names, module constants and functions of this module"
    scope.report(node, f"the name `{node.id}`", hint)


def _attribute(node: ast.Attribute, scope: Scope) -> None:
    name = dotted(node)
    root = name.split(".")[0] if name else ""
    if root in tables.IMPORT_ROOTS and root not in scope.local:
        parts = (name or "").split(".")
        if root != "torch" or len(parts) != 2 or parts[1] not in tables.TORCH_DTYPES:
            hint = "use torch dtypes, torch.empty_like, triton.cdiv and triton.next_power_of_2"
            scope.report(node, f"`{name}`", tables.HOST_CALL_HINTS.get(name or "", hint))
        return
    if node.attr not in tables.HOST_ATTRIBUTES:
        if node.attr in tables.HOST_METHODS:
            hint = f"call it: .{node.attr}(...)"
        else:
            usual = "read only .shape, .stride(), .dtype and declared integers"
            hint = tables.HOST_ATTRIBUTE_HINTS.get(node.attr, usual)
        scope.report(node, f"the attribute `.{node.attr}`", hint)
        return
    _expression(node.value, scope)


def _call(node: ast.Call, scope: Scope, *, loop: bool = False) -> None:
    func = node.func
    name = dotted(func)
    root = name.split(".")[0] if name else ""
    if isinstance(func, ast.Subscript):
        _launch(node, func, scope)
    elif isinstance(func, ast.Name):
        _call_by_name(node, func.id, scope, loop=loop)
    elif name and root in tables.IMPORT_ROOTS and root not in scope.local:
        if name not in tables.HOST_CALLS:
            hint = "use torch.empty_like, triton.cdiv, triton.next_power_of_2 and kernels"
            scope.report(func, f"`{name}`", tables.HOST_CALL_HINTS.get(name, hint))
            return
        _arguments(node, scope, frozenset({"dtype"}))
    elif isinstance(func, ast.Attribute):
        if func.attr not in tables.HOST_METHODS:
            usual = "use allocation (.new_empty), view methods (.view, .t, …), .stride and .size"
            hint = tables.HOST_ATTRIBUTE_HINTS.get(func.attr, usual)
            scope.report(func, f"the method `.{func.attr}()`", hint)
            return
        _expression(func.value, scope)
        star = func.attr in tables.HOST_STAR_METHODS
        _arguments(node, scope, tables.HOST_METHOD_KEYWORDS, star=star)
    else:
        scope.report(func, "a call of an expression", "call functions by name")


def _call_by_name(node: ast.Call, name: str, scope: Scope, *, loop: bool) -> None:
    if name in scope.module.host:
        _arguments(node, scope, frozenset(scope.module.host[name]))
    elif name in scope.module.jit:
        scope.report(node, f"a call of the jit function `{name}`", f"use {name}[grid](...)")
    elif name == "range" and not loop:
        scope.report(node, "`range` outside a for statement", "use for over range")
    elif name in tables.HOST_BUILTINS and name not in scope.local:
        _arguments(node, scope, frozenset())
    else:
        hint = "call functions of this module, triton.cdiv, min, max, and listed methods"
        scope.report(node, f"a call of `{name}`", hint)


def _launch(node: ast.Call, func: ast.Subscript, scope: Scope) -> None:
    kernel = func.value
    if not isinstance(kernel, ast.Name) or kernel.id not in scope.module.jit:
        hint = "name a jit function of this module: kernel[grid](...)"
        scope.report(func, "a launch of something else than a kernel", hint)
        return
    if isinstance(func.slice, ast.Lambda):
        _grid_lambda(func.slice, scope)
    else:
        _expression(func.slice, scope)
    names = frozenset(scope.module.jit[kernel.id])
    for argument in node.args:
        _expression(argument, scope)
    for keyword in node.keywords:
        if keyword.arg in tables.LAUNCH_OPTIONS:
            if not (isinstance(keyword.value, ast.Constant) and type(keyword.value.value) is int):
                what = f"`{keyword.arg}` that is not a literal integer"
                scope.report(keyword, what, "write the number; branch around launches")
        elif keyword.arg is None or keyword.arg not in names:
            what = f"the launch option `{keyword.arg or '**'}`"
            options = ", ".join(sorted(tables.LAUNCH_OPTIONS))
            scope.report(keyword, what, f"use parameters of `{kernel.id}`, or {options}")
        elif not _is_short(keyword.value):
            _expression(keyword.value, scope)


def _is_short(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return tables.SHORT_STRING.match(node.value) is not None


def _grid_lambda(node: ast.Lambda, scope: Scope) -> None:
    args = node.args
    plain = len(args.args) == 1 and not (
        args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg or args.defaults
    )
    name = args.args[0].arg if plain else ""
    if not plain or name in tables.RESERVED or name in scope.module.jit:
        scope.report(node, "a lambda of this form", "use `lambda META: (…,)` as a grid")
        return
    _expression(node.body, replace(scope, grid_parameter=name))


def _subscript(node: ast.Subscript, scope: Scope) -> None:
    value = node.value
    if isinstance(value, ast.Name) and value.id == scope.grid_parameter:
        key = node.slice
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            scope.report(node, "an index of the grid's parameter", 'use META["NAME"]')
        return
    _expression(value, scope)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part in parts:
        if isinstance(part, ast.Slice):
            bounds: list[ast.expr | None] = [part.lower, part.upper, part.step]
            for bound in bounds:
                if bound is not None:
                    _expression(bound, scope)
        else:
            _expression(part.value if isinstance(part, ast.Starred) else part, scope)


def _compare(node: ast.Compare, scope: Scope) -> None:
    operands = [node.left, *node.comparators]
    for operator in node.ops:
        if isinstance(operator, _IDENTITY):
            if not any(isinstance(o, ast.Constant) and o.value is None for o in operands):
                scope.report(node, "`is` between objects", "use `is None`, or == on shapes")
        elif isinstance(operator, ast.In | ast.NotIn) and not is_literal(
            node.comparators[-1], tuples=True
        ):
            scope.report(node, "`in` on something else than a literal tuple", "write it out")
    for child in operands:
        _expression(child, scope)


def _arguments(
    node: ast.Call, scope: Scope, keywords: frozenset[str], *, star: bool = False
) -> None:
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            if not star:
                scope.report(argument, "a starred argument", "write the arguments out")
            argument = argument.value
        _expression(argument, scope)
    for keyword in node.keywords:
        if keyword.arg is None:
            scope.report(keyword.value, "`**` in a call", "write the arguments out")
            continue
        if keyword.arg not in keywords:
            allowed = ", ".join(sorted(keywords)) or "positional arguments"
            scope.report(keyword, f"the keyword `{keyword.arg}`", f"use {allowed}")
        _expression(keyword.value, scope)
