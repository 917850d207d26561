"""The only place that builds adapters: device, sandbox, gate, proposer, store.

:class:`Wiring` names a builder for each; ``real()`` gives the ones that users get, tests hand in
others. Each builder imports what it needs when it is called, so that ``--help`` stays quick.
"""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.errors import InputError, MissingError
from kernelsmith.model import Task
from kernelsmith.ports import Device, Judge, Proposer, Sandbox

if TYPE_CHECKING:
    from kernelsmith.catalog import TaskListing

MAX_SOURCE_BYTES = 1 << 18
PACKAGES = ("kernelsmith-rl", "torch", "triton", "llvmlite", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """How to build each part. ``sandbox`` takes its name and whether all sources are of trusted
    origin; ``walls`` tells of each sandbox whether it can stand here; ``prove`` takes a judge and
    raises EvidenceError where the gate fails its own proof."""

    list_tasks: Callable[[Sequence[Path]], "Sequence[TaskListing]"]
    load_task: Callable[[str, str, Sequence[Path]], Task]
    device_name: Callable[[str], str]
    device: Callable[[str], Device]
    sandbox: Callable[[str, bool], Sandbox]
    walls: Callable[[], list[dict[str, Any]]]
    judge: Callable[[Task, Device, Sandbox, int], Judge]
    prove: Callable[[Any], dict[str, Any]]
    proposer: Callable[[str, int], Proposer]
    normal_hash: Callable[[str], str]


def real() -> Wiring:
    """The builders that users get."""
    return Wiring(
        list_tasks=_list_tasks,
        load_task=_load_task,
        device_name=_device_name,
        device=_device,
        sandbox=_sandbox,
        walls=_walls,
        judge=_judge,
        prove=_prove,
        proposer=_proposer,
        normal_hash=_normal_hash,
    )


def read_source(path: Path) -> str:
    """The text of a candidate's file.

    Raises:
        InputError: it is missing, no file, too large or not UTF-8.
    """
    try:
        # Non-blocking: a pipe without a writer would keep us in open().
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path} is not a regular file", hint="name a file")
            content = file.read(MAX_SOURCE_BYTES + 1)
        if len(content) > MAX_SOURCE_BYTES:
            raise InputError(
                f"{path} is too large: a candidate has at most {MAX_SOURCE_BYTES} bytes",
                hint="is this the right file?",
            )
        return content.decode("utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint="name a file") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}",
            hint="a candidate is Python source in UTF-8",
        ) from error


def versions() -> dict[str, str]:
    """Versions of what decides a run, as installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def _list_tasks(folders: Sequence[Path]) -> Sequence["TaskListing"]:
    from kernelsmith import catalog

    return catalog.list_tasks(folders)


def _load_task(name: str, device: str, folders: Sequence[Path]) -> Task:
    from kernelsmith import catalog

    return catalog.load_task(name, device, folders)


def _device_name(name: str) -> str:
    from kernelsmith import devices

    if name == "auto":
        return devices.auto()
    if name not in devices.names():
        known = ", ".join(("auto", *devices.names()))
        raise InputError(f"no device {name!r}", hint=f"devices: {known}")
    return name


def _device(name: str) -> Device:
    from kernelsmith import devices

    return devices.get(name)


def _sandbox(name: str, trusted: bool) -> Sandbox:
    from kernelsmith.sandbox.choose import choose

    match name:
        case "auto" | "docker" | "bubblewrap" | "process":
            return choose(name, trusted_origin=trusted)
    raise InputError(f"no sandbox {name!r}", hint="sandboxes: auto, bubblewrap, process")


def _walls() -> list[dict[str, Any]]:
    from kernelsmith.sandbox.choose import survey

    return survey()


def _judge(task: Task, device: Device, sandbox: Sandbox, secret_seed: int) -> Judge:
    from kernelsmith.gate.judge import Gate

    return Gate(task, device, sandbox, secret_seed)


def _prove(judge: Any) -> dict[str, Any]:
    from kernelsmith.gate.proof import prove

    return prove(judge)


def _proposer(name: str, seed: int) -> Proposer:
    known = {"search", "agent"}
    wanted = [part.strip() for part in name.split(",")]
    for part in wanted:
        if part not in known:
            raise InputError(f"no proposer {part!r}", hint="proposers: search")
    if "agent" in wanted:
        raise MissingError(
            "the agent proposer is not built yet", hint="`--proposer search` needs no model"
        )
    from kernelsmith.proposers.search import Search

    return Search(seed)


def _normal_hash(source: str) -> str:
    from kernelsmith.proposers.search import normalised_hash

    return normalised_hash(source)
