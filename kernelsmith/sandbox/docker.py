"""The Docker wall: a container for each role, spoken to through a spool alone.

A process that holds candidate Python shares no container with one that measures. Nothing is
attached to a container and nothing is executed in it from outside, so it may be frozen at any
moment; it ends with its host (see ``worker.supervisor``).
"""

import contextlib
import itertools
import json
import os
import platform
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelsmith.errors import MissingError, SandboxError
from kernelsmith.ports import Role
from kernelsmith.sandbox import docker_container, docker_engine, docker_image, paths
from kernelsmith.sandbox.client import Line
from kernelsmith.sandbox.docker_container import Shared, Wanted
from kernelsmith.sandbox.docker_engine import Engine, asking
from kernelsmith.sandbox.docker_image import WorkerImage
from kernelsmith.sandbox.docker_line import Letterbox, Letters, begin, open_letterbox
from kernelsmith.sandbox.pool import Leased, Pool
from kernelsmith.sandbox.spool import open_spool

TRIAL_TIMEOUT_S = 60
TRIAL_ROLE = "trial"


@dataclass(slots=True, kw_only=True)
class Docker:
    """A :class:`kernelsmith.ports.Sandbox`. ``limits`` are those of ``worker.wall.Limits``;
    ``inside``: what a container said of itself when it was tried."""

    engine: Engine
    image: WorkerImage
    pool: Pool
    limits: Mapping[str, int]
    inside: Mapping[str, Any]
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self, role: Role) -> Leased:
        """A worker in a container of its own; its first job waits until the template is ready."""
        return self.pool.lease(role, lambda folder: self._starts(role, folder))

    def _starts(self, role: Role, folder: Path) -> Callable[[], Line]:
        def start() -> Line:
            name = f"{role}-{next(self.numbers)}"
            box = open_letterbox(self.pool.spool, name, self.pool.owner)
            wanted = _wanted(self.engine, self.image, role, folder, box, self.limits)
            return begin(self.engine, box, docker_container.arguments(wanted), self.pool.starter)

        return start

    def describe(self) -> dict[str, Any]:
        """What the record says of this wall."""
        return {
            "name": "docker",
            "image": self.image.name,
            "image_digest": self.image.digest,
            "worker": self.image.kind,
            "engine": dict(self.engine.facts),
            "namespaces": ["mount", "pid", "network", "ipc", "uts"],
            "network": "none",
            "uid_inside": self.inside["user"],
            "python_inside": self.inside["python"],
            "landlock_abi": self.inside["landlock_abi"],
            "tmp_bytes": docker_container.TMP_BYTES,
            "processes_max": docker_container.PROCESSES_MAX,
            "system_call_filter": platform.machine() == "x86_64",
            "gpus": [str(node) for node in paths.gpu_nodes("launcher")],
            "limits": dict(self.limits),
        }

    def pause(self) -> None:
        """Freezes all containers; time limits of jobs stand still. Twice is harmless.

        Raises:
            SandboxError: the engine cannot freeze one; those that it did, go on.
        """
        self.pool.clock.stop()
        try:
            for line in self._lines():
                line.pause()
        except SandboxError:
            with contextlib.suppress(SandboxError):
                self.resume()
            raise

    def resume(self) -> None:
        """Lets all containers go on; harmless if they do.

        Raises:
            SandboxError: the engine cannot let one go on; the others do.
        """
        with contextlib.ExitStack() as every:  # calls each, whatever the others raise
            every.callback(self.pool.go)
            for line in self._lines():
                every.callback(line.resume)

    def roots(self) -> list[int]:
        """The first process of each container, as the host numbers it.

        Raises:
            SandboxError: the engine does not say.
        """
        found = [line.root() for line in self._lines()]
        return [pid for pid in found if pid]

    def close(self) -> None:
        """Ends all containers, frozen ones too, and removes the spool."""
        self.pool.close()
        self.engine.client.close()

    def _lines(self) -> list[Letters]:
        lines = [worker.line for worker in list(self.pool.workers.values())]
        return [line for line in lines if isinstance(line, Letters)]


def open_docker(limits: Mapping[str, int] | None = None) -> Docker:
    """Builds the sandbox after a trial start; sweeps what dead hosts left in the engine.

    Raises:
        MissingError: no engine, no image of this project, or a container cannot stand here.
        StorageError: no place for the spool.
    """
    with contextlib.ExitStack() as undo:
        engine = docker_engine.connect()
        undo.callback(engine.client.close)
        image = docker_image.find(engine)
        docker_engine.sweep(engine)
        spool = open_spool()
        undo.callback(spool.close)
        own = paths.limits_of(limits)
        pool = Pool(spool=spool, owner=docker_container.NOBODY if os.geteuid() == 0 else None)
        inside = _trial(engine, image, pool, own)
        undo.pop_all()
    return Docker(engine=engine, image=image, pool=pool, limits=own, inside=inside)


def _trial(
    engine: Engine, image: WorkerImage, pool: Pool, limits: Mapping[str, int]
) -> dict[str, Any]:
    """Starts Python in a container with the mounts and limits of a worker's.

    Returns:
        What it says: ``python``, ``user``, ``landlock_abi``.

    Raises:
        MissingError: that failed, with what it printed last.
    """
    folder = pool.spool.folder(TRIAL_ROLE, pool.owner)
    box = open_letterbox(pool.spool, TRIAL_ROLE, pool.owner)
    wanted = _wanted(engine, image, TRIAL_ROLE, folder, box, limits)
    arguments = docker_container.for_trial(docker_container.arguments(wanted))
    try:
        status, printed = _run(engine, arguments)
    except SandboxError as error:
        raise MissingError(
            f"a container cannot start here: {error.message}", hint=_hint(error.message)
        ) from None
    finally:
        box.close()
    lines = [line for line in printed.splitlines() if line.strip()]
    try:
        said = json.loads(lines[-1])
    except (ValueError, IndexError):
        said = None
    if status != 0 or not isinstance(said, dict) or not said.get("host_lock"):
        problem = lines[-1][:300] if lines else f"status {status}"
        if isinstance(said, dict):
            problem = "it does not see this host's locks"
        raise MissingError(f"a container cannot work here: {problem}", hint=_hint(problem))
    return said


def _run(engine: Engine, arguments: dict[str, Any]) -> tuple[int, str]:
    with asking("try a container"):
        container = engine.client.containers.create(**arguments)
        try:
            container.start()
            status = int(container.wait(timeout=TRIAL_TIMEOUT_S)["StatusCode"])
            printed = container.logs(stdout=True, stderr=True)[-(1 << 16) :]
        finally:
            docker_engine.remove(engine, container.id)
    return status, printed.decode("utf-8", "replace")


def _wanted(
    engine: Engine,
    image: WorkerImage,
    role: str,
    folder: Path,
    box: Letterbox,
    limits: Mapping[str, int],
) -> Wanted:
    return Wanted(
        role=role,
        image=image.digest,  # never by name: who moves a tag must not change a run under way
        name=f"kernelsmith-{os.getpid()}-{role}-{secrets.token_hex(4)}",
        inside=image.inside,
        shared=Shared(spool=folder, orders=box.orders_path, answers=box.answers_path),
        limits=limits,
        cores=engine.cores,
        nodes=tuple(paths.gpu_nodes(role)),  # in a trial too: the engine may have no GPUs
        labels=docker_engine.labels(box.lock_path),
    )


def _hint(problem: str) -> str:
    if "device driver" in problem:
        return "install the NVIDIA container toolkit, or use --sandbox bubblewrap"
    if "No such file" in problem or "not found" in problem or "GLIBC" in problem:
        return (
            "the image's system does not fit this machine's Python: `kernelsmith doctor "
            "--build-image --base IMAGE` with another base, or with Python in the image"
        )
    return "`kernelsmith doctor --build-image`, or use --sandbox bubblewrap"
