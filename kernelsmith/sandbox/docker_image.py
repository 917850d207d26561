"""The image that workers run in: what its labels say, and how it is found."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernelsmith.config import docker_image
from kernelsmith.errors import MissingError
from kernelsmith.sandbox import docker_container, docker_contents
from kernelsmith.sandbox.docker_container import Inside
from kernelsmith.sandbox.docker_engine import Engine, asking

KIND_LABEL = "kernelsmith.worker"
BASE_LABEL = "kernelsmith.base"
CONTENTS_LABEL = "kernelsmith.contents"
HINT = "build it: `kernelsmith doctor --build-image`, or use --sandbox bubblewrap"

# Where the Dockerfile puts them.
INSTALLED = Inside(
    python="/opt/kernelsmith/bin/python", python_path=(Path("/opt/kernelsmith/packages"),)
)

Kind = Literal["mounted", "installed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerImage:
    """An image that can run workers. "mounted": this machine's Python and packages are shown in it
    read-only; "installed": it has its own. ``digest`` names its contents."""

    name: str
    digest: str
    kind: Kind
    inside: Inside
    base: str = ""


def find(engine: Engine, name: str | None = None) -> WorkerImage:
    """The project's image as this engine has it.

    Raises:
        MissingError: it has none, it is another's, or one that was built for another kernelsmith.
        SandboxError: the engine does not answer.
    """
    name = name or docker_image()
    found = _inspected(engine, name)
    if found is None:
        raise MissingError(f"the engine has no image {name}", hint=HINT)
    return of_labels(name, str(found["Id"]), _labels_of(found))


def labels(engine: Engine, name: str) -> dict[str, str]:
    """An image's labels; none if there is no such image.

    Raises:
        SandboxError: the engine does not answer.
    """
    return _labels_of(_inspected(engine, name))


def of_labels(name: str, digest: str, labels: Mapping[str, Any]) -> WorkerImage:
    """What an image with these labels is.

    Raises:
        MissingError: not one of this kernelsmith's.
    """
    kind, base = labels.get(KIND_LABEL), str(labels.get(BASE_LABEL, ""))
    if kind == "mounted":
        inside = docker_container.mounted()
        return WorkerImage(name=name, digest=digest, kind="mounted", inside=inside, base=base)
    if kind != "installed":
        raise MissingError(
            f"{name} is not an image for workers: it has no label {KIND_LABEL}", hint=HINT
        )
    if labels.get(CONTENTS_LABEL) != expected("installed"):
        raise MissingError(
            f"{name} holds another kernelsmith, or other packages, than this one", hint=HINT
        )
    return WorkerImage(name=name, digest=digest, kind="installed", inside=INSTALLED, base=base)


def expected(kind: Kind) -> str:
    """The label that says what was put in: what is mounted needs none."""
    return docker_contents.contents() if kind == "installed" else ""


def _inspected(engine: Engine, name: str) -> dict[str, Any] | None:
    import docker

    with asking("look for the image"):
        try:
            found: dict[str, Any] = engine.client.api.inspect_image(name)
        except docker.errors.ImageNotFound:
            return None
    return found


def _labels_of(found: dict[str, Any] | None) -> dict[str, str]:
    return dict(((found or {}).get("Config") or {}).get("Labels") or {})
