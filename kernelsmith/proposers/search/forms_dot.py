"""Forms of matrix products: a loop over k around ``acc = tl.dot(a, b, acc)``."""

import ast
import re
from dataclasses import replace

import libcst as cst
import libcst.matchers as m

from kernelsmith.proposers.search import cst_text as text
from kernelsmith.proposers.search.forms import Form, Rewrite, Rewritten, Subject


def _dot(function: cst.FunctionDef) -> tuple[str, str, str] | None:
    """(a, b, acc) of the one ``tl.dot(a, b, acc, …)`` over names."""
    found = [
        node
        for node in ast.walk(ast.parse(text.code(function)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.dot"
    ]
    if len(found) != 1 or len(found[0].args) < 3:
        return None
    words = [a.id for a in found[0].args[:3] if isinstance(a, ast.Name)]
    return (words[0], words[1], words[2]) if len(words) == 3 else None


def _fma(subject: Subject, value: str) -> Rewritten | None:
    """The dot becomes an explicit chain, k ascending: one rank-1 update of the accumulator a step,
    each product and sum rounded once (``tl.fma``)."""
    found = _dot(subject.function)
    step = next((s for _, _, s in text.loops(subject.function)), None)
    if found is None or step is None:
        return None
    a, b, acc = found

    def change(node: cst.BaseExpression) -> cst.BaseExpression | None:
        if text.call_name(node) == "tl.dot":
            return text.expression(f"tl.fma({a}.to(tl.float32), {b}.to(tl.float32), {acc})")
        return None

    function = cst.ensure_type(text.replace(subject.function, change), cst.FunctionDef)
    return function, subject.plan.setting(**{step: "1"})


def _load(index: int) -> Rewrite:
    def rewrite(subject: Subject, value: str) -> Rewritten | None:
        """An operand is loaded as its transpose, so that the load runs along memory."""
        found = _dot(subject.function)
        if found is None:
            return None
        name, done = found[index], False

        class Change(cst.CSTTransformer):
            def leave_Assign(
                self, original_node: cst.Assign, updated_node: cst.Assign
            ) -> cst.Assign:
                nonlocal done
                target = updated_node.targets[0].target
                if not m.matches(target, m.Name(name)):
                    return updated_node
                if text.call_name(updated_node.value) != "tl.load":
                    return updated_node
                source = text.code(updated_node.value)
                if "[:, None]" not in source or "[None, :]" not in source:
                    return updated_node
                done = True
                swapped = re.sub(
                    r"\[:, None\]|\[None, :\]",
                    lambda found: "[None, :]" if found.group() == "[:, None]" else "[:, None]",
                    source,
                )
                return updated_node.with_changes(value=text.expression(f"tl.trans({swapped})"))

        function = cst.ensure_type(subject.function.visit(Change()), cst.FunctionDef)
        return (function, subject.plan) if done else None

    return rewrite


def _order(subject: Subject, value: str) -> Rewritten | None:
    """Tiles run down the columns of the result instead of along its rows: with few columns in
    flight, their operand stays in cache while the rows go by."""
    function = subject.function
    counts = [
        (pair[0], call)
        for s in text.body_of(function)[1]
        if (pair := text.single_assign(s)) and (call := text.code(pair[1])).startswith("tl.cdiv(")
    ]
    if len(counts) != 1:
        return None
    name, call = counts[0]
    pairs = {f"tl.cdiv({size}, {tile})": tile for tile, size in subject.kernel.tiles.items()}
    rows = [t for t in subject.kernel.tiles if _is_rows(function, t, name)]
    if call not in pairs or len(rows) != 1 or not subject.kernel.tiles[rows[0]]:
        return None
    other = f"tl.cdiv({subject.kernel.tiles[rows[0]]}, {rows[0]})"

    def change(node: cst.BaseExpression) -> cst.BaseExpression | None:
        if text.call_name(node) == "tl.cdiv" and text.code(node) == call:
            return text.expression(other)
        if isinstance(node, cst.BinaryOperation) and m.matches(node.right, m.Name(name)):
            if isinstance(node.operator, cst.FloorDivide):
                return node.with_changes(operator=cst.Modulo())
            if isinstance(node.operator, cst.Modulo):
                return node.with_changes(operator=cst.FloorDivide())
        return None

    changed = cst.ensure_type(text.replace(function, change), cst.FunctionDef)
    return changed, replace(subject.plan)


def _is_rows(function: cst.FunctionDef, tile: str, count: str) -> bool:
    """Whether the range of length ``tile`` is placed by ``… // count``."""
    for statement in text.body_of(function)[1]:
        pair = text.single_assign(statement)
        if pair and f"// {count}" in text.code(pair[1]) and tile in text.names(pair[1]):
            return True
    return False


DOT = Form(name="dot", values=("fma",), rewrite=_fma)
LOAD_A = Form(name="load_a", values=("transposed",), rewrite=_load(0))
LOAD_B = Form(name="load_b", values=("transposed",), rewrite=_load(1))
ORDER = Form(name="order", values=("columns",), rewrite=_order)
