"""What Python would import from a library in place of the modules that were compared.

Of one name in one folder Python takes a package first, then an extension, then the source, and of
that the byte code in ``__pycache__`` if its time stamp fits, or if it says that none is asked for.
"""

import re
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from kernelsmith.library import bytecode, contents, layout
from kernelsmith.library.findings import Drift
from kernelsmith.library.layout import Library

CACHE = "__pycache__"
_COMPILED = re.compile(r"^(\w+)\.[\w-]+?(?:\.opt-(\d))?\.pyc$")


def shadow_drifts(folder: Path, library: Library) -> Iterator[Drift]:
    """Everything in the library's folders that would run in place of one of its modules."""
    for place, names, packages in _modules(folder, library):
        if not place.is_dir():
            continue
        for entry in sorted(place.iterdir()):
            stem = entry.name.partition(".")[0]
            suffixes = (*EXTENSION_SUFFIXES, ".so", ".pyd", ".pyc")
            is_package = entry.is_dir() and entry.name in names
            if is_package or (stem in names | packages and entry.name.endswith(suffixes)):
                yield _drift(folder, entry, "Python would import it in place of a checked module")
        cache = place / CACHE
        for entry in sorted(cache.iterdir()) if cache.is_dir() else ():
            found = _COMPILED.match(entry.name)
            if found and found[1] in names and not _is_of(entry, place / f"{found[1]}.py", found):
                yield _drift(folder, entry, "byte code that is not of the source beside it")


def _modules(folder: Path, library: Library) -> Iterator[tuple[Path, set[str], set[str]]]:
    """Each folder, its modules and its packages."""
    carried = {place.stem for place in contents.carried()}
    yield folder, {"__init__", *carried}, set(library.ops)
    for op, entry in library.ops.items():
        yield folder / op, {"__init__"}, set(entry.epochs)
        own = {Path(name).stem for name in layout.FILES}
        for epoch in entry.epochs:
            yield layout.epoch_folder(folder, op, epoch), {"__init__", *own}, set()


def _is_of(compiled: Path, source: Path, found: "re.Match[str]") -> bool:
    data, text = layout.content(compiled), layout.content(source)
    return data is not None and text is not None and bytecode.is_of(data, text, int(found[2] or 0))


def _drift(folder: Path, entry: Path, why: str) -> Drift:
    shown = entry.relative_to(folder).as_posix()
    return Drift(
        kind="shadowed",
        expected="nothing",
        actual=shown,
        message=f"{shown}: {why}: delete it",
        file=shown,
    )
