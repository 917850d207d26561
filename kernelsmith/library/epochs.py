"""The epochs of a library: which there are, which is used, and going back to an earlier one."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.errors import InputError, StorageError
from kernelsmith.library import certificate as certificates
from kernelsmith.library import files, layout, placing
from kernelsmith.library.certificate import Certificate
from kernelsmith.library.layout import Library, OpEntry

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochListing:
    """An epoch of an op. ``problem``: why its certificate cannot be read, "" if it can."""

    op: str
    name: str
    current: bool
    certificate: Certificate | None
    problem: str


def epochs(folder: Path) -> list[EpochListing]:
    """Every epoch of every op, oldest first.

    Raises:
        InputError: the folder is no library.
    """
    found = []
    for op, entry in sorted(layout.read(folder).ops.items()):
        for name in entry.epochs:
            certificate, problem = None, ""
            try:
                certificate = certificates.read(layout.certificate_path(folder, op, name))
            except InputError as error:
                problem = error.message
            found.append(
                EpochListing(
                    op=op,
                    name=name,
                    current=name == entry.current,
                    certificate=certificate,
                    problem=problem,
                )
            )
    return found


def chosen(folder: Path, library: Library, epoch: str | None) -> list[tuple[str, str]]:
    """(op, epoch's folder name) that a name means: "all", an epoch as :func:`rollback` takes it,
    None: the one that is used, of each op.

    Raises:
        InputError: no such epoch, or several.
    """
    ops = sorted(library.ops.items())
    if epoch is None:
        return [(op, entry.current) for op, entry in ops]
    if epoch == ALL:
        return [(op, name) for op, entry in ops for name in entry.epochs]
    name = _only(folder, library, epoch)
    return [(op, name) for op, entry in ops if name in entry.epochs]


def rollback(folder: Path, epoch: str) -> tuple[str, dict[str, str]]:
    """Makes an epoch the one that is used, of every op that has it; at once or not at all.

    Args:
        epoch: its id or folder name, or a beginning that only one epoch has.

    Returns:
        The epoch's folder name, and the ops that were switched with the epoch that each used.

    Raises:
        InputError: no library, no such epoch or several, its files are not whole, or another
            command is writing.
        StorageError: the index cannot be written.
    """
    layout.read(folder)  # no library: nothing to lock
    folder = folder.resolve()
    with placing.alone(folder.parent):
        library = layout.read(folder)
        name = _only(folder, library, epoch)
        switched = {}
        ops = dict(library.ops)
        for op, entry in library.ops.items():
            if name in entry.epochs:
                _require_whole(folder, op, name)
                if entry.current != name:
                    switched[op] = entry.current
                    ops[op] = OpEntry(current=name, epochs=entry.epochs)
        if switched:
            _replace(folder / layout.INDEX, layout.index_text(Library(ops=ops)))
        return name, switched


def _only(folder: Path, library: Library, epoch: str) -> str:
    names = sorted({name for entry in library.ops.values() for name in entry.epochs})
    wanted = epoch.strip().lower()
    found = [name for name in names if wanted and name.startswith((wanted, f"e{wanted}"))]
    exact = [name for name in found if wanted in (name, name.removeprefix("e"))]
    found = exact or found
    hint = f"`kernelsmith library list {folder}` shows them"
    if not found:
        raise InputError(f"no epoch {epoch!r} in {folder}", hint=hint)
    if len(found) > 1:
        raise InputError(f"epoch {epoch!r} is ambiguous: {', '.join(found)}", hint=hint)
    return found[0]


def _require_whole(folder: Path, op: str, name: str) -> None:
    """What is switched to must be what was certified."""
    certificate = certificates.read(layout.certificate_path(folder, op, name))
    for drift in files.file_drifts(folder, op, name, certificate):
        raise InputError(
            f"epoch {name} of {op} cannot be used: {drift.message}",
            hint="restore it from version control, or export again",
        )


def _replace(path: Path, text: str) -> None:
    """Writes a file whole: whoever reads it meanwhile sees the old or the new one."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, path.stat().st_mode & 0o777)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}",
            hint="give yourself write access to the folder; nothing was changed",
        ) from error
