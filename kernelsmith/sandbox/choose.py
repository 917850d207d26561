"""Which wall stands around the workers: the rule of ``--sandbox``."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kernelsmith.errors import MissingError, SandboxError
from kernelsmith.ports import Sandbox
from kernelsmith.sandbox import bubblewrap
from kernelsmith.sandbox.process import landlock_abi, open_process

SandboxName = Literal["auto", "docker", "bubblewrap", "process"]


def choose(
    name: SandboxName,
    *,
    trusted_origin: bool,
    program: Path | None = None,
    limits: Mapping[str, int] | None = None,
) -> Sandbox:
    """Builds a sandbox.

    "auto" takes Docker if an engine answers and has the project's image, else bubblewrap, each if a
    trial start succeeds; else the process wall if that is allowed.

    Args:
        name: what the user asked for.
        trusted_origin: every source is a shipped seed, a self-proof file, or derived from shipped
            seeds by ``search``. Only then may the process wall be used.
        program: a bwrap other than the one found.
        limits: see ``worker.wall.Limits``.

    Raises:
        MissingError: the wall asked for cannot stand here, or no wall that is allowed can.
        StorageError: no place for the spool.
    """
    if name == "docker":
        return _docker(limits)
    if name == "bubblewrap":
        return bubblewrap.open_bubblewrap(program, limits)
    if name == "process":
        if not trusted_origin:
            raise MissingError(
                "the process sandbox is for shipped seeds and what search derives from them; "
                "this source needs docker or bubblewrap",
                hint="use --sandbox docker or --sandbox bubblewrap",
            )
        return open_process(limits)
    if name != "auto":
        raise MissingError(
            f"there is no sandbox {name!r}", hint="auto, docker, bubblewrap or process"
        )
    with contextlib.suppress(MissingError, SandboxError):
        return _docker(limits)
    try:
        return bubblewrap.open_bubblewrap(program, limits)
    except MissingError as error:
        if trusted_origin:
            return open_process(limits)
        raise MissingError(
            f"this source needs a wall of namespaces: {error.message}", hint=error.hint
        ) from error


def survey() -> list[dict[str, Any]]:
    """Every wall with whether it can stand here, for ``doctor``: name, available, detail."""
    found: list[dict[str, Any]] = []
    try:
        box = _docker(None)
        told = box.describe()
        box.close()
        detail = f"engine {told['engine']['version']}, {told['image']} {told['image_digest']}"
        found.append({"name": "docker", "available": True, "detail": detail})
    except (MissingError, SandboxError) as error:
        hint = f" (hint: {error.hint})" if error.hint else ""
        found.append({"name": "docker", "available": False, "detail": error.message + hint})
    try:
        program = bubblewrap.find_program()
        problem = bubblewrap.trial(program)
        detail = problem or f"{program} {bubblewrap.version(program)}"
        found.append({"name": "bubblewrap", "available": not problem, "detail": detail})
    except MissingError as error:
        found.append({"name": "bubblewrap", "available": False, "detail": error.message})
    abi = landlock_abi()
    landlock = f"Landlock {abi}" if abi else "no Landlock: files of the host can be read"
    detail = f"{landlock}; only for shipped seeds and what search derives from them"
    found.append({"name": "process", "available": True, "detail": detail})
    return found


def _docker(limits: Mapping[str, int] | None) -> Sandbox:
    """Imported when it is used: most machines that have no engine need none of it."""
    from kernelsmith.sandbox.docker import open_docker

    return open_docker(limits)
