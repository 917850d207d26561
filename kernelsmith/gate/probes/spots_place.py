"""Planted bugs in places: indices, masks, loops."""

import ast
from collections.abc import Iterator

from kernelsmith.gate.policy_base import dotted
from kernelsmith.gate.probes.spot import Function, Spot, keyword, names, text, without

Found = Iterator[tuple[str, ast.expr | ast.stmt, str]]


def index(function: Function) -> Iterator[Spot]:
    """Spots of kind ``index`` in a jit function."""
    if not function.jit:
        return
    for finder in (_offsets, _strides, _bases, _widths, _axes):
        for operator, node, new in finder(function):
            yield Spot(kind="index", operator=operator, node=node, new=new)


def mask(function: Function) -> Iterator[Spot]:
    """Spots of kind ``mask`` in a jit function."""
    if not function.jit:
        return
    for finder in (_bounds, _masks):
        for operator, node, new in finder(function):
            yield Spot(kind="mask", operator=operator, node=node, new=new)


def boundary(function: Function) -> Iterator[Spot]:
    """Spots of kind ``boundary`` in a jit function: loops a turn short or long."""
    if not function.jit:
        return
    for node in ast.walk(function.node):
        match node:
            case ast.For(iter=ast.Call(args=[first, last, step]) as call):
                begin, end, by = (ast.unparse(each) for each in (first, last, step))
                for operator, new in (
                    ("loop a turn short", f"range({begin}, {end} - {by}, {by})"),
                    ("loop ends one early", f"range({begin}, {end} - 1, {by})"),
                    ("loop a turn long", f"range({begin}, {end} + {by}, {by})"),
                    ("loop without its tail", f"range({begin}, {end} - {end} % {by}, {by})"),
                    ("loop starts a turn late", f"range({by}, {end}, {by})"),
                ):
                    yield Spot(kind="boundary", operator=operator, node=call, new=new)
            case ast.For(iter=ast.Call(args=[last]) as call):
                end = text(last)
                for operator, new in (
                    ("loop a turn short", f"range({end} - 1)"),
                    ("loop a turn long", f"range({end} + 1)"),
                    ("loop starts a turn late", f"range(1, {end})"),
                ):
                    yield Spot(kind="boundary", operator=operator, node=call, new=new)


def _addresses(function: Function) -> Iterator[ast.expr]:
    for call in function.calls("tl.load", "tl.store"):
        yield call.args[0]


def _offsets(function: Function) -> Found:
    for call in function.calls("tl.arange"):
        yield "columns one late", call, f"({ast.unparse(call)} + 1)"
    for address in _addresses(function):
        for node in ast.walk(address):
            match node:
                case ast.BinOp(op=ast.Mult(), left=left, right=ast.Name(id=name)) if (
                    name in function.parameters
                ):
                    yield "row one late", node, f"(({ast.unparse(left)} + 1) * {name})"
                    yield "stride one long", node, f"({text(left)} * ({name} + 1))"
                    yield "rows all the first", node, f"({text(left)} * 0 * {name})"


def _strides(function: Function) -> Found:
    strides = [name for name in function.parameters if "stride" in name]
    for address in _addresses(function):
        for node in ast.walk(address):
            if isinstance(node, ast.Name) and node.id in strides and len(strides) > 1:
                at = strides.index(node.id)
                yield "another stride", node, strides[(at + 1) % len(strides)]
                yield "another stride", node, strides[at - 1]


def _bases(function: Function) -> Found:
    pointers = [name for name in function.parameters if name.endswith("_ptr")]
    for call in function.calls("tl.load"):
        for node in ast.walk(call.args[0]):
            if isinstance(node, ast.Name) and node.id in pointers and len(pointers) > 1:
                at = pointers.index(node.id)
                yield "another base", node, pointers[(at + 1) % len(pointers)]
                yield "base one late", node, f"({node.id} + 1)"


def _widths(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[target]) if (
                ast.unparse(target) == "tl.int64"
            ):
                yield "offsets of 32 bits", node, text(inner)
                yield "offsets of 8 bits", node, f"{text(inner)}.to(tl.int8).to(tl.int64)"


def _axes(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.BinOp(op=ast.FloorDiv(), left=left, right=right) if names(node):
                yield "remainder for quotient", node, f"({text(left)} % {text(right)})"
            case ast.BinOp(op=ast.Mod(), left=left, right=right) if names(node):
                yield "quotient for remainder", node, f"({text(left)} // {text(right)})"
            case ast.Subscript(value=value, slice=ast.Tuple(elts=[ast.Slice(), _])):
                yield "column for row", node, f"{text(value)}[None, :]"
            case ast.Subscript(value=value, slice=ast.Tuple(elts=[_, ast.Slice()])):
                yield "row for column", node, f"{text(value)}[:, None]"


def _bounds(function: Function) -> Found:
    blocks = [name for name in function.parameters if name.isupper() and "BLOCK" in name]
    for node in ast.walk(function.node):
        match node:
            case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]):
                a, b = text(left), text(right)
                yield "one element too few", node, f"{a} < {b} - 1"
                yield "one element too many", node, f"{a} <= {b}"
                for block in blocks[:1]:
                    yield "tail left out", node, f"{a} < {b} - {b} % {block}"
            case ast.BinOp(op=ast.BitAnd(), left=left, right=right):
                yield "one mask of two", node, text(left)
                yield "one mask of two", node, text(right)


def _masks(function: Function) -> Found:
    for call in function.calls("tl.load", "tl.store"):
        if keyword(call, "mask") is None:
            continue
        yield "no mask", call, without(call, "mask", "other")
        other = keyword(call, "other")
        if other is None or dotted(call.func) == "tl.store":
            continue
        if ast.unparse(other.value) == "0.0":
            yield "masked lanes are ones", other.value, "1.0"
            yield "masked lanes are NaN", other.value, 'float("nan")'
        else:
            yield "masked lanes are zeros", other.value, "0.0"
        yield "masked lanes undefined", call, without(call, "other")
