"""Which wall stands around the workers: the rule of ``--sandbox``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kernelsmith.errors import MissingError
from kernelsmith.ports import Sandbox
from kernelsmith.sandbox import bubblewrap
from kernelsmith.sandbox.process import landlock_abi, open_process

SandboxName = Literal["auto", "docker", "bubblewrap", "process"]
DOCKER_MISSING = "the docker sandbox is not built yet"


def choose(
    name: SandboxName,
    *,
    trusted_origin: bool,
    program: Path | None = None,
    limits: Mapping[str, int] | None = None,
) -> Sandbox:
    """Builds a sandbox.

    "auto" takes bubblewrap if a trial start succeeds, else the process wall if that is allowed.

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
        raise MissingError(DOCKER_MISSING, hint="use --sandbox bubblewrap")
    if name == "bubblewrap":
        return bubblewrap.open_bubblewrap(program, limits)
    if name == "process":
        if not trusted_origin:
            raise MissingError(
                "the process sandbox is for shipped seeds and what search derives from them; "
                "this source needs bubblewrap",
                hint="use --sandbox bubblewrap",
            )
        return open_process(limits)
    if name != "auto":
        raise MissingError(f"there is no sandbox {name!r}", hint="auto, bubblewrap or process")
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
    found: list[dict[str, Any]] = [{"name": "docker", "available": False, "detail": DOCKER_MISSING}]
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
