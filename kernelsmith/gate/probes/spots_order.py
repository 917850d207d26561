"""Planted bugs in the order of sums and in the types they are held in."""

import ast
from collections.abc import Iterator

from kernelsmith.gate.policy_base import dotted
from kernelsmith.gate.probes.spot import Function, Spot, has, keyword, names, text

NARROW = ("tl.bfloat16", "tl.float16")
Found = Iterator[tuple[str, ast.expr | ast.stmt, str]]


def order(function: Function) -> Iterator[Spot]:
    """Spots of kind ``order``: in jit functions, and where the host chooses how long a block of a
    sum is."""
    finders = (_trees, _loops, _additions) if function.jit else (_blocks,)
    for finder in finders:
        for operator, node, new in finder(function):
            yield Spot(kind="order", operator=operator, node=node, new=new)


def dtype(function: Function) -> Iterator[Spot]:
    """Spots of kind ``dtype`` in a jit function."""
    if not function.jit:
        return
    for finder in (_accumulators, _casts):
        for operator, node, new in finder(function):
            yield Spot(kind="dtype", operator=operator, node=node, new=new)


def sums(function: ast.FunctionDef) -> bool:
    """Whether a jit function adds up what it reads."""
    added = any(
        isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)
        for node in ast.walk(function)
    )
    return added or has(function, "tree_sum") or has(function, "tl.dot")


def _lanes(function: Function) -> str:
    """The length of a one-dimensional accumulator, if there is one."""
    for call in function.calls("tl.zeros"):
        match call.args:
            case [ast.Tuple(elts=[ast.Name(id=name)]), *_]:
                return name
    return ""


def _trees(function: Function) -> Found:
    lanes = _lanes(function)
    for call in function.calls("tree_sum"):
        inner = ast.unparse(call.args[0])
        yield "tl.sum for tree_sum", call, f"tl.sum({inner}, axis=-1)"
        if lanes and isinstance(call.args[0], ast.Name):
            halves = f"tl.sum(tl.reshape({inner}, (2, {lanes} // 2)), axis=0)"
            yield "lanes folded in halves", call, f"tree_sum({halves})"
            swapped = f"tl.trans(tl.reshape({inner}, ({lanes} // 2, 2)))"
            yield "even lanes first", call, f"tree_sum(tl.reshape({swapped}, ({lanes},)))"
            yield "operands of the tree swapped", call, f"tree_sum(tl.flip({inner}))"
    for node in ast.walk(function.node):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
                dotted(call.func) == "tl.dot" and len(call.args) == 3
            ):
                precision = keyword(call, "input_precision")
                rest = f", {ast.unparse(precision)}" if precision else ""
                a, b = ast.unparse(call.args[0]), ast.unparse(call.args[1])
                # Without the two factors the compiler folds the sum back into the dot.
                new = f"{name} + (tl.dot({a}, {b}{rest}) * 2.0) * 0.5"
                yield "blocks summed apart", call, new


def _loops(function: Function) -> Found:
    for node in ast.walk(function.node):
        if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
            continue
        grown = any(isinstance(each, ast.AugAssign) for each in ast.walk(node))
        if not grown and not has(node, "tl.dot"):
            continue
        call = node.iter
        match [ast.unparse(each) for each in call.args]:
            case ["0", last, step]:
                start = f"tl.cdiv({last}, {step}) * {step} - {step}"
                yield "blocks in descending order", call, f"range({start}, -1, -{step})"
            case [last]:
                yield "blocks in descending order", call, f"range({last} - 1, -1, -1)"


def _additions(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                added = ast.unparse(value)
                yield "sum and term swapped", node, f"{name} = {text(value)} + {name}"
                yield "sum passed through 16", node, f"{name} = (({name} + 16.0) + {added}) - 16.0"
                half = f"{text(value)} * 0.75"
                quarter = f"{text(value)} * 0.25"
                yield "term added in two parts", node, f"{name} = ({name} + {half}) + {quarter}"


def _blocks(function: Function) -> Found:
    for call, _, kernel in function.launches():
        if not sums(kernel):
            continue
        for each in call.keywords:
            match each:
                case ast.keyword(arg=str(name), value=ast.Constant(value=int(value)) as node) if (
                    name.isupper() and value > 1 and not isinstance(value, bool)
                ):
                    yield f"{name} halved", node, str(value // 2)
                    yield f"{name} doubled", node, str(value * 2)


def _accumulators(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                for narrow in NARROW:
                    held = f"({name} + {text(value)}).to({narrow}).to(tl.float32)"
                    yield f"sum held in {narrow[3:]}", node, f"{name} = {held}"
            case ast.Assign(targets=[ast.Name()], value=ast.Call() as call) if (
                dotted(call.func) == "tl.dot"
            ):
                for narrow in NARROW:
                    held = f"{ast.unparse(call)}.to({narrow}).to(tl.float32)"
                    yield f"sum held in {narrow[3:]}", call, held
                a, b, *rest = (ast.unparse(each) for each in call.args)
                early = f"tl.dot({a}.to(tl.bfloat16), {b}.to(tl.bfloat16), {', '.join(rest)})"
                yield "operands of bfloat16", call, early
                precision = keyword(call, "input_precision")
                if precision is not None:
                    yield "tf32 asked for", precision.value, '"tf32"'
            case ast.Call(args=[value]) if dotted(node.func) == "tree_sum":
                wide = f"tree_sum({text(value)}.to(tl.float64)).to(tl.float32)"
                yield "tree in float64", node, wide
                narrow = f"tree_sum({text(value)}.to(tl.float16)).to(tl.float32)"
                yield "tree in float16", node, narrow


def _casts(function: Function) -> Found:
    for node in ast.walk(function.node):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Call() as inner, attr="to"), args=[target]
            ) if ast.unparse(target) == "tl.float32":
                if dotted(inner.func) == "tl.load":
                    load = ast.unparse(inner)
                    yield "load never cast", node, load
                    for narrow in NARROW:
                        cast = f"{load}.to({narrow}).to(tl.float32)"
                        yield f"load by way of {narrow[3:]}", node, cast
                else:
                    match inner:
                        case ast.Call(func=ast.Attribute(value=value, attr="to")):
                            yield "rounding left out", node, text(value)
            case ast.Call(args=[_, value, *_]) if dotted(node.func) == "tl.store":
                if names(value) and isinstance(value, ast.Name | ast.BinOp):
                    cast = f"{text(value)}.to(tl.bfloat16).to(tl.float32)"
                    yield "stored by way of bfloat16", value, cast
