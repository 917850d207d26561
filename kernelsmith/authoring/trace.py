"""Reads a histogram of calls: JSON lines of {op or call, shapes or dims, dtype, count}.

    {"op": "forward_infer", "shapes": [[16, 1024], [1024]], "dtype": "bfloat16", "count": 81920}
    {"call": "infer", "dims": {"M": 16, "N": 1024}, "dtype": "torch.bfloat16", "count": 640}

``call`` names a call form of the task; ``op`` an entry, a call form or the task, and ``path``
("train", "infer") says which where both fit. ``shapes``: those of the tensor arguments in order
(null for one that is None), or by name. A line that reads as none of this is bad, and is named.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from kernelsmith.authoring import spelling
from kernelsmith.errors import InputError
from kernelsmith.model import Call, Task

LONGEST_LINE_BYTES = 1 << 16
LARGEST_COUNT = 1 << 53
KEYS = ("op", "call", "path", "shapes", "dims", "dtype", "count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One kind of call and how often it was made."""

    call: str
    dtype: str
    dims: tuple[tuple[str, int], ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that is left out, by its number (from 1), and why."""

    number: int
    why: str


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is too long only as much as shows that it is."""
    while line := file.readline(LONGEST_LINE_BYTES + 2):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE_BYTES)


def read_trace(lines: Iterable[bytes], task: Task) -> tuple[list[Seen], list[BadLine]]:
    """What was seen, line by line, and the lines that do not read. Blank lines are nothing."""
    seen, bad = [], []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            seen.append(_read(line, task))
        except InputError as error:
            bad.append(BadLine(number=number, why=error.message))
    return seen, bad


def _read(line: bytes, task: Task) -> Seen:
    if len(line) > LONGEST_LINE_BYTES:
        raise InputError(f"longer than {LONGEST_LINE_BYTES} bytes")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError("not JSON") from error
    if not isinstance(fields, dict):
        raise InputError("no JSON object")
    unknown = [key for key in fields if key not in KEYS]
    if unknown:
        raise InputError(f"unknown key {unknown[0]!r} (keys: {', '.join(KEYS)})")
    count = fields.get("count")
    if type(count) is not int or not 1 <= count <= LARGEST_COUNT:
        raise InputError(f"count {count!r} is no whole number above 0")
    dtype = fields.get("dtype")
    if not isinstance(dtype, str):
        raise InputError(f"dtype {dtype!r} is no name of one")
    call, dims = _call(fields, task)
    for name in dimensions(call):
        if dims[name] == 0 and name != task.token_dim:
            raise InputError(f"{name} of {call.name} is 0: only {task.token_dim} counts tokens")
    return Seen(
        call=call.name,
        dtype=spelling.float_dtype(dtype),
        dims=tuple((name, dims[name]) for name in dimensions(call)),
        count=count,
    )


def dimensions(call: Call) -> tuple[str, ...]:
    """Every dimension that a call names, in the order its arguments name them."""
    shapes = [arg.shape for arg in call.args] + [output.shape for output in call.outputs]
    named = [dim for shape in shapes for dim in shape if isinstance(dim, str)]
    return tuple(dict.fromkeys([*named, *(arg.dim for arg in call.args if arg.dim is not None)]))


def _call(fields: Mapping[str, Any], task: Task) -> tuple[Call, dict[str, int]]:
    """The call form that a line fits, and the sizes it gives."""
    forms = _named(fields, task)
    if ("shapes" in fields) == ("dims" in fields):
        raise InputError("needs shapes or dims, one of them")
    fits, why = [], ""
    for call in forms:
        try:
            fits.append((call, _dims(fields, call)))
        except InputError as error:
            why = why or error.message
    if not fits:
        raise InputError(why)
    carried = {spec.carry_call for call in task.calls for spec in call.outputs}
    whole = [each for each in fits if each[0].name not in carried] or fits
    if len(whole) > 1:
        names = " and ".join(call.name for call, _ in whole)
        raise InputError(f'fits {names}: say which with "call", or with "path"')
    return whole[0]


def _named(fields: Mapping[str, Any], task: Task) -> list[Call]:
    if ("op" in fields) == ("call" in fields):
        raise InputError("needs op or call, one of them")
    path = fields.get("path")
    name = fields.get("call", fields.get("op"))
    if path not in (None, "train", "infer") or not isinstance(name, str):
        raise InputError(f"path {path!r} or name {name!r} is none")
    last = name.rpartition(".")[2]
    calls = [call for call in task.calls if call.name == name]
    if "op" in fields:
        # An entry may be called as one of its forms is: as an op, the entry is meant.
        calls = [call for call in task.calls if call.entry == last] or calls
        calls = calls or (list(task.calls) if last == task.name else [])
    calls = [call for call in calls if path in (None, call.path)]
    if not calls:
        known = ", ".join(call.name for call in task.calls)
        raise InputError(f"no call {name!r} of {task.name} (calls: {known})")
    return calls


def _dims(fields: Mapping[str, Any], call: Call) -> dict[str, int]:
    found: dict[str, int] = {}
    if "dims" in fields:
        given = fields["dims"]
        if not isinstance(given, dict):
            raise InputError("dims is no object")
        found = {name: _size(size) for name, size in given.items()}
        strange = [name for name in found if name not in dimensions(call)]
        if strange:
            raise InputError(f"{call.name} has no dimension {strange[0]!r}")
    else:
        for name, shape, sizes in _pairs(fields["shapes"], call):
            if len(sizes) != len(shape):
                raise InputError(f"{name} of {call.name} has {len(shape)} dimensions")
            for dim, size in zip(shape, sizes, strict=True):
                known = found.setdefault(dim, size) if isinstance(dim, str) else dim
                if known != size:
                    raise InputError(f"{name} of {call.name}: {dim} is {known} and {size}")
    missing = [name for name in dimensions(call) if name not in found]
    if missing:
        raise InputError(f"nothing gives {missing[0]} of {call.name}")
    return found


def _pairs(given: Any, call: Call) -> list[tuple[str, tuple[str | int, ...], list[int]]]:
    """(argument, declared shape, sizes given) of each tensor argument."""
    tensors = [arg for arg in call.args if arg.kind == "tensor"]
    if isinstance(given, dict):
        given = {name: sizes for name, sizes in given.items() if sizes is not None}
        if set(given) != {arg.name for arg in tensors}:
            raise InputError(f"{call.name} takes {', '.join(arg.name for arg in tensors)}")
        return [(arg.name, arg.shape, _sizes(given[arg.name])) for arg in tensors]
    if not isinstance(given, list):
        raise InputError("shapes is neither a list nor an object")
    places = [arg for arg in call.args if arg.kind in ("tensor", "none")]
    if len(given) == len(places):
        nulls = [arg.kind == "none" for arg in places]
        if [sizes is None for sizes in given] != nulls:
            raise InputError(f"{call.name} has other arguments that are None")
    given = [sizes for sizes in given if sizes is not None]
    if len(given) != len(tensors):
        raise InputError(f"{call.name} takes {len(tensors)} tensors, not {len(given)}")
    return [(arg.name, arg.shape, _sizes(s)) for arg, s in zip(tensors, given, strict=True)]


def _sizes(given: Any) -> list[int]:
    if not isinstance(given, list):
        raise InputError("a shape is no list of sizes")
    return [_size(size) for size in given]


def _size(size: Any) -> int:
    if type(size) is not int or not 0 <= size <= spelling.LARGEST_SIZE:
        raise InputError(f"{size!r} is no size")
    return size
