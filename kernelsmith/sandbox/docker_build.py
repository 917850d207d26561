"""Builds the workers' image, or finds that the one that is there is what it should be."""

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from kernelsmith.config import docker_image
from kernelsmith.errors import MissingError
from kernelsmith.sandbox import docker_contents, docker_engine
from kernelsmith.sandbox import docker_image as images
from kernelsmith.sandbox.docker_engine import Engine, asking
from kernelsmith.sandbox.docker_image import (
    BASE_LABEL,
    CONTENTS_LABEL,
    KIND_LABEL,
    Kind,
    WorkerImage,
)

DEFAULT_BASE = "python:{}-slim"


def build_image(
    base: str | None, *, mount_python: bool, notice: Callable[[str], None]
) -> WorkerImage:
    """The image, built if there is none, if another base or kind is named, or if it holds another
    kernelsmith than this one.

    Args:
        base: the image to build on; None: what was built on before, else a slim Python.
        mount_python: leave Python and packages out; this machine's are shown in it. Without a base
            what was built before stays of its kind.
        notice: is told what is done, a line at a time.

    Raises:
        MissingError: no engine, no such base, or a base that does not do.
        SandboxError: the engine cannot build it.
    """
    engine = docker_engine.connect()
    try:
        name = docker_image()
        there = images.labels(engine, name)
        kind: Kind = "installed"
        if mount_python or (base is None and there.get(KIND_LABEL) == "mounted"):
            kind = "mounted"
        default = DEFAULT_BASE.format(docker_contents.python_version())
        base = base or there.get(BASE_LABEL) or default
        wanted = {KIND_LABEL: kind, BASE_LABEL: base, CONTENTS_LABEL: images.expected(kind)}
        if wanted.items() <= there.items():
            notice(f"{name} is what it should be")
            return images.find(engine, name)
        place = "shown in it" if kind == "mounted" else "put into it"
        notice(f"building {name} on {base}, this machine's Python packages {place}")
        _build(engine, name, base, kind, notice)
        return images.find(engine, name)
    finally:
        engine.client.close()


def _build(engine: Engine, name: str, base: str, kind: Kind, notice: Callable[[str], None]) -> None:
    reading, writing = os.pipe()
    failures: list[BaseException] = []
    # As a stream: with a GPU's libraries the packages have gigabytes.
    packing = threading.Thread(target=_pack, args=(writing, kind, failures))
    packing.start()
    try:
        with os.fdopen(reading, "rb") as context, asking(f"build {name}"):
            said = engine.client.api.build(
                fileobj=context,
                custom_context=True,
                tag=name,
                target=kind,
                buildargs={"BASE": base, "PYTHON": docker_contents.python_version()},
                labels={BASE_LABEL: base, CONTENTS_LABEL: images.expected(kind)},
                # Steps need no network; the engine fetches the base by itself.
                network_mode="none",
                rm=True,
                forcerm=True,
                decode=True,
            )
            _follow(said, name, base, notice)
    finally:
        packing.join()
    if failures:
        raise failures[0]


def _pack(writing: int, kind: Kind, failures: list[BaseException]) -> None:
    try:
        with os.fdopen(writing, "wb") as out:
            docker_contents.write_context(out, kind)
    except BrokenPipeError:
        return  # the engine's own words say why
    except Exception as error:
        failures.append(error)


def _follow(
    said: Iterable[dict[str, Any]], name: str, base: str, notice: Callable[[str], None]
) -> None:
    printed = ""
    for part in said:
        text = " ".join(str(part.get("stream") or "").split())
        if text.startswith("Step "):
            notice(text)
        elif text:
            printed = text
        if "error" in part:
            problem = " ".join(str(part["error"]).split())
            told = f": {printed}" if "non-zero code" in problem and printed else ""
            raise MissingError(
                f"{name} cannot be built on {base}: {problem[:300]}{told[:300]}",
                hint="name another base: `kernelsmith doctor --build-image --base IMAGE`",
            )
