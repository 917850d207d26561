"""Planted bugs in arithmetic: another operation, another rounding, another constant."""

import ast
from collections.abc import Iterator

import numpy as np

from kernelsmith.gate.policy_base import dotted
from kernelsmith.gate.probes.spot import Function, Spot, names, text

LOG2_E = "1.4426950408889634"
LN_2 = "0.6931471805599453"
NUDGE = 1 + 2.0**-20


def numeric(function: Function) -> Iterator[Spot]:
    """Spots of kind ``numeric`` in a jit function."""
    if not function.jit:
        return
    for finder in (_signs, _groups, _contractions, _functions, _roundings, _branches, _epsilons):
        for operator, node, new in finder(function):
            yield Spot(kind="numeric", operator=operator, node=node, new=new)


def constants(function: Function) -> Iterator[Spot]:
    """Spots of kind ``constant`` in a jit function: another number, another start of a sum."""
    if not function.jit:
        return
    skipped = {id(each.value) for each in ast.walk(function.node) if isinstance(each, ast.keyword)}
    for node in ast.walk(function.node):
        match node:
            case ast.Constant(value=float(value)) if value and id(node) not in skipped:
                yield from _other_numbers(node, value)
            case ast.Constant(value=float(value)) if id(node) not in skipped:
                yield Spot(kind="constant", operator="sign of zero", node=node, new="(-0.0)")
            case ast.Call() if dotted(node.func) == "tl.zeros":
                start = f"({ast.unparse(node)} + 1e-30)"
                yield Spot(kind="constant", operator="small start", node=node, new=start)
                start = f"({ast.unparse(node)} * -1.0)"
                yield Spot(kind="constant", operator="start at -0", node=node, new=start)


def _other_numbers(node: ast.Constant, value: float) -> Iterator[Spot]:
    for operator, other in (
        ("constant off by 2**-20", value * NUDGE),
        ("constant one ulp up", float(np.nextafter(np.float32(value), np.float32(np.inf)))),
        ("constant one ulp down", float(np.nextafter(np.float32(value), np.float32(-np.inf)))),
        ("constant doubled", value * 2.0),
    ):
        yield Spot(kind="constant", operator=operator, node=node, new=f"({other!r})")


Found = Iterator[tuple[str, ast.expr | ast.stmt, str]]


def _signs(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.BinOp(op=ast.Sub() | ast.Add()) if function.is_value(node):
                other = "+" if isinstance(node.op, ast.Sub) else "-"
                new = f"({ast.unparse(node.left)} {other} {text(node.right)})"
                yield "plus for minus", node, new
            case ast.BinOp(op=ast.Mult()) if function.is_value(node):
                yield "division for product", node, f"tl.div_rn({_pair(node)})"
                yield "one factor left out", node, text(node.left)


def _pair(node: ast.BinOp) -> str:
    return f"{ast.unparse(node.left)}, {ast.unparse(node.right)}"


def _groups(function: Function) -> Found:
    """Other brackets, equal in real arithmetic."""
    for node in ast.walk(function.node):
        match node:
            case ast.BinOp(op=ast.Mult(), left=ast.BinOp(op=ast.Mult()) as inner):
                if function.is_value(node):
                    a, b, c = text(inner.left), text(inner.right), text(node.right)
                    yield "other brackets", node, f"({a} * ({b} * {c}))"
            case ast.BinOp(op=ast.Mult(), right=ast.BinOp(op=ast.Mult()) as inner):
                if function.is_value(node):
                    a, b, c = text(node.left), text(inner.left), text(inner.right)
                    yield "other brackets", node, f"(({a} * {b}) * {c})"
            case ast.BinOp(op=ast.Mult(), right=ast.BinOp(op=ast.Add() | ast.Sub()) as inner):
                if function.is_value(node):
                    a, sign = text(node.left), "+" if isinstance(inner.op, ast.Add) else "-"
                    b, c = text(inner.left), text(inner.right)
                    yield "multiplied out", node, f"({a} * {b} {sign} {a} * {c})"


def _contractions(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.BinOp(op=ast.Add(), right=ast.BinOp(op=ast.Mult()) as product):
                if function.is_value(node):
                    yield "contracted", node, f"tl.fma({_pair(product)}, {text(node.left)})"
            case ast.BinOp(op=ast.Add(), left=ast.BinOp(op=ast.Mult()) as product):
                if function.is_value(node):
                    yield "contracted", node, f"tl.fma({_pair(product)}, {text(node.right)})"
            case ast.BinOp(op=ast.Sub(), left=ast.BinOp(op=ast.Mult()) as product):
                if function.is_value(node):
                    yield "contracted", node, f"tl.fma({_pair(product)}, -{text(node.right)})"
            case ast.BinOp(op=ast.Sub(), right=ast.BinOp(op=ast.Mult()) as product):
                if function.is_value(node):
                    left, right = text(product.left), text(product.right)
                    yield "contracted", node, f"tl.fma(-{left}, {right}, {text(node.left)})"
            case ast.AugAssign(
                target=ast.Name(id=name), op=ast.Add(), value=ast.BinOp(op=ast.Mult()) as product
            ):
                yield "contracted", node, f"{name} = tl.fma({_pair(product)}, {name})"


def _functions(function: Function) -> Found:
    for call in function.calls("tl.exp", "tl.log", "tl.div_rn", "tl.sqrt_rn", "tl.maximum"):
        first = ast.unparse(call.args[0])
        match dotted(call.func), call.args:
            case "tl.exp", [argument]:
                yield "exp2 for exp", call, f"tl.exp2({text(argument)} * {LOG2_E})"
                yield "exp2 without the factor", call, f"tl.exp2({first})"
            case "tl.log", [_]:
                yield "log2 for log", call, f"(tl.log2({first}) * {LN_2})"
            case "tl.div_rn", [ast.Constant(), ast.Call(func=root, args=[inside])] if (
                dotted(root) == "tl.sqrt_rn"
            ):
                yield "rsqrt for root and division", call, f"tl.rsqrt({ast.unparse(inside)})"
                yield "division not by name", call, f"({first} / {ast.unparse(call.args[1])})"
            case "tl.div_rn", [top, bottom]:
                other = f"({text(top)} * tl.div_rn(1.0, {ast.unparse(bottom)}))"
                yield "product with the reciprocal", call, other
                yield "division not by name", call, f"({text(top)} / {text(bottom)})"
            case "tl.sqrt_rn", [_]:
                yield "root not by name", call, f"tl.sqrt({first})"
            case "tl.maximum", [_, second]:
                yield "minimum for maximum", call, f"tl.minimum({first}, {ast.unparse(second)})"


def _roundings(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[target]) if ast.unparse(
                target
            ).endswith("element_ty"):
                to = ast.unparse(target)
                yield "rounded twice", node, f"{text(inner)}.to(tl.float16).to({to})"
                up = f"({text(inner)} * 1.0009765625).to({to})"
                yield "rounded up", node, up
            case ast.Assign(targets=[ast.Name()], value=ast.BinOp() as value):
                if function.is_value(value):
                    new = f"({ast.unparse(value)}).to(tl.bfloat16).to(tl.float32)"
                    yield "rounded to bfloat16 between", value, new
                    new = f"({ast.unparse(value)} + 0.0)"
                    yield "zero added", value, new


def _branches(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.Compare(left=left, ops=[ast.Gt()], comparators=[right]) if (
                names(left) & function.floats
            ):
                yield "not below for above", node, f"{text(left)} >= {text(right)}"
            case ast.Call(args=[_, yes, _]) if dotted(node.func) == "tl.where":
                yield "guard left out", node, text(yes)


def _epsilons(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.BinOp(op=ast.Add(), left=left, right=ast.Name(id="eps") as right):
                yield "epsilon left out", node, text(left)
                yield "epsilon one ulp up", right, "(eps * 1.0000001192092896)"
                yield "epsilon doubled", right, "(eps * 2.0)"
