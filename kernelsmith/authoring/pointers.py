"""Which parameters of a module's functions end up as pointers of a kernel, from the syntax tree."""

import ast
from collections.abc import Mapping

from kernelsmith.gate.policy_base import parameters


def kernel_pointers(node: ast.FunctionDef) -> frozenset[str]:
    """Parameters of a kernel that its loads and stores start from."""
    names = {each.arg for each in parameters(node)}
    assigned: dict[str, ast.expr] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            assigned.setdefault(each.targets[0].id, each.value)
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and ast.unparse(each.func) in ("tl.load", "tl.store"):
            base = _base(each.args[0], assigned) if each.args else None
            if base in names:
                found.add(base)
    return frozenset(found)


def _base(node: ast.expr, assigned: Mapping[str, ast.expr]) -> str:
    """The name that a pointer expression starts from; "" where it starts from none."""
    seen: set[str] = set()
    while True:
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Name) and node.id in assigned and node.id not in seen:
            seen.add(node.id)
            node = assigned[node.id]
        else:
            return node.id if isinstance(node, ast.Name) else ""


def launched(
    node: ast.FunctionDef,
    host: Mapping[str, ast.FunctionDef],
    kernels: Mapping[str, ast.FunctionDef],
    pointers: Mapping[str, frozenset[str]],
    seen: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """Names that a host function hands to kernels as pointers, directly or through functions."""
    found: set[str] = set()
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Subscript) and isinstance(call.func.value, ast.Name):
            callee = kernels.get(call.func.value.id)
            wanted = pointers.get(call.func.value.id, frozenset())
        elif isinstance(call.func, ast.Name) and call.func.id in host and call.func.id not in seen:
            callee = host[call.func.id]
            wanted = launched(callee, host, kernels, pointers, seen | {callee.name})
        else:
            continue
        if callee is not None:
            found |= {name for name, given in bound(callee, call) if given in wanted}
    return frozenset(found)


def bound(callee: ast.FunctionDef, call: ast.Call) -> list[tuple[str, str]]:
    """(name handed over, parameter that takes it) of a call's plain names."""
    names = [each.arg for each in parameters(callee)]
    pairs = [*zip(call.args, names, strict=False)]
    pairs += [(each.value, each.arg) for each in call.keywords if each.arg is not None]
    return [(value.id, name) for value, name in pairs if isinstance(value, ast.Name)]
