"""The form that gives each program a tile of rows instead of one row."""

import ast
from dataclasses import replace

import libcst as cst

from kernelsmith.proposers.search import cst_text as text
from kernelsmith.proposers.search.forms import Form, Rewritten, Subject


def _program_name(function: cst.FunctionDef) -> str | None:
    """The name bound to ``tl.program_id(0)``, perhaps cast, when that is its only use."""
    if text.calls(function, "tl.program_id") != 1:
        return None
    for node in text.body_of(function)[1]:
        pair = text.single_assign(node)
        if pair and text.code(pair[1]).startswith("tl.program_id(0)"):
            rest = text.code(pair[1]).removeprefix("tl.program_id(0)")
            if rest == "" or rest.startswith(".to("):
                return pair[0]
    return None


def _dependent(function: cst.FunctionDef, root: str) -> set[str]:
    """Names whose values depend on ``root``."""
    found = {root}
    assigns = [
        node
        for node in ast.walk(ast.parse(text.code(function)))
        if isinstance(node, ast.Assign | ast.AugAssign)
    ]
    before = 0
    while before != len(found):
        before = len(found)
        for node in assigns:
            used = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
            if used & found:
                found.update(_stored(node))
    return found


def _stored(node: ast.AST) -> set[str]:
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


def _rows(subject: Subject, value: str) -> Rewritten | None:
    """One row a program becomes a tile of rows [R, 1] against columns [1, BLOCK]."""
    function, grid = subject.function, subject.grid()
    row = _program_name(function)
    if row is None or len(grid) != 1 or text.calls(function, "tl.dot"):
        return None
    if text.calls(function, "tl.program_id") != 1 or text.calls(function, "tl.reduce"):
        return None
    dependent = _dependent(function, row)

    def change(node: cst.BaseExpression) -> cst.BaseExpression | None:
        name = text.call_name(node)
        if name == "tl.program_id":
            return text.expression("(tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]")
        if name == "tl.arange":
            return text.expression(f"{text.code(node)}[None, :]")
        if name == "tree_sum":
            return text.expression(f"{text.code(node)}[:, None]")
        if name in ("tl.sum", "tl.max", "tl.min") and isinstance(node, cst.Call):
            return text.expression(f"{name}({text.code(node.args[0].value)}, axis=1)[:, None]")
        if name in ("tl.zeros", "tl.full") and isinstance(node, cst.Call):
            return _wider(node)
        if name in ("tl.load", "tl.store") and isinstance(node, cst.Call):
            return _row_masked(node, dependent)
        return None

    function = cst.ensure_type(text.replace(function, change), cst.FunctionDef)
    statements = text.body_of(function)[1]
    at = next(i for i, s in enumerate(statements) if (text.single_assign(s) or ("",))[0] == row)
    inside = text.statement(f"row_inside = {row} < n_items")
    function = text.with_body(function, [*statements[: at + 1], inside, *statements[at + 1 :]])
    function = text.with_parameter(function, "n_items", constexpr=False)
    function = text.with_parameter(function, "ROWS", constexpr=True)
    plan = subject.plan.setting(n_items=grid[0], ROWS=value)
    return function, replace(plan, grid=(f"triton.cdiv({grid[0]}, {value})",))


def _wider(node: cst.Call) -> cst.BaseExpression | None:
    shape = node.args[0].value
    if isinstance(shape, cst.Tuple | cst.List) and len(shape.elements) == 1:
        width = text.code(shape.elements[0].value)
        rest = [text.code(a).rstrip(", ") for a in node.args[1:]]
        return text.expression(f"{text.call_name(node)}({', '.join([f'(ROWS, {width})', *rest])})")
    return None


def _row_masked(node: cst.Call, dependent: set[str]) -> cst.BaseExpression | None:
    if not (text.names(node.args[0].value) & dependent):
        return None
    first = 1 if text.call_name(node) == "tl.load" else 2
    args = [a.with_changes(comma=cst.MaybeSentinel.DEFAULT) for a in node.args]
    for index, argument in enumerate(args):
        named = argument.keyword is not None and argument.keyword.value == "mask"
        if named or (argument.keyword is None and index == first):
            mask = text.expression(f"{_bracketed(argument.value)} & row_inside")
            args[index] = argument.with_changes(value=mask)
            return node.with_changes(args=args)
    extra = "mask=row_inside" + (", other=0.0" if first == 1 else "")
    added = cst.ensure_type(text.expression(f"f({extra})"), cst.Call).args
    return node.with_changes(args=[*args, *added])


def _bracketed(node: cst.BaseExpression) -> str:
    return text.code(node) if isinstance(node, cst.Name) else f"({text.code(node)})"


ROWS = Form(name="rows", values=("2", "4", "8", "16"), rewrite=_rows)
