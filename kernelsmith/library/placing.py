"""Puts a library's files in place, so that a crash leaves the old library whole.

A new library is written beside its place and moved there. In an existing one only what the
library owns is touched: everything is written into a folder of its own first; new epochs are moved
in, which nobody reads until the index names them; an epoch whose files changed is exchanged as a
whole; the index comes last. What else lies in the folder stays as it is.

Only the dispatch's modules are replaced one after another: a crash between them, on the day that
another version of kernelsmith exports, leaves a mixture that the next export mends and ``verify``
names.
"""

import ctypes
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from kernelsmith.durable import sync_folder
from kernelsmith.errors import InputError, StorageError
from kernelsmith.library import layout
from kernelsmith.library.layout import Library

STAGING = ".kernelsmith-export-"
_AT_FDCWD = -100
_EXCHANGE = 2
TAKEN = frozenset({*sys.stdlib_module_names, "kernelsmith", "numpy", "torch", "triton"})
"""Modules that a library's own imports, and most programs, mean something else by."""

Files = Mapping[PurePosixPath, bytes]


def require_place(folder: Path) -> None:
    """Refuses a place that is something else.

    Raises:
        InputError: a file, a folder of other things, its parent is missing, or the package would
            be named like another module.
    """
    package = layout.package_name(folder)
    if package in TAKEN:
        raise InputError(
            f"the library would be the package {package!r}, which is another module",
            hint=f"name the folder otherwise: {folder.with_name(package + '_kernels')}",
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file", hint="name a folder")
    if not folder.parent.is_dir():
        raise InputError(f"{folder.parent} is no folder", hint="make it first")
    if folder.is_dir() and not layout.is_library(folder):
        others = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
        if others:
            raise InputError(
                f"{folder} exists and is no library: it holds {others[0]}",
                hint="name a new or an empty folder, or a library made before",
            )


def place(folder: Path, build: Callable[[Library | None], Files]) -> None:
    """Writes the library's files.

    Args:
        build: the files, of the index that is there once nobody else writes: the new index and
            whole epoch folders.

    Raises:
        InputError: another command is writing there, or the place is something else.
        StorageError: it cannot be written; what the index named before is as it was.
    """
    with alone(folder.parent):
        require_place(folder)
        try:
            _place(folder, build(layout.read(folder) if layout.is_library(folder) else None))
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            raise StorageError(
                f"cannot write the library {folder}:{where} {error.strerror or error}",
                hint="give yourself room and write access, and export again; what the library "
                "used before is as it was",
            ) from error


def _place(folder: Path, files: Files) -> None:
    is_new = not folder.exists() or not any(folder.iterdir())
    beside = folder.parent if is_new else folder
    for left in beside.glob(f"{STAGING}*"):  # of an export that was killed
        shutil.rmtree(left)
    staged = Path(tempfile.mkdtemp(prefix=STAGING, dir=beside))
    try:
        staged.chmod(0o755)
        _write(staged, files)
        if is_new:
            staged.rename(folder)
        else:
            _move_in(staged, folder, files)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    sync_folder(folder)
    sync_folder(folder.parent)


def _write(staged: Path, files: Files) -> None:
    for name, data in sorted(files.items()):
        path = staged / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _move_in(staged: Path, folder: Path, files: Files) -> None:
    epochs = sorted({name.parent for name in files if len(name.parts) == 3})
    for epoch in epochs:
        there = folder / epoch
        there.parent.mkdir(exist_ok=True)
        if not there.exists():
            (staged / epoch).rename(there)
        elif not _same(staged / epoch, there):
            _exchange(staged / epoch, there)
        sync_folder(there.parent)
    single = [name for name in files if len(name.parts) < 3]
    for name in sorted(single, key=lambda name: (str(name) == layout.INDEX, name)):
        (folder / name).parent.mkdir(exist_ok=True)
        (staged / name).replace(folder / name)


def _same(new: Path, old: Path) -> bool:
    """Whether a folder holds these files already, byte for byte."""
    return all(
        (old / each.name).is_file() and (old / each.name).read_bytes() == each.read_bytes()
        for each in new.iterdir()
    )


def _exchange(new: Path, old: Path) -> None:
    """Swaps two folders in one step; where the file system cannot, in two."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = (os.fsencode(new), os.fsencode(old))
    if libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _EXCHANGE) == 0:
        return
    aside = new.with_name(f"{new.name}.old")
    old.rename(aside)
    new.rename(old)


@contextmanager
def alone(parent: Path) -> Iterator[None]:
    """Holds a lock on the folder that the library lies in: of all that write its index, one.

    Raises:
        InputError: another command holds it.
    """
    descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another export or rollback is writing into {parent}",
                hint="wait until it is done",
            ) from None
        yield
    finally:
        os.close(descriptor)
