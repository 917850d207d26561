"""Settings: the only reader of the environment and of ``kernelsmith.toml``.

An option on the command line wins over the environment, which wins over the file in the current
folder. The file may hold ``db``, ``tasks`` (a list of folders), ``device``, ``sandbox``,
``proposer`` and ``time_limit``; any other key is an error.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsmith.errors import InputError

FILE_NAME = "kernelsmith.toml"
DEFAULT_TIME_LIMIT = "8h"
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds unless an option says otherwise."""

    db: Path = Path("runs.db")
    tasks: tuple[Path, ...] = ()
    device: str = "auto"
    sandbox: str = "auto"
    proposer: str = "search"
    time_limit: str = DEFAULT_TIME_LIMIT


def load(folder: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Reads ``kernelsmith.toml`` of ``folder`` (default: here), then ``KERNELSMITH_DB``.

    Raises:
        InputError: the file is not TOML, or holds a key or a type that is not known.
    """
    path = (folder or Path.cwd()) / FILE_NAME
    known = _read(path) if path.is_file() else {}
    db = (os.environ if environment is None else environment).get("KERNELSMITH_DB")
    if db:
        known["db"] = Path(db)
    return Settings(**known)


def wants_traceback() -> bool:
    """Whether ``KERNELSMITH_TRACEBACK`` asks to see where an unforeseen error came from."""
    return bool(os.environ.get("KERNELSMITH_TRACEBACK"))


def seconds(text: str) -> float:
    """A duration in seconds: ``90``, ``90s``, ``5m``, ``8h``, ``1h30m``.

    Raises:
        InputError: anything else, or nothing positive.
    """
    word = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", word):
        total = float(word)
    elif re.fullmatch(r"(\d+(\.\d+)?[smhd])+", word):
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", word)
        total = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    else:
        raise InputError(f"{text!r} is not a duration", hint="write 90s, 5m, 8h or 1h30m")
    if total <= 0:
        raise InputError(f"{text!r} leaves no time", hint="write 90s, 5m, 8h or 1h30m")
    return total


def _read(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: {error}", hint="mend the file or remove it") from error
    kinds: dict[str, type] = {"tasks": list}
    names = Settings.__dataclass_fields__
    for key, value in found.items():
        if key not in names:
            hint = f"known keys: {', '.join(names)}"
            raise InputError(f"{path}: unknown key {key!r}", hint=hint)
        if not isinstance(value, kinds.get(key, str)):
            raise InputError(f"{path}: {key} = {value!r} has the wrong type")
    if "db" in found:
        found["db"] = path.parent / found["db"]
    if "tasks" in found:
        found["tasks"] = tuple(path.parent / str(folder) for folder in found["tasks"])
    return found
