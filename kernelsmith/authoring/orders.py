"""What a seed leaves to the compiler: orders of sums and roundings that it does not write down."""

import ast
from collections.abc import Iterator

from kernelsmith.catalog import Finding
from kernelsmith.gate.policy_module import is_jit

_SUM = (
    "leaves the order of a sum to the compiler: its bits hang on num_warps, block, alignment and "
    "Triton's release, and a rewrite may change none of them",
    "let each lane add its columns in ascending order and finish with kernelsmith.lang.tree_sum",
)
_ROUNDING = "may be approximated on a GPU, each release in its own way"
_LEFT_OPEN = {
    "tl.sum": _SUM,
    "tl.cumsum": _SUM,
    "tl.reduce": _SUM,
    ".sum": _SUM,
    "/": (_ROUNDING, "tl.div_rn(a, b) says its rounding"),
    "tl.sqrt": (_ROUNDING, "tl.sqrt_rn(x) says its rounding"),
}


def left_open(tree: ast.Module, seed: str) -> Iterator[Finding]:
    """A warning for each kind of place in kernels of which a seed does not say the order or the
    rounding: its bits are the right ones all the same, as long as nothing around them changes."""
    lines: dict[str, set[int]] = {}
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and is_jit(function):
            for node in ast.walk(function):
                kind = _kind(node)
                if kind and isinstance(node, ast.expr):
                    lines.setdefault(kind, set()).add(node.lineno)
    for kind, (why, instead) in _LEFT_OPEN.items():
        found = lines.get(kind)
        if not found:
            continue
        where = f"line{'' if len(found) == 1 else 's'} {', '.join(map(str, sorted(found)))}"
        yield Finding(
            level="warning", message=f"seed {seed}, {where}: `{kind}` {why}", hint=instead
        )


def _kind(node: ast.AST) -> str:
    match node:
        case ast.BinOp(op=ast.Div()):
            return "/"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr=name)):
            return f"tl.{name}" if f"tl.{name}" in _LEFT_OPEN else ""
        case ast.Call(func=ast.Attribute(attr="sum")):
            return ".sum"
    return ""
