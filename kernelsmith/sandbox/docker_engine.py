"""The Docker engine: how it is reached, what it says of itself, and what dead hosts left in it."""

import contextlib
import json
import socket as socketlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsmith import letters, processes
from kernelsmith.config import docker_environment
from kernelsmith.errors import MissingError, SandboxError

SOCKET = Path("/var/run/docker.sock")
TIMEOUT_S = 60
PROCESS_LABEL = "kernelsmith.process"
LOCK_LABEL = "kernelsmith.lock"
HINT = "`systemctl start docker`, or set DOCKER_HOST to an engine; or use --sandbox bubblewrap"
HINT_CLOSED = "`usermod -aG docker $USER` and log in again; or use --sandbox bubblewrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine that answers. ``client`` is a ``docker.DockerClient``, ``facts`` belong into the
    record."""

    client: Any
    facts: Mapping[str, Any]
    cores: int


def connect(environment: Mapping[str, str] | None = None, socket: Path = SOCKET) -> Engine:
    """The engine that ``DOCKER_HOST`` names, else the one of this machine.

    Raises:
        MissingError: there is none, or it does not answer.
    """
    variables = docker_environment() if environment is None else environment
    base_url = variables.get("DOCKER_HOST") or f"unix://{socket}"
    if base_url.startswith("unix://"):
        _require_listener(Path(base_url.removeprefix("unix://")))
    import docker

    try:
        # An empty environment would stand for this process's.
        client = docker.from_env(
            environment={**variables, "DOCKER_HOST": base_url}, timeout=TIMEOUT_S
        )
        info, version = client.info(), client.version()
    except (docker.errors.DockerException, OSError, ValueError) as error:
        raise MissingError(
            f"the Docker engine does not answer: {_said(error)}", hint=HINT
        ) from None
    facts = {
        "version": version.get("Version"),
        "api": client.api.api_version,
        "runtime": info.get("DefaultRuntime"),
        "storage": info.get("Driver"),
        "cgroup": info.get("CgroupVersion", "1"),
        "security": sorted(info.get("SecurityOptions") or []),
        "kernel": info.get("KernelVersion"),
    }
    return Engine(client=client, facts=facts, cores=int(info.get("NCPU") or 1))


@contextlib.contextmanager
def asking(what: str) -> Iterator[None]:
    """Turns whatever the engine or the way to it raises into one error.

    Raises:
        SandboxError: ``what`` cannot be done.
    """
    import docker

    try:
        yield
    except (docker.errors.DockerException, OSError) as error:
        raise SandboxError(f"Docker cannot {what}: {_said(error)}") from None


def labels(lock: Path) -> dict[str, str]:
    """What a container carries so that it can be swept when this host is dead."""
    return {PROCESS_LABEL: json.dumps(processes.this_process()), LOCK_LABEL: str(lock)}


def is_orphan(carried: Mapping[str, str]) -> bool:
    """Whether the host of a container with these labels is known to be dead.

    What the process table says decides; where it cannot tell (the host was in another container,
    or on another machine that shares this engine), a lock that is there and free does. In doubt a
    container is a living host's.
    """
    try:
        facts = json.loads(carried[PROCESS_LABEL])
        alive = processes.is_alive(facts) if isinstance(facts, dict) else None
        lock = Path(carried[LOCK_LABEL])
    except (KeyError, ValueError, TypeError):
        return False
    if alive is not None:
        return not alive
    try:
        with lock.open("rb") as file:
            return not letters.is_held(file.fileno())
    except OSError:
        return False


def sweep(engine: Engine) -> list[str]:
    """Removes containers whose hosts are dead: those that were frozen when it happened, the others
    have ended by themselves. Returns their names.

    Raises:
        SandboxError: the engine does not answer.
    """
    with asking("list containers"):
        found = engine.client.api.containers(all=True, filters={"label": PROCESS_LABEL})
    swept = []
    for each in found:
        if is_orphan(each.get("Labels") or {}):
            name = (each.get("Names") or [each["Id"]])[0].lstrip("/")
            remove(engine, each["Id"])
            swept.append(name)
    return swept


def remove(engine: Engine, container: str) -> None:
    """Ends a container, frozen or not, and removes it. One that is gone is no matter.

    Raises:
        SandboxError: the engine cannot do it.
    """
    import docker

    with asking("remove a container"):
        with contextlib.suppress(docker.errors.APIError):
            engine.client.api.unpause(container)  # a frozen process takes no signal
        try:
            engine.client.api.remove_container(container, force=True, v=True)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            if error.status_code != 409:  # "removal is already in progress"
                raise


def _require_listener(path: Path) -> None:
    """Before ``docker`` is imported, which takes as long as a small job."""
    with socketlib.socket(socketlib.AF_UNIX) as probe:
        probe.settimeout(TIMEOUT_S)
        try:
            probe.connect(str(path))
        except OSError as error:
            why = error.strerror or str(error)
            hint = HINT_CLOSED if isinstance(error, PermissionError) else HINT
            raise MissingError(f"no Docker engine answers at {path}: {why}", hint=hint) from None


def _said(error: Exception) -> str:
    """The engine's own words in one line."""
    told = getattr(error, "explanation", None) or str(error)
    return " ".join(str(told).split())[:300]
