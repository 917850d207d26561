"""What goes into an image that needs nothing of the machine it runs on: a worker's packages as they
are installed here, so that both sides have the same versions and make the same bits."""

import hashlib
import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import IO

from kernelsmith.errors import MissingError

ROOTS = ("torch", "triton", "numpy", "llvmlite", "pydantic")
OWN = "kernelsmith-rl"
PACKAGE = Path(__file__).resolve().parent.parent
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# The triton plugin is found by it; of an editable install the rest points at the checkout.
OWN_METADATA = ("METADATA", "entry_points.txt")


def python_version() -> str:
    """Which Python the packages are for."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def dockerfile() -> bytes:
    """The Dockerfile, of a checkout or of an installed package.

    Raises:
        MissingError: neither has one.
    """
    for folder in (PACKAGE.parent / "docker", PACKAGE / "_builtin" / "docker"):
        if (folder / "Dockerfile").is_file():
            return (folder / "Dockerfile").read_bytes()
    raise MissingError("kernelsmith's Dockerfile is missing", hint="install kernelsmith again")


@cache
def contents() -> str:
    """A hash of the package's source, of the versions of all it needs, and of the Python."""
    said = hashlib.sha256(python_version().encode())
    said.update(json.dumps(versions(), sort_keys=True).encode())
    for path in _own_files():
        said.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return said.hexdigest()


def versions() -> dict[str, str]:
    """The packages that a worker needs, with all that those need, as installed here."""
    found: dict[str, str] = {}
    waiting = list(ROOTS)
    while waiting:
        name = _plain(waiting.pop())
        if name in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another system, or optional
        found[name] = distribution.version
        for line in distribution.requires or ():
            named = NAME.match(line)
            if named and "extra ==" not in line:
                waiting.append(named.group())
    return found


def write_context(out: IO[bytes], kind: str) -> None:
    """Writes a build context: the Dockerfile and, for "installed", ``packages/`` and, apart as it
    changes more often, ``own/``.

    Raises:
        MissingError: a package of this machine is not there as files.
        OSError: nobody reads any more.
    """
    with tarfile.open(fileobj=out, mode="w|") as tar:
        text = dockerfile()
        described = tarfile.TarInfo("Dockerfile")
        described.size = len(text)
        tar.addfile(described, io.BytesIO(text))
        if kind == "installed":
            for path, name in (*_needed(), *_own()):
                tar.add(path, name, recursive=False, filter=_anybodys)


def _needed() -> Iterator[tuple[Path, str]]:
    for name in versions():
        distribution = metadata.distribution(name)
        if not distribution.files:
            raise MissingError(
                f"{name} does not say which files are its own",
                hint="install it with pip, or use --mount-python",
            )
        for file in distribution.files:
            path = Path(str(distribution.locate_file(file)))
            if file.parts[0] != ".." and path.is_file():  # programs lie outside
                yield path, f"packages/{file.as_posix()}"


def _own() -> Iterator[tuple[Path, str]]:
    for path in _own_files():
        yield path, f"own/{PACKAGE.name}/{path.relative_to(PACKAGE).as_posix()}"
    own = metadata.distribution(OWN)
    folder = f"{OWN.replace('-', '_')}-{own.version}.dist-info"
    for file in own.files or ():
        if file.name in OWN_METADATA and file.parts[0].endswith(".dist-info"):
            yield Path(str(own.locate_file(file))), f"own/{folder}/{file.name}"


def _own_files() -> list[Path]:
    """Python and data of the package, without what was compiled and the built-in tasks: a worker is
    told all that it needs of them."""
    return sorted(
        path
        for path in PACKAGE.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.relative_to(PACKAGE).parts[0] != "_builtin"
    )


def _anybodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Owned by root and readable by all, whatever this user's mask is."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
