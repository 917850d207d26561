"""Planted bugs in host code and in how programs find their place in the grid."""

import ast
import itertools
import zlib
from collections.abc import Iterator

from kernelsmith.gate.policy_base import dotted
from kernelsmith.gate.probes.spot import Function, Spot, text
from kernelsmith.gate.probes.spots_order import sums

ROWS_MOST = 299
Found = Iterator[tuple[str, ast.expr | ast.stmt, str]]


def grid(function: Function) -> Iterator[Spot]:
    """Spots of kind ``grid``: program numbers in jit functions, sizes of grids on the host."""
    for finder in (_programs,) if function.jit else (_sizes,):
        for operator, node, new in finder(function):
            yield Spot(kind="grid", operator=operator, node=node, new=new)


def host(function: Function) -> Iterator[Spot]:
    """Spots of kind ``host`` (and ``boundary``: a branch by rows modulo 16) in host code."""
    if function.jit:
        return
    for finder in (_arguments, _flags, _allocations, _returns, _branches):
        for operator, node, new in finder(function):
            yield Spot(kind="host", operator=operator, node=node, new=new)
    for operator, node, new in _sixteens(function):
        yield Spot(kind="boundary", operator=operator, node=node, new=new)


def constants(function: Function) -> Iterator[Spot]:
    """Spots of kind ``constant`` in host code: a block of a kernel that sums nothing, a divisor."""
    if function.jit:
        return
    for call in function.calls("triton.cdiv"):
        match call.args[1]:
            case ast.Constant(value=int(value)) as node:
                for operator, other in (("one less", value - 1), ("twice", value * 2)):
                    new = f"divisor {operator}"
                    yield Spot(kind="constant", operator=new, node=node, new=str(other))
    for launch, _, kernel in function.launches():
        for each in launch.keywords:
            match each:
                case ast.keyword(arg=str(name), value=ast.Constant(value=int(value)) as node) if (
                    name.isupper() and value > 1 and not isinstance(value, bool)
                ):
                    if sums(kernel):
                        continue
                    yield Spot(
                        kind="constant",
                        operator=f"{name} halved where nothing is summed",
                        node=node,
                        new=str(value // 2),
                    )


def _programs(function: Function) -> Found:
    for call in function.calls("tl.program_id"):
        own = ast.unparse(call)
        axis = ast.unparse(call.args[0])
        other = "1" if axis == "0" else "0"
        yield "axes swapped", call, f"tl.program_id({other})"
        yield "programs one late", call, f"({own} + 1)"
        yield "first program twice", call, f"tl.maximum({own} - 1, 0)"
        yield "programs counted down from the number", call, f"(tl.num_programs({axis}) - {own})"
        last = f"tl.minimum({own}, tl.num_programs({axis}) - 2)"
        yield "last program repeats the one before", call, last
        yield "programs modulo a half", call, f"({own} % tl.cdiv(tl.num_programs({axis}), 2))"
    for call in function.calls("tl.cdiv"):
        top, bottom = text(call.args[0]), text(call.args[1])
        yield "tiles rounded down", call, f"({top} // {bottom})"
        yield "programs for tiles", call, "tl.num_programs(0)"


def _sizes(function: Function) -> Found:
    for _, size, _ in function.launches():
        if not isinstance(size, ast.Tuple):
            continue
        match size.elts:
            case [only]:
                yield "grid short by one", only, f"max({text(only)} - 1, 0)"
                yield "grid long by one", only, f"{text(only)} + 1"
                yield "half the grid", only, f"{text(only)} // 2"
                rows = function.rows()
                if rows:
                    count = _count(only)
                    one = f"({text(only)} if {rows} != {count} else {text(only)} - 1)"
                    yield "grid short for one row count", only, one
            case [first, second]:
                yield "axes swapped", size, f"({ast.unparse(second)}, {ast.unparse(first)})"
                yield "grid short by one", first, f"max({text(first)} - 1, 0)"
                yield "grid short by one", second, f"max({text(second)} - 1, 0)"
    for call in function.calls("triton.cdiv"):
        top, bottom = text(call.args[0]), text(call.args[1])
        yield "blocks rounded down", call, f"({top} // {bottom})"
        yield "one block too many", call, f"({ast.unparse(call)} + 1)"


def _count(node: ast.expr) -> int:
    """A row count that nobody declared on purpose: it follows from where the spot is."""
    return 1 + zlib.crc32(f"{node.lineno}:{node.col_offset}".encode()) % ROWS_MOST


def _arguments(function: Function) -> Found:
    rows = function.rows()
    for call, _, kernel in function.launches():
        parameters = [arg.arg for arg in kernel.args.args]
        tensors = [
            each
            for each, name in zip(call.args, parameters, strict=False)
            if name.endswith("_ptr") and isinstance(each, ast.Name)
        ]
        for tensor, after in itertools.pairwise(tensors):
            yield "another tensor passed", tensor, ast.unparse(after)
        strides = [
            each for each, name in zip(call.args, parameters, strict=False) if "stride" in name
        ]
        for one, other in zip(strides, [*strides[1:], *strides[:1]], strict=True):
            yield "another tensor's stride", one, ast.unparse(other)
            match one:
                case ast.Call(func=ast.Attribute(value=whose, attr="stride")):
                    yield "columns for the stride", one, f"{ast.unparse(whose)}.shape[1]"
        for each, name in zip(call.args, parameters, strict=False):
            if isinstance(each, ast.Name) and rows and name.startswith(("n_", "k_")):
                count = _count(each)
                new = f"({each.id} if {rows} != {count} else {each.id} - 1)"
                yield "one size short for one row count", each, new
                yield "one size short", each, f"({each.id} - 1)"


def _flags(function: Function) -> Found:
    for call, _, _ in function.launches():
        for each in call.keywords:
            match each:
                case ast.keyword(arg=str(name), value=ast.Compare() as value) if name.isupper():
                    yield "flag never set", value, "False"
                case ast.keyword(arg=str(name), value=ast.Constant(value=bool(flag)) as value) if (
                    name.isupper() and flag
                ):
                    yield "flag never set", value, "False"
                case ast.keyword(arg=str(name), value=ast.Constant(value=int(size)) as value) if (
                    name.isupper() and size > 1 and function.rows()
                ):
                    new = f"({size} if {function.rows()} != {_count(value)} else {size // 2})"
                    yield f"another {name} for one row count", value, new


def _allocations(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.Call(func=ast.Attribute(attr="new_empty"), keywords=[]):
                new = ast.unparse(node)[:-1] + ", dtype=torch.float16)"
                yield "output of another dtype", node, new
            case ast.Call(func=ast.Attribute(attr="new_empty"), keywords=[_]):
                new = ast.unparse(ast.Call(func=node.func, args=node.args, keywords=[]))
                yield "output of another dtype", node, new


def _returns(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.Return(value=ast.Tuple(elts=[first, second, *rest]) as value):
                swapped = ", ".join(ast.unparse(each) for each in (second, first, *rest))
                yield "outputs swapped", value, f"({swapped})"


def _branches(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.If(test=ast.Compare(left=left, ops=[ast.LtE()], comparators=[right]) as test):
                a, b = text(left), text(right)
                yield "branch one early", test, f"{a} < {b}"
                yield "branch one late", test, f"{a} <= {b} + 1"
                yield "branch never taken", test, f"{a} < 0"
                yield "branch always taken", test, f"{a} >= 0"
            case ast.Call() if dotted(node.func) == "triton.next_power_of_2":
                yield "not the next power of two", node, f"({ast.unparse(node)} // 2)"


def _sixteens(function: Function) -> Found:
    rows = function.rows()
    for call, size, _ in function.launches():
        if not rows:
            continue
        for each in call.keywords:
            match each:
                case ast.keyword(arg=str(name), value=ast.Constant(value=int(value)) as node) if (
                    name.isupper() and value > 1 and not isinstance(value, bool)
                ):
                    new = f"({value} if {rows} % 16 == 0 else {value // 2})"
                    yield f"another {name} unless rows divide by 16", node, new
        if isinstance(size, ast.Tuple):
            first = size.elts[0]
            new = f"({text(first)} - (1 if {rows} % 16 == 15 else 0))"
            yield "grid short unless rows divide by 16", first, new
