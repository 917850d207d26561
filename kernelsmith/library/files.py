"""Is a library's epoch on disk what its certificate says, and is this the epoch of here?"""

import ast
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from kernelsmith.gate.epoch import LANG, epoch_of
from kernelsmith.library import contents, launch, layout
from kernelsmith.library.certificate import Certificate
from kernelsmith.library.findings import Drift
from kernelsmith.library.layout import Library
from kernelsmith.model import Task, candidate_id

MISSING = "missing"
NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What parsing a text can raise: it may be anybody's."""


def file_drifts(folder: Path, op: str, name: str, certificate: Certificate) -> Iterator[Drift]:
    """Files that are not, byte for byte, what the certificate is about.

    Args:
        folder: the library.
        name: the epoch's folder name.
    """
    place = layout.epoch_folder(folder, op, name)
    if set(certificate.files) != set(layout.FILES):
        yield Drift(
            kind="certificate_altered",
            expected=", ".join(layout.FILES),
            actual=", ".join(sorted(certificate.files)),
            message="the certificate was altered: it has no hash of one of the epoch's files, or "
            "one of another",
            file=(place / layout.CERTIFICATE).relative_to(folder).as_posix(),
        )
    for file in layout.FILES:
        digest = certificate.files.get(file, "none")
        path = place / file
        shown = path.relative_to(folder).as_posix()
        data = layout.content(path)
        if data is None:
            yield Drift(
                kind="seed_missing" if file == layout.SEED else "file_missing",
                expected=digest,
                actual=MISSING,
                message=f"{shown} is missing",
                file=shown,
            )
            continue
        actual = hashlib.sha256(data).hexdigest()
        if actual != digest:
            yield Drift(
                kind="file_changed",
                expected=digest,
                actual=actual,
                message=f"{shown} was changed after it was certified",
                file=shown,
            )
    if certificate.op != op or layout.epoch_name(certificate.epoch) != name:
        yield Drift(
            kind="certificate_of_another",
            expected=f"{op}/{name}",
            actual=f"{certificate.op}/{layout.epoch_name(certificate.epoch)}",
            message=f"the certificate is of {certificate.op} in epoch {certificate.epoch}",
            file=layout.certificate_path(folder, op, name).relative_to(folder).as_posix(),
        )


def record_drift(folder: Path, op: str, name: str, recorded: Collection[str]) -> Drift | None:
    """Whether no export on record wrote this certificate. Whatever else a folder holds can be made
    to agree with itself by whoever writes to it; this cannot.

    Args:
        recorded: SHA-256 of every certificate that the lineage knows.
    """
    path = layout.certificate_path(folder, op, name)
    actual = hashlib.sha256(layout.content(path) or b"").hexdigest()
    if actual in recorded:
        return None
    return Drift(
        kind="not_recorded",
        expected="a certificate on record",
        actual=actual,
        message=f"no export on record wrote this certificate of {op} in {name}",
        file=path.relative_to(folder).as_posix(),
    )


def own_facts_drift(
    folder: Path,
    op: str,
    name: str,
    certificate: Certificate,
    task: Task,
    judged: Mapping[str, str],
) -> Drift | None:
    """Whether the certificate contradicts itself: its epoch is the hash of facts it names, its
    candidate that of the source whose file hash it gives, and ``launch.py`` allows what its plan
    classes and its task give. Someone who edits one must edit all.

    Args:
        judged: texts of ``kernel.py`` and ``seed.py`` as the gate judges them.
    """
    path = layout.epoch_folder(folder, op, name)
    held = {file: layout.content(path / file) or b"" for file in layout.FILES}
    whole = {
        file: hashlib.sha256(data).hexdigest() == certificate.files.get(file)
        for file, data in held.items()
    }
    pairs = []
    if whole.get(layout.KERNEL):
        pairs.append(("candidate", certificate.candidate, candidate_id(judged[layout.KERNEL])))
    if whole.get(layout.SEED) and whole.get(layout.LANG):
        epoch = epoch_of(
            judged[layout.SEED],
            held[layout.LANG],
            certificate.versions.get("triton", ""),
            certificate.device_facts,
        )
        pairs.append(("epoch", certificate.epoch, epoch))
    if whole[layout.LAUNCH]:
        triton = certificate.versions.get("triton", "")
        allowed = launch.text(task, certificate.plan_classes, certificate.device_facts, triton)
        pairs.append(("launch.py", _hash(held[layout.LAUNCH]), _hash(allowed.encode())))
    for what, written, found in pairs:
        if written != found:
            return Drift(
                kind="certificate_altered",
                expected=f"{what} {found}",
                actual=f"{what} {written}",
                message=f"the certificate was altered: its {what} is {written}, what it names "
                f"gives {found}",
                file=(path / layout.CERTIFICATE).relative_to(folder).as_posix(),
            )
    return None


def dispatch_drifts(folder: Path, library: Library) -> Iterator[Drift]:
    """Modules between a caller and the kernels that are not what this kernelsmith writes. Their
    work is not run here: nothing else would tell of an edit."""
    written = contents.carried()
    for op, entry in library.ops.items():
        written[PurePosixPath(op, "__init__.py")] = contents.OP_INIT.encode()
        for name in entry.epochs:
            init = PurePosixPath(op, name, "__init__.py")
            written[init] = contents.EPOCH_INIT.encode()
    first = PurePosixPath("__init__.py")
    written[first] = contents.PACKAGE_INIT.format(package=_name_in(folder / first)).encode()
    for place, data in sorted(written.items()):
        path = folder / place
        actual = layout.content(path)
        if actual != data:
            what = "is missing" if actual is None else "is not what this kernelsmith writes"
            yield Drift(
                kind="dispatch_differs",
                expected=hashlib.sha256(data).hexdigest(),
                actual=MISSING if actual is None else hashlib.sha256(actual).hexdigest(),
                message=f"{place} {what}: edited, or of another version; it was not checked",
                file=place.as_posix(),
            )


def _name_in(path: Path) -> str:
    """The package's name as its first file says it: a folder may be copied under another."""
    text = (layout.content(path) or b"").decode("utf-8", "replace")
    found = re.search(r"^``from (\w+) import OP``", text, re.MULTILINE)
    return found.group(1) if found else ""


def lang_drift(folder: Path, op: str, name: str, own: Path = LANG) -> Drift | None:
    """Whether the vetted functions that lie in the epoch do what this kernelsmith's do; the gate's
    workers run with the latter. Comments and docstrings may differ."""
    path = layout.epoch_folder(folder, op, name) / layout.LANG
    try:
        text = (layout.content(path) or b"").decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text:
        return None  # missing: named already
    here = own.read_text(encoding="utf-8")
    if _code(text) == _code(here):
        return None
    return Drift(
        kind="lang_differs",
        expected=hashlib.sha256(text.encode()).hexdigest(),
        actual=hashlib.sha256(here.encode()).hexdigest(),
        message=f"{layout.LANG} of the library is not that of this kernelsmith: its workers "
        "cannot run the kernel as it was certified",
        file=path.relative_to(folder).as_posix(),
    )


def epoch_drifts(certificate: Certificate, facts: Mapping[str, Any]) -> Iterator[Drift]:
    """What makes this another epoch than the certificate's: each fact by name.

    Args:
        facts: what the device says of itself here.
    """
    then, now = certificate.versions.get("triton", "?"), metadata.version("triton")
    if then.partition("+")[0] != now.partition("+")[0]:
        yield Drift(
            kind="triton_differs",
            expected=then,
            actual=now,
            message=f"another epoch: Triton {now}, certified on {then}",
        )
    recorded = certificate.device_facts
    for name in sorted({*recorded, *facts}):
        if recorded.get(name) != facts.get(name):
            yield Drift(
                kind="device_differs",
                expected=f"{name} {recorded.get(name)}",
                actual=f"{name} {facts.get(name)}",
                message=f"another epoch: {name} {facts.get(name)}, "
                f"certified on {recorded.get(name)}",
            )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _code(text: str) -> str:
    """What a module does, whatever its comments and docstrings say."""
    try:
        tree = ast.parse(text)
    except NO_PYTHON:
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)
