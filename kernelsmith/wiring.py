"""The only place that builds adapters: device, sandbox, gate, proposer, store.

:class:`Wiring` names a builder for each; ``real()`` gives the ones that users get, tests hand in
others. Each builder imports what it needs when it is called, so that ``--help`` stays quick.
"""

import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kernelsmith.config import Endpoint
from kernelsmith.errors import InputError
from kernelsmith.lineage.past import PERSON
from kernelsmith.model import AgentSettings, Share, Task, seed_candidate
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Device, Judge, Proposer, Sandbox
from kernelsmith.proving import Prove

if TYPE_CHECKING:
    from kernelsmith.catalog import TaskListing
    from kernelsmith.sandbox.docker_image import WorkerImage

MAX_SOURCE_BYTES = 1 << 18
PACKAGES = ("kernelsmith-rl", "torch", "triton", "llvmlite", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerParts:
    """What a proposer is built from. ``agent`` and ``endpoint`` are given where the agent is
    named; a rehearsal has no endpoint."""

    name: str
    seed: int
    run_id: str
    db: Path
    tasks: tuple[Task, ...]
    judges: Mapping[str, Judge]
    device_facts: Mapping[str, Any]
    normal_hash: Callable[[str], str]
    agent: AgentSettings | None = None
    endpoint: Endpoint | None = None
    pauses: Pauses = field(default_factory=Pauses)


class BuildJudge(Protocol):
    """Builds a gate. ``secret_seed``: its hidden inputs follow from it; ``pauses``: the run's."""

    def __call__(
        self,
        task: Task,
        device: Device,
        sandbox: Sandbox,
        secret_seed: int,
        pauses: Pauses | None = None,
        /,
    ) -> Judge: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """How to build each part. ``sandbox`` takes its name and whether all sources are of trusted
    origin; ``walls`` tells of each sandbox whether it can stand here; ``prove`` takes a judge and
    its share (None: all) and raises EvidenceError where the gate fails its own proof."""

    list_tasks: Callable[[Sequence[Path]], "Sequence[TaskListing]"]
    load_task: Callable[[str, str, Sequence[Path]], Task]
    device_name: Callable[[str], str]
    device: Callable[[str], Device]
    sandbox: Callable[[str, bool], Sandbox]
    walls: Callable[[], list[dict[str, Any]]]
    judge: BuildJudge
    prove: Prove
    proposer: Callable[["ProposerParts"], AbstractContextManager[Proposer]]
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
    raise InputError(f"no sandbox {name!r}", hint="sandboxes: auto, docker, bubblewrap, process")


def _walls() -> list[dict[str, Any]]:
    from kernelsmith.sandbox.choose import survey

    return survey()


def build_image(
    base: str | None, *, mount_python: bool, notice: Callable[[str], None]
) -> "WorkerImage":
    """The Docker sandbox's image, built if need be; see ``sandbox.docker_build``.

    Raises:
        MissingError: no engine, no such base, or a base that does not do.
        SandboxError: the engine cannot build it.
    """
    from kernelsmith.sandbox import docker_build

    return docker_build.build_image(base, mount_python=mount_python, notice=notice)


def _judge(
    task: Task, device: Device, sandbox: Sandbox, secret_seed: int, pauses: Pauses | None = None
) -> Judge:
    from kernelsmith.gate.judge import Gate

    return Gate(task, device, sandbox, secret_seed, pauses=pauses)


def _prove(judge: Any, share: Share | None) -> dict[str, Any]:
    from kernelsmith.gate.proof import prove

    return prove(judge, share)


def proposer_names(name: str) -> tuple[str, ...]:
    """The proposers that an option names, each once.

    Raises:
        InputError: one does not exist.
    """
    wanted = tuple(dict.fromkeys(part.strip() for part in name.split(",")))
    if wanted == (PERSON,):
        return wanted
    for part in wanted:
        if part not in ("search", "agent"):
            raise InputError(f"no proposer {part!r}", hint="search, agent or search,agent")
    return wanted


@contextmanager
def _proposer(parts: ProposerParts) -> Iterator[Proposer]:
    wanted = proposer_names(parts.name)
    if wanted == (PERSON,):
        from kernelsmith.proposers.person import Person

        yield Person()
        return
    from kernelsmith.proposers.search import Search

    if wanted == ("search",):
        yield Search(parts.seed)
        return
    with _agent(parts) as agent:
        if wanted == ("agent",):
            yield agent
            return
        from kernelsmith.proposers.mixed import Mixed

        yield Mixed(Search(parts.seed), agent, parts.tasks)


@contextmanager
def _agent(parts: ProposerParts) -> Iterator[Proposer]:
    """The agent, its journal and the proxy between it and the model server."""
    from kernelsmith import capture, rehearsal
    from kernelsmith.lineage.database import RUN_PATIENCE_S, Patience
    from kernelsmith.lineage.journal import open_journal
    from kernelsmith.proposers.agent import Agent, Budget, CountingJournal

    if parts.agent is None:
        raise InputError("the agent has no settings", hint="start the run again")
    with ExitStack() as stack:
        journal = open_journal(parts.db, patience=Patience(seconds=RUN_PATIENCE_S))
        stack.callback(journal.close)
        endpoint = parts.endpoint
        if endpoint is None:
            played = stack.enter_context(rehearsal.running())
            endpoint = Endpoint(base_url=played, api_key="rehearsal")
        sessions, spent = journal.resumable(parts.run_id)
        budget = Budget(parts.agent, spent)
        counting = CountingJournal(journal=journal, budget=budget)
        own = capture.OneRun(run_id=parts.run_id, token=secrets.token_urlsafe(32))
        proxy = stack.enter_context(
            capture.running(counting, endpoint.base_url, only=own, pauses=parts.pauses)
        )
        agent = Agent(
            settings=parts.agent,
            tasks=parts.tasks,
            judges=parts.judges,
            seeds={task.name: seed_candidate(task) for task in parts.tasks},
            device_facts=parts.device_facts,
            journal=journal,
            run_id=parts.run_id,
            base_url=f"{proxy}/k/{parts.run_id}",
            api_key=endpoint.api_key,
            proxy_token=own.token,
            normal_hash=parts.normal_hash,
            budget=budget,
            sessions=sessions,
            pauses=parts.pauses,
        )
        stack.callback(agent.close)
        yield agent


def _normal_hash(source: str) -> str:
    from kernelsmith.proposers.search import normalised_hash

    return normalised_hash(source)
