"""What a draft proposes where nobody said: from names, defaults and the code, each with its why."""

import ast
import re

from kernelsmith.authoring.facts import DIMENSION, Entry, Parameter
from kernelsmith.authoring.spelling import shown

_ROWS = re.compile(r"m|(n_|num_)?(rows|tokens|batch)")
_COLUMNS = re.compile(r"n|(n_|num_)?(cols|columns|hidden)|width")
_LETTERS = ("M", "N", "K", "L")
_WEIGHTS = re.compile(r"(weight|gamma|beta|bias|scale|gain|w|b)$")
_EPSILON = re.compile(r"eps(ilon)?$")


def paths(entry: Entry) -> tuple[str, str]:
    """(proposal, why) of an entry's paths."""
    name = entry.name
    if re.search(r"infer|decode|prefill|serv|generat", name):
        return "infer", "its name"
    if re.search(r"train|backward|bwd|grad", name):
        return "train", "its name"
    return "train,infer", "no path in its name: shared by both"


def argument(entry: Entry, parameter: Parameter) -> tuple[str, str]:
    """(proposal, why) of an argument; why is "" for a guess."""
    mark = "?" if parameter.optional else ""
    if parameter.said is not None:
        said = parameter.said
        return shown(said.shape, said.dtype) + mark, said.source
    if not parameter.tensor:
        if parameter.default is not None:
            return str(parameter.default), "its default"
        if _EPSILON.search(parameter.name):
            return "1e-6", "its name"
        return "1.0", ""
    dims = _by_code(entry.function, parameter)
    if dims is not None:
        return shown(dims, "T") + mark, "sizes that its code reads"
    guess: tuple[str | int, ...] = ("N",) if _WEIGHTS.search(parameter.name) else ("M", "N")
    return shown(guess, "T") + mark, ""


def _by_code(function: ast.FunctionDef, parameter: Parameter) -> tuple[str | int, ...] | None:
    """The shape as host code takes it apart: ``m, n = x.shape``, ``n_cols = x.shape[1]``."""
    names: dict[int, str] = {}
    rank = None
    for each in ast.walk(function):
        if not isinstance(each, ast.Assign) or len(each.targets) != 1:
            continue
        target, text = each.targets[0], ast.unparse(each.value)
        if text == f"{parameter.name}.shape" and isinstance(target, ast.Tuple):
            rank = len(target.elts)
            names.update({axis: ast.unparse(part) for axis, part in enumerate(target.elts)})
        match = re.fullmatch(rf"{re.escape(parameter.name)}\.(?:shape\[(\d)\]|size\((\d)\))", text)
        if match and isinstance(target, ast.Name):
            names[int(match.group(1) or match.group(2))] = target.id
    if rank is None:
        axes = parameter.axes
        if not axes or min(axes) < 0 or max(axes) < 1:
            return None  # of one axis read, nothing says that it is the only one
        rank = max(axes) + 1
    found = tuple(dimension(names.get(axis, ""), axis) for axis in range(rank))
    return found if len(set(found)) == rank else tuple(_LETTERS[:rank])


def dimension(name: str, axis: int) -> str:
    """How a task calls a size that the code calls so."""
    if _ROWS.fullmatch(name.lower()):
        return "M"
    if _COLUMNS.fullmatch(name.lower()):
        return "N"
    upper = name.upper().strip("_")
    return upper if DIMENSION.fullmatch(upper) else _LETTERS[axis]


def recipe(shape: tuple[str | int, ...], dtype: str, name: str, token_dim: str) -> str:
    """The input recipe of a tensor, from its role in the call."""
    if dtype.startswith(("int", "uint", "bool")):
        return "zeros"  # in range whatever they index; the check says that they tell nothing
    if token_dim in shape:
        return "token"
    if re.search(r"bias|offset|beta|shift", name):
        return "offset"
    return "matrix" if len(shape) == 2 else "vector"


def output_class(shape: tuple[str | int, ...], token_dim: str) -> tuple[str, str]:
    """(class, why) of an output."""
    if shape and shape[0] == token_dim:
        return "row", f"{token_dim} is its first dimension: one row a token"
    return "batch", f"no {token_dim} in its shape: a sum over tokens"
