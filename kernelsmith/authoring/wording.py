"""What is wrong with the form of a task file, in its own words: calls and outputs by name."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernelsmith import catalog
from kernelsmith.catalog import Finding
from kernelsmith.catalog_schema import TaskFile
from kernelsmith.errors import TaskError

_HINTS = {
    "class": 'class = "row" where a token\'s value hangs on that token alone, "batch" for a sum '
    "over tokens",
    "shape": 'shape = ["M", "N"]: dimensions in capitals, or sizes',
    "dtype": 'dtype = "T" for the case\'s dtype, or a name such as "float32"',
    "path": 'path = "train" or "infer"',
    "variant": 'variant = "plain"; forms of one variant must agree bit for bit',
    "entry": "entry names a function of the seed",
    "args": "args lists the entry's parameters in order",
    "outputs": 'outputs = [{ name = "y", class = "row", shape = ["M", "N"], dtype = "T" }]',
    "regimes": 'regimes = ["normal"]; others show orders and roundings: "cancel", "ties"',
    "cases": "a [[devices.cpu.cases]] block lists calls, dtypes, dims and regimes",
    "dims": "dims = { M = 16, N = 1024 }: every dimension its calls name",
    "token_range": "token_range = [0, 300]: fewest and most tokens of a call",
    "token_dim": 'token_dim = "M": the dimension that counts tokens',
    "devices": "[devices.cpu] and its [[devices.cpu.cases]]",
    "calls": "[[calls]] says how an entry is called",
    "seed": "seed names the Triton file beside the task",
}
_LISTS = {"calls": "call", "args": "argument", "outputs": "output"}


def problems_of(path: Path) -> list[Finding]:
    """Every problem of the file's form; empty when it has the form of a task."""
    try:
        raw = tomllib.loads(catalog.read_text(path, "task file"))
    except tomllib.TOMLDecodeError as error:
        return [
            Finding(
                level="error",
                message=f"{path} is not TOML: {error}",
                hint="`kernelsmith tasks new` writes a task to start from",
            )
        ]
    except TaskError as error:
        return [Finding(level="error", message=error.message, hint=error.hint or "")]
    return problems(raw)


def problems(raw: Mapping[str, Any]) -> list[Finding]:
    """Every problem of a task's form, from its parsed text."""
    try:
        TaskFile.model_validate(raw)
    except ValidationError as error:
        return [_worded(one, raw) for one in error.errors()]
    return []


def _worded(error: Any, raw: Mapping[str, Any]) -> Finding:
    place, key = _place(error["loc"], raw)
    hint = _HINTS.get(key, "see the comments that `kernelsmith tasks new` writes")
    match error["type"]:
        case "missing":
            words = f"{place} does not say its {key}"
        case "extra_forbidden":
            words = f"{place} has the key {key!r}, which means nothing here"
            hint = "take it out, or mend its spelling"
        case "literal_error":
            words = f"{place} has {key} = {error['input']!r}"
            hint = f"{key} is one of {error['ctx']['expected']}"
        case _:
            words = f"{place}: {key}: {error['msg'].lower()}"
    return Finding(level="error", message=words, hint=hint)


def _place(loc: Sequence[str | int], raw: Any) -> tuple[str, str]:
    """("call train, output y", "class") of a place that pydantic names by numbers."""
    words: list[str] = []
    value: Any = raw
    parts = list(loc)
    key = str(parts.pop()) if parts else "the file"
    while parts:
        part = parts.pop(0)
        value = value.get(part) if isinstance(value, dict) else None
        if part == "devices" and parts:
            words.append(f"device {parts[0]}")
            value = (value or {}).get(parts.pop(0))
        elif isinstance(value, list) and parts and isinstance(parts[0], int):
            number = int(parts.pop(0))
            value = value[number] if number < len(value) else None
            name = value.get("name") if isinstance(value, dict) else None
            if part == "cases":
                words.append(f"block {number + 1} of cases")
            elif part in _LISTS:
                words.append(f"{_LISTS[str(part)]} {name or number + 1}")
            else:
                words.append(f"{part}, element {number + 1}")
        elif isinstance(part, str):
            words.append(part)
    return ", ".join(words) or "the task", key
