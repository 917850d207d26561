"""Follows an entry's host code by its syntax tree: which tensors it returns, of which shapes.

Host code of the gate's language only allocates, views and launches, so a walk that knows which
optional arguments are given can name every output. What it cannot follow is None, never a guess.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.gate.policy_base import parameters

Size = str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor met on the walk: dimension names or sizes; None where one is not known."""

    shape: tuple[Size, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """One returned tensor: the name of the local it is returned from."""

    name: str
    tensor: Tensor | None


Value = Tensor | Size
MOST_CALLS_DEEP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the walk knows at a place: locals, those that are None, the module's functions."""

    values: dict[str, Value]
    nones: set[str]
    functions: Mapping[str, ast.FunctionDef]
    depth: int


def returned(
    function: ast.FunctionDef,
    arguments: Mapping[str, Tensor | None],
    functions: Mapping[str, ast.FunctionDef],
) -> tuple[Returned, ...] | None:
    """What an entry returns when it is called with these arguments (None: Python's None).

    Scalars are left out of ``arguments``; ``functions`` are the module's host functions, which are
    followed. None: the walk does not reach one return for sure.
    """
    known = _Known(
        values=dict(arguments),
        nones={name for name, tensor in arguments.items() if tensor is None},
        functions=functions,
        depth=0,
    )
    return _returned(function, known)


def _returned(function: ast.FunctionDef, known: _Known) -> tuple[Returned, ...] | None:
    found = _walk(function.body, known)
    if not isinstance(found, ast.Return) or found.value is None:
        return None
    value = found.value
    whole = _inner(value, known)
    if whole is not None:
        return whole
    elements = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    out: list[Returned] = []
    for number, element in enumerate(elements):
        inner = _inner(element, known)
        if inner is not None and len(inner) == 1:
            out += inner
            continue
        tensor = _value(element, known)
        out.append(
            Returned(
                name=element.id if isinstance(element, ast.Name) else f"out{number}",
                tensor=tensor if isinstance(tensor, Tensor) else None,
            )
        )
    return tuple(out)


def _inner(node: ast.expr, known: _Known) -> tuple[Returned, ...] | None:
    """What a call of one of the module's functions returns; None where it is no such call."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return None
    function = known.functions.get(node.func.id)
    if function is None or known.depth >= MOST_CALLS_DEEP:
        return None
    names = [each.arg for each in parameters(function)]
    pairs = [*zip(names, node.args, strict=False)]
    pairs += [(each.arg, each.value) for each in node.keywords if each.arg is not None]
    values = {name: _value(value, known) for name, value in pairs}
    nones = {
        name
        for name, value in pairs
        if (isinstance(value, ast.Name) and value.id in known.nones)
        or (isinstance(value, ast.Constant) and value.value is None)
    }
    inside = _Known(values=values, nones=nones, functions=known.functions, depth=known.depth + 1)
    return _returned(function, inside)


def _walk(body: Sequence[ast.stmt], known: _Known) -> ast.Return | str | None:
    """The return that is reached, None when the body runs through, "unsure" when it may be."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return statement
        if isinstance(statement, ast.Assign):
            _assign(statement, known)
        elif isinstance(statement, ast.If):
            truth = _truth(statement.test, known)
            if truth is None:
                if any(isinstance(each, ast.Return) for each in ast.walk(statement)):
                    return "unsure"
                _forget(statement, known)
                continue
            found = _walk(statement.body if truth else statement.orelse, known)
            if found is not None:
                return found
        elif isinstance(statement, ast.For):
            if any(isinstance(each, ast.Return) for each in ast.walk(statement)):
                return "unsure"
            _forget(statement, known)
    return None


def _truth(test: ast.expr, known: _Known) -> bool | None:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand, known)
        return None if inner is None else not inner
    if (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
        and isinstance(test.ops[0], ast.Is | ast.IsNot)
        and (test.left.id in known.nones or isinstance(known.values.get(test.left.id), Tensor))
    ):
        return (test.left.id in known.nones) == isinstance(test.ops[0], ast.Is)
    return None


def _forget(statement: ast.stmt, known: _Known) -> None:
    """What one of two ways may have bound is bound to nothing that is known."""
    for each in ast.walk(statement):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            before = known.values.pop(each.id, None)
            known.nones.discard(each.id)
            if isinstance(before, Tensor):
                known.values[each.id] = Tensor(shape=None, dtype="")


def _assign(statement: ast.Assign, known: _Known) -> None:
    for target in statement.targets:
        if isinstance(target, ast.Tuple | ast.List):
            shape: Sequence[Value] | None = _shape_of(statement.value, known)
            inner = _inner(statement.value, known)
            if inner is not None:
                shape = [each.tensor for each in inner]
            names = [each.id if isinstance(each, ast.Name) else "" for each in target.elts]
            fits = shape if shape is not None and len(shape) == len(names) else None
            for number, name in enumerate(names):
                known.values[name] = fits[number] if fits is not None else None
                known.nones.discard(name)
        elif isinstance(target, ast.Name):
            value = _value(statement.value, known)
            is_none = isinstance(statement.value, ast.Constant) and statement.value.value is None
            (known.nones.add if is_none else known.nones.discard)(target.id)
            known.values[target.id] = value


def _shape_of(node: ast.expr, known: _Known) -> tuple[Size, ...] | None:
    """The shape that an expression such as ``x.shape`` or ``(m, n)`` is."""
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        base = _value(node.value, known)
        return base.shape if isinstance(base, Tensor) else None
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_size(each, known) for each in node.elts)
    return None


def _size(node: ast.expr, known: _Known) -> Size:
    found = _value(node, known)
    return None if isinstance(found, Tensor) else found


def _value(node: ast.expr, known: _Known) -> Value:
    match node:
        case ast.Name():
            return known.values.get(node.id)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Subscript(slice=ast.Constant(value=int(index))):
            shape = _shape_of(node.value, known)
            in_range = shape is not None and -len(shape) <= index < len(shape)
            return shape[index] if shape is not None and in_range else None
        case ast.Call():
            return _called(node, known)
    return None


def _called(node: ast.Call, known: _Known) -> Value:
    name = ast.unparse(node.func)
    if isinstance(node.func, ast.Name):
        inner = _inner(node, known)
        return inner[0].tensor if inner is not None and len(inner) == 1 else None
    dtype = next((_dtype(each.value) for each in node.keywords if each.arg == "dtype"), None)
    # What the gate's language refuses (torch.zeros and the like) is followed all the same: the
    # draft is right about the shapes, and the check says what to write instead.
    if name in ("torch.empty_like", "torch.zeros_like", "torch.ones_like") and node.args:
        like = _value(node.args[0], known)
        if isinstance(like, Tensor):
            return Tensor(shape=like.shape, dtype=dtype or like.dtype)
    if name in ("torch.empty", "torch.zeros", "torch.ones") and node.args:
        return Tensor(shape=_allocated(node, known), dtype=dtype or "float32")
    if isinstance(node.func, ast.Attribute):
        base = _value(node.func.value, known)
        if not isinstance(base, Tensor):
            return None
        if node.func.attr in ("new_empty", "new_zeros", "new_ones"):
            return Tensor(shape=_allocated(node, known), dtype=dtype or base.dtype)
        if node.func.attr == "contiguous":
            return base
        if node.func.attr == "size" and len(node.args) == 1 and base.shape is not None:
            axis = _size(node.args[0], known)
            if isinstance(axis, int) and -len(base.shape) <= axis < len(base.shape):
                return base.shape[axis]
    return None


def _allocated(node: ast.Call, known: _Known) -> tuple[Size, ...] | None:
    """The shape that an allocation is given, as one tuple or as sizes."""
    if len(node.args) == 1:
        shape = _shape_of(node.args[0], known)
        return (_size(node.args[0], known),) if shape is None else shape
    return tuple(_size(each, known) for each in node.args)


def _dtype(node: ast.expr) -> str:
    """``torch.float32`` as a task says it; ``x.dtype`` is the case's own."""
    text = ast.unparse(node)
    return text.removeprefix("torch.") if text.startswith("torch.") else "T"
