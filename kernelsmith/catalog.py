"""Finds tasks and their seeds, reads and checks them. Loading a task runs none of its code.

A task is one TOML file; its seed lies beside it or in ``seed_kernels`` next to its folder.
Folders are looked at in this order, and the first that has a task of the name wins: folders that
the caller names, the ``tasks`` folder of a source checkout, the copy inside the installed package.
"""

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kernelsmith.catalog_build import build_task
from kernelsmith.catalog_reductions import unlooked_at
from kernelsmith.catalog_schema import TaskFile, first_problem
from kernelsmith.errors import TaskError
from kernelsmith.model import Task

_LARGEST_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry:
    """A task file that was found. ``shipped``: it belongs to kernelsmith itself."""

    name: str
    path: Path
    shipped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskListing:
    """One line of the list of tasks; ``problem`` is "" for a task that loads."""

    name: str
    path: Path
    shipped: bool
    summary: str
    devices: tuple[str, ...]
    cases: tuple[tuple[str, int], ...]
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of checking a task: ``level`` "ok", "warning" or "error"."""

    level: str
    message: str
    hint: str = ""


def tasks(dirs: Sequence[Path] = ()) -> dict[str, TaskEntry]:
    """Task files by name.

    Raises:
        TaskError: a folder in ``dirs`` is not there.
    """
    found: dict[str, TaskEntry] = {}
    for folder, shipped in _folders(dirs):
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, TaskEntry(name=path.stem, path=path, shipped=shipped))
    return found


def find_task(name: str, dirs: Sequence[Path] = ()) -> TaskEntry:
    """The task file of that name.

    Raises:
        TaskError: there is none; the hint names those there are.
    """
    known = tasks(dirs)
    if name not in known:
        raise TaskError(
            f"no task named {name!r}",
            hint="tasks here: " + (", ".join(known) or "none") + "; --tasks DIR adds a folder",
        )
    return known[name]


def load_task(name: str, device: str, dirs: Sequence[Path] = ()) -> Task:
    """A task as it is on one device.

    Args:
        name: the task's name.
        device: "cpu" or "cuda".
        dirs: folders to look in before the shipped ones.

    Raises:
        TaskError: no such task, a broken file, or no cases for the device. One line with a hint.
    """
    entry = find_task(name, dirs)
    file = read_file(entry.path)
    if device not in file.devices:
        raise TaskError(
            f"task {name} has no cases for device {device!r}",
            hint=f"it has cases for: {', '.join(file.devices)} ({entry.path})",
        )
    source = seed_source(entry.path, file.seed)
    return build_task(file, device, source, shipped=entry.shipped, where=str(entry.path))


def list_tasks(dirs: Sequence[Path] = ()) -> list[TaskListing]:
    """All tasks, those with broken files included."""
    listings = []
    for entry in tasks(dirs).values():
        summary, problem = "", ""
        devices: tuple[str, ...] = ()
        cases: tuple[tuple[str, int], ...] = ()
        try:
            file = read_file(entry.path)
            summary, devices = file.summary, tuple(str(d) for d in file.devices)
            loaded = [load_task(entry.name, device, dirs) for device in devices]
            cases = tuple((task.device, len(task.cases)) for task in loaded)
        except TaskError as error:
            problem = error.message
        listings.append(
            TaskListing(
                name=entry.name,
                path=entry.path,
                shipped=entry.shipped,
                summary=summary,
                devices=devices,
                cases=cases,
                problem=problem,
            )
        )
    return listings


def findings(task: Task) -> Iterator[Finding]:
    """What a task that loads leaves uncompared, and a count of its cases."""
    timed = [case for case in task.cases if case.weight > 0]
    yield Finding(
        level="ok",
        message=f"{task.device}: {len(task.cases)} cases, {len(timed)} of them timed",
    )
    used = {(case.call, case.dtype) for case in task.cases}
    for call in task.calls:
        for dtype in sorted({case.dtype for case in task.cases}):
            if (call.name, dtype) not in used:
                yield Finding(
                    level="warning",
                    message=f"{task.device}: no case uses the call {call.name} in {dtype}",
                    hint="until it has one it is only compared at sizes of the variant's cases",
                )
    for level, message, hint in unlooked_at(task):
        yield Finding(level=level, message=f"{task.device}: {message}", hint=hint)
    for path in ("train", "infer"):
        if not any(task.call(case.call).path == path for case in task.cases):
            yield Finding(
                level="error",
                message=f"{task.device}: no case on the path {path}: a run would not start",
                hint="a kernel is shared by both paths; give it a call and cases on both, as "
                "`tasks new --path ENTRY=train,infer` does",
            )
    if not any(case.dim(task.token_dim) == 0 for case in task.cases):
        yield Finding(
            level="warning",
            message=f"{task.device}: no empty batch among the cases",
            hint=f"add a case with {task.token_dim} = 0",
        )


def _folders(dirs: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    for folder in dirs:
        if not folder.is_dir():
            raise TaskError(f"no folder of tasks at {folder}", hint="--tasks names a folder")
        yield folder, False
    package = Path(__file__).resolve().parent
    checkout = package.parent
    # Beside an installed package lies site-packages, whose "tasks" would be somebody else's.
    if (checkout / "pyproject.toml").is_file() and (checkout / "seed_kernels").is_dir():
        yield checkout / "tasks", True
    builtin = package / "_builtin" / "tasks"
    if builtin.is_dir():
        yield builtin, True


def read_text(path: Path, what: str) -> str:
    """The text of a file of at most 1 MiB.

    Raises:
        TaskError: it cannot be read, is too large or not UTF-8; ``what`` says which file it is.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise TaskError(f"{what} {path} is larger than 1 MiB", hint="is it the right file?")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(
            f"{what} {path} is not UTF-8 (byte {error.start})", hint="save it as UTF-8"
        ) from error
    except OSError as error:
        raise TaskError(
            f"cannot read {what} {path}: {error.strerror}", hint="check the path and its rights"
        ) from error


def read_file(path: Path) -> TaskFile:
    """A task file as it stands, its form checked.

    Raises:
        TaskError: it is not TOML, has another form, or another task's name.
    """
    text = read_text(path, "task file")
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TaskError(f"{path} is not TOML: {error}", hint="see tasks/rms_norm.toml") from error
    try:
        file = TaskFile.model_validate(raw)
    except ValidationError as error:
        raise TaskError(
            f"{path}: {first_problem(error.errors())}", hint="see tasks/rms_norm.toml"
        ) from error
    if file.name != path.stem:
        raise TaskError(
            f"{path}: the task is named {file.name!r}", hint="name and file name must agree"
        )
    return file


def seed_source(task_path: Path, seed: str) -> str:
    """The text of a task's seed, from beside the task or from ``seed_kernels``.

    Raises:
        TaskError: it is not there, or named by a path.
    """
    if Path(seed).is_absolute() or ".." in Path(seed).parts:
        raise TaskError(
            f"{task_path}: seed {seed!r} leaves the task's folder",
            hint="put the seed beside the task file and name it without a path",
        )
    places = [task_path.parent / seed, task_path.parent.parent / "seed_kernels" / seed]
    for place in places:
        if place.is_file():
            return read_text(place, "seed")
    raise TaskError(
        f"{task_path}: seed {seed!r} is not there",
        hint=f"looked for {places[0]} and {places[1]}",
    )
