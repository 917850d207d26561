"""The files of a library as bytes: equal facts, equal bytes."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from kernelsmith.library import layout

CARRIED = (
    "_runtime.py",
    "_launching.py",
    "_loading.py",
    "_here.py",
    "_forms.py",
    "_gradients.py",
    "_pinned.py",
)
PACKAGE_INIT = '''"""Kernels that keep every bit of their seeds. Made by kernelsmith: do not edit.

``from {package} import OP``; an op has the entries of its seed, ``counters()``,
``reset_counters()`` and its ``certificate``; where gradients are wired, also ``differentiable``
and ``Function``. ``kernelsmith verify`` on this folder checks it again, anywhere.
"""

import importlib as _importlib
import json as _json
from pathlib import Path as _Path

__all__ = sorted(_json.loads((_Path(__file__).parent / "library.json").read_text())["ops"])


def __getattr__(name):
    if name in __all__:
        return _importlib.import_module(f"{{__name__}}.{{name}}")
    raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")


def __dir__():
    return sorted([*globals(), *__all__])
'''
OP_INIT = '''"""An op of the library, in the epoch that ``library.json`` names. Made by kernelsmith.

Entries run the winner where it was certified and the seed everywhere else, with the same bits;
``counters()`` says which, and why the seed.
"""

from .._runtime import install

install(globals())
del install
'''
EPOCH_INIT = (
    '"""One epoch of an op: the winner, its seed, what was certified. Made by kernelsmith."""\n'
)
PROJECT_MARK = "# Made by kernelsmith: installs this folder as a package.\n"
PROJECT = """{mark}
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{distribution}"
version = "0.0.0+k{version}"
description = "Kernels that keep every bit of their seeds"
requires-python = ">=3.11"
dependencies = ["torch", "triton"]

[tool.setuptools]
packages = [{packages}]

[tool.setuptools.package-dir]
{package} = "."

[tool.setuptools.package-data]
"*" = ["*.json"]
"""


def carried() -> dict[PurePosixPath, bytes]:
    """The modules that every library has, as this version of kernelsmith ships them."""
    folder = Path(__file__).parent / "package"
    return {PurePosixPath(name): (folder / name).read_bytes() for name in CARRIED}


def lang() -> bytes:
    """The vetted functions, as installed."""
    return (Path(__file__).parent.parent / layout.LANG).read_bytes()


def op_files(op: str, epoch: str, files: Mapping[str, bytes]) -> dict[PurePosixPath, bytes]:
    """An op's own file and those of one epoch, by their place in the library."""
    folder = PurePosixPath(op) / epoch
    return {
        PurePosixPath(op) / "__init__.py": OP_INIT.encode(),
        folder / "__init__.py": EPOCH_INIT.encode(),
        **{folder / name: data for name, data in files.items()},
    }


def library_files(
    folder: Path,
    before: layout.Library | None,
    ops: Mapping[str, Mapping[str, bytes]],
    epochs: Mapping[str, str],
) -> dict[PurePosixPath, bytes]:
    """All files to write.

    Args:
        folder: the library's place; it names the package.
        before: the index that is there; its ops and epochs stay.
        ops: files of the epoch that each op gets.
        epochs: that epoch's folder name.
    """
    entries = dict(before.ops) if before else {}
    files = carried()
    for op, own in ops.items():
        known = entries[op].epochs if op in entries else ()
        name = epochs[op]
        entries[op] = layout.OpEntry(
            current=name, epochs=known if name in known else (*known, name)
        )
        files.update(op_files(op, name, own))
    index = layout.Library(ops=entries)
    package = layout.package_name(folder)
    files[PurePosixPath("__init__.py")] = PACKAGE_INIT.format(package=package).encode()
    files[PurePosixPath(layout.INDEX)] = layout.index_text(index).encode()
    project = folder / "pyproject.toml"
    if not project.exists() or project.read_text(errors="replace").startswith(PROJECT_MARK):
        files[PurePosixPath(project.name)] = _project(package, index, files)
    return files


def _project(package: str, index: layout.Library, files: Mapping[PurePosixPath, bytes]) -> bytes:
    packages = [package]
    for op, entry in sorted(index.ops.items()):
        packages += [f"{package}.{op}", *(f"{package}.{op}.{each}" for each in entry.epochs)]
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    return PROJECT.format(
        mark=PROJECT_MARK,
        distribution=package.strip("_").replace("_", "-") or "kernels",
        version=digest.hexdigest()[:12],
        packages=", ".join(f'"{each}"' for each in packages),
        package=package,
    ).encode()
