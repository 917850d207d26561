"""Writes a drafted task and the copy of its seed; nothing is written that does not load."""

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelsmith import catalog
from kernelsmith.authoring import blocks, toml_text, wording
from kernelsmith.authoring.draft import Draft
from kernelsmith.catalog_build import build_task
from kernelsmith.catalog_schema import TaskFile
from kernelsmith.errors import InputError, TaskError


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The files of a new task."""

    task: Path
    seed: Path


def task_text(draft: Draft, source: str) -> str:
    """The text of the draft's task file, which loads with this seed.

    Raises:
        TaskError: it does not, and the message says where.
    """
    text = toml_text.render(
        draft, {device: blocks.propose(draft, device) for device in draft.devices}
    )
    raw = tomllib.loads(text)
    found = wording.problems(raw)
    if found:
        raise TaskError(found[0].message, hint=found[0].hint)
    file = TaskFile.model_validate(raw)
    for device in file.devices:
        build_task(file, device, source, shipped=False, where=f"{draft.name}.toml")
    return text


def require_free(folder: Path, names: Sequence[str], origin: Path, *, force: bool) -> None:
    """Refuses to write over what is there.

    Raises:
        InputError: a file is there and ``force`` is not given; the folder is none.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder", hint="--to names a folder")
    shipped = {entry.path.parent.resolve() for entry in catalog.tasks().values() if entry.shipped}
    if folder.resolve() in shipped:
        # Seeds there are trusted: they run behind a thinner wall.
        raise InputError(
            f"{folder} holds the tasks that kernelsmith ships", hint="name a folder of yours: --to"
        )
    for name in names:
        path = folder / name
        # A seed that lies in the folder already is its own copy.
        if path.exists() and not force and not path.samefile(origin):
            raise InputError(
                f"{path} is there already", hint="choose another name or --to, or add --force"
            )


def write(folder: Path, draft: Draft, text: str, origin: Path, source: str) -> Written:
    """Writes both files, each at once or not at all.

    Raises:
        InputError: the folder cannot be written to.
    """
    task, seed = folder / f"{draft.name}.toml", folder / draft.seed_file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (seed.exists() and seed.samefile(origin)):
            replace_text(seed, source)
        replace_text(task, text)
    except OSError as error:
        raise InputError(
            f"cannot write to {folder}: {error.strerror}", hint="--to names a folder of yours"
        ) from error
    return Written(task=task, seed=seed)


def replace_text(path: Path, text: str) -> None:
    """Writes a file so that whoever reads meanwhile sees the old text or the new."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8", newline="")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
