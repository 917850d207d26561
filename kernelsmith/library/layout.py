"""Where each file of a library lies, and the index that says which epoch of an op is used.

::

    DIR/__init__.py              the ops, loaded when first used
    DIR/_runtime.py              dispatch, the same in every library; needs torch and triton
    DIR/_*.py                    parts of the dispatch
    DIR/library.json             :class:`Library`: the current epoch of each op
    DIR/pyproject.toml           installs the folder under :func:`package_name`
    DIR/OP/__init__.py           the op's entries, dispatched to its current epoch
    DIR/OP/EPOCH/kernel.py       the winner, its imports made relative (``sources``)
    DIR/OP/EPOCH/seed.py         its seed, likewise
    DIR/OP/EPOCH/lang.py         the vetted functions that both were judged with: an epoch holds
                                 all that its bits hang on, so that rolling back brings it back
    DIR/OP/EPOCH/launch.py       what was certified, read by the dispatch
    DIR/OP/EPOCH/certificate.json
    DIR/OP/EPOCH/__init__.py

EPOCH is "e" and the 16 hex digits of the numerics epoch: a name that Python can import.
"""

import json
import keyword
import re
import stat
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelsmith.errors import InputError

SCHEMA: Literal["kernelsmith.library/1"] = "kernelsmith.library/1"
INDEX = "library.json"
CERTIFICATE = "certificate.json"
KERNEL, SEED, LANG, LAUNCH = "kernel.py", "seed.py", "lang.py", "launch.py"
FILES = (KERNEL, LANG, LAUNCH, SEED)
"""What a certificate has the hashes of: these, and no others."""
MOST_BYTES = 64 << 20
EPOCH_NAME = re.compile(r"^e[0-9a-f]{16}$")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OpEntry(_Strict):
    """An op: the folder name of the epoch that is used, and of all that are there, oldest first."""

    current: str
    epochs: tuple[str, ...]


class Library(_Strict):
    """``library.json``."""

    schema_name: Literal["kernelsmith.library/1"] = Field(default=SCHEMA, alias="schema")
    ops: dict[str, OpEntry] = {}


def epoch_name(epoch: str) -> str:
    """The folder name of an epoch id."""
    return f"e{epoch}"


def epoch_folder(library: Path, op: str, name: str) -> Path:
    """Where an epoch of an op lies; ``name`` as :func:`epoch_name` gives it."""
    return library / op / name


def certificate_path(library: Path, op: str, name: str) -> Path:
    """The certificate of an epoch of an op."""
    return epoch_folder(library, op, name) / CERTIFICATE


def package_name(library: Path) -> str:
    """The name the folder is imported under: its own, made a Python identifier."""
    name = re.sub(r"\W", "_", library.resolve().name, flags=re.ASCII) or "kernels"
    return f"_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name


def is_op_name(name: str) -> bool:
    """Whether an op of this name can be imported from a library, and hides none of its files."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def require_op_name(name: str) -> None:
    """Refuses an op that could not be imported.

    Raises:
        InputError: its name is no identifier, a keyword, or begins with "_".
    """
    if not is_op_name(name):
        raise InputError(
            f"no op of a library can be named {name!r}: nobody could import it",
            hint="rename the task: a Python identifier that does not begin with _",
        )


def content(path: Path) -> bytes | None:
    """A file's bytes; None where it is missing, no regular file (a pipe is waited for without
    end), larger than any file of a library, or unreadable."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None


def is_library(folder: Path) -> bool:
    """Whether the folder has an index; :func:`read` says whether it can be read."""
    return (folder / INDEX).is_file()


def read(folder: Path) -> Library:
    """The library's index.

    Raises:
        InputError: the folder is no library, or its index is damaged.
    """
    path = folder / INDEX
    if not is_library(folder):
        raise InputError(
            f"{folder} is no library: it has no {INDEX}",
            hint=f"`kernelsmith export --to {folder}` makes one",
        )
    data = content(path)
    if data is None:
        raise InputError(f"cannot read {path}", hint="restore it, or give yourself read access")
    try:
        found = Library.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(
            f"{path} is damaged: {where}: {first['msg'].lower()}",
            hint="restore it from version control, or export again",
        ) from error
    for op, entry in found.ops.items():
        if not is_op_name(op) or not all(map(EPOCH_NAME.match, entry.epochs)):
            raise InputError(f"{path} is damaged: {op!r} is no op, or has a name that is no epoch")
        if entry.current not in entry.epochs:
            raise InputError(f"{path} is damaged: {op} uses {entry.current}, which it has not")
    return found


def index_text(library: Library) -> str:
    """The text of ``library.json``."""
    return document(library.model_dump(mode="json", by_alias=True))


def document(value: Any) -> str:
    """One JSON text for equal values, for people and version control to read."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"
