"""Ways out of a sandbox, tried as real jobs in its real workers: what stopped each, what was said.

The ways are in ``escapes/*.toml``, Python each. In a "trace" job it is a candidate's own Python,
as if the policy did not exist. In the other jobs it stands for machine code or a compiler that
somebody has taken over: the job carries an object whose iteration runs it, which the worker does
in the child, behind the whole wall.

A way ends with ``Refused`` (by which errors) or ``Escaped``; a limit may end it before. Whatever it
says, the host then looks: at canaries (a secret, a file, a process, sockets), at the template, at
processes and files that are left.
"""

import errno
import os
import re
import socket
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernelsmith.errors import KernelsmithError
from kernelsmith.model import CompileJob, Job, RunJob, TimeJob, TraceCall, TraceJob
from kernelsmith.ports import Reply, Role
from kernelsmith.sandbox import freezing, removal
from kernelsmith.sandbox.pool import Leased

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import cheats_canaries  # noqa: E402

from .conftest import SMALL  # noqa: E402

FILES = Path(__file__).parent / "escapes"
SANDBOXES = ("process", "bubblewrap", "docker")
KINDS = ("trace", "compile", "compile_gpu", "run", "time")
ENGINES = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")
BLOCKED, OPEN = "blocked", "open"
# What is killed while it holds much memory goes slowly on a busy machine.
LEFT_S = 10.0
SAID_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape:
    """One way out. ``then``: what the next job runs, which must not find what this one left.
    ``finish``: it ends the process itself, with an answer of its own. ``slow``: it takes seconds.
    ``open``: where no wall stops it, and why that is so; by sandboxes or kinds, as words."""

    group: str
    name: str
    code: str
    kinds: tuple[str, ...] = KINDS
    then: str = ""
    finish: bool = False
    slow: bool = False
    timeout_s: float = 10.0
    open: Mapping[str, str] = field(default_factory=dict)

    def why_open(self, sandbox: str, kind: str) -> str:
        """Why it is known not to be stopped there; "" where it must be."""
        where = {sandbox, kind}
        return next((why for words, why in self.open.items() if where & {*words.split()}), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``how``: the errors, or the limit, that stopped it; ``reported``: what the host says of the
    job, in one line."""

    state: str
    how: str
    reported: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Carried:
    """An empty mapping on the host; in the worker an object that runs ``code`` when it is iterated,
    or (``called``) when its items are asked for."""

    code: str
    called: bool

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __reduce__(self) -> tuple[Any, ...]:
        if self.called:
            return partial(SimpleNamespace, items=partial(exec, self.code, {})), ()
        return map, (partial(exec, self.code), [{}])


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a way out may reach if it gets out."""

    canaries: Any
    names: Mapping[str, Any]

    def touched(self, said: str) -> str:
        """What was done to it, in one line; "" if nothing. All is put back."""
        found = [*self.canaries.touched(said)]
        canary = self.canaries.process.pid
        if not found and os.getpriority(os.PRIO_PROCESS, canary) != os.getpriority(
            os.PRIO_PROCESS, os.getpid()
        ):
            found.append("a process's priority was changed")
        if not found and os.sched_getaffinity(canary) != os.sched_getaffinity(0):
            found.append("a process's processors were changed")
        return "; ".join(found)


def role_of(kind: str) -> Role:
    """Which worker runs jobs of this kind."""
    return "frontend" if kind == "trace" else "launcher"


def load(only: str = "") -> list[Escape]:
    """All ways whose name holds ``only``, by file."""
    return [
        Escape(group=path.stem, **{**one, "kinds": tuple(one.get("kinds", KINDS))})
        for path in sorted(FILES.glob("*.toml"))
        for one in tomllib.loads(path.read_text())["escape"]
        if only in one["name"]
    ]


@contextmanager
def host(place: Path) -> Iterator[Host]:
    """The canaries, in ``place``."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "runs.db").write_text("secret")
    abstract = f"kernelsmith-{os.getpid()}"
    with (
        cheats_canaries.Canaries(place / "canary", port=0) as canaries,
        socket.socket(socket.AF_UNIX) as by_path,
        socket.socket(socket.AF_UNIX) as by_name,
    ):
        by_path.bind(os.path.relpath(place / "socket"))
        by_name.bind("\0" + abstract)
        for one in (by_path, by_name):
            one.listen()
        names = {
            "FOLDER": str(canaries.folder),
            "PLACE": str(place),
            "HOST": os.getpid(),
            "PORT": canaries.port,
            "ABSTRACT": abstract,
            "HOME": str(Path.home()),
            "HOME_NAMES": sorted(os.listdir(Path.home())),
            "HOME_INSIDE": "/tmp",
            "REPOSITORY": str(ROOT),
            "SECRET_NAME": cheats_canaries.VARIABLE,
            "ENGINES": ENGINES,
        }
        try:
            yield Host(canaries=canaries, names=names)
        finally:
            (place / "socket").unlink()


def attempt(worker: Leased, escape: Escape, kind: str, around: Host) -> Outcome:
    """Tries one way as a job of this kind."""
    began_s = time.monotonic()
    around.canaries.set_out()
    names = {**around.names, "CANARY": around.canaries.process.pid}
    before = _seen(worker)
    said = _submit(worker, job_of(kind, program(escape, names), escape.timeout_s))
    state, how = _judged(said)
    if escape.then:
        next_said = _submit(worker, job_of(kind, program(escape, names, then=True), 10.0))
        state, how = _judged(next_said)
        said = f"{said}; the next job: {next_said}"
    seen = around.touched(said) or _left(worker, before)
    if seen:
        state, how = OPEN, seen
    seconds = round(time.monotonic() - began_s, 2)
    return Outcome(state=state, how=how, reported=_short(said), seconds=seconds)


def program(escape: Escape, names: Mapping[str, Any], *, then: bool = False) -> str:
    """The Python that the job runs."""
    lines = [f"{name} = {value!r}" for name, value in names.items()]
    code = escape.then if then else escape.code
    end = "raise Refused('done')" if escape.then and not then else "raise Escaped('went through')"
    prelude = (FILES / "prelude.py").read_text()
    return "\n".join([*lines, prelude, code, end, ""])


def job_of(kind: str, code: str, timeout_s: float) -> Job:
    """A job whose process runs ``code``."""
    if kind == "trace":
        call = TraceCall(key="the call", entry="forward", args=(("x", SMALL),), num_programs=1)
        source = f"def forward(x):\n    exec(compile({code!r}, 'escape', 'exec'), {{}})\n"
        calls = (call,)
        return TraceJob(
            source=source, entries=("forward",), calls=calls, device="cpu", timeout_s=timeout_s
        )
    carried: Any = Carried(code=code, called=kind == "run")
    if kind in ("compile", "compile_gpu"):
        device = "cuda:90" if kind == "compile_gpu" else "cpu"
        return CompileJob(ttirs=carried, device=device, timeout_s=timeout_s)
    if kind == "run":
        return RunJob(runs=(), objects=carried, object_of={}, device="cpu", timeout_s=timeout_s)
    return TimeJob(
        cases=(),
        objects=carried,
        object_of={},
        device="cpu",
        placement=1,
        verify=1,
        timeout_s=timeout_s,
    )


def _submit(worker: Leased, job: Job) -> str:
    """What the host says of the job, as one line."""
    try:
        reply: Reply = worker.submit(job)
    except KernelsmithError as error:
        return f"{type(error).__name__}: {' '.join(error.message.split())}"
    reply.close()
    failure = reply.result.failure
    if failure is None:
        return "ANSWERED"
    return f"{failure.status}: {failure.message} (at {failure.where!r})"


def _judged(said: str) -> tuple[str, str]:
    for name, state in (("Escaped", OPEN), ("Refused", BLOCKED)):
        found = re.search(rf"\b{name}: (.*?)(?: \(\S+:\d+\))?(?: \(at '[^']*'\))?$", said)
        if found:
            return state, found[1]
    if said == "ANSWERED":
        return OPEN, "the host took its answer"
    raised = re.search(r"\b([A-Z]\w+Error): \[Errno (\d+)\]", said)
    if raised:
        return BLOCKED, errno.errorcode.get(int(raised[2]), raised[1])
    return BLOCKED, _short(said.partition(" (at ")[0])


def _short(text: str) -> str:
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= SAID_CHARS else text[: SAID_CHARS - 1] + "…"


def _processes(worker: Leased) -> set[int]:
    """What stands around a template, the template and what it started, as the host numbers them."""
    line: Any = worker.worker.line
    return {each.pid for each in freezing.family([line.root()])}


def _seen(worker: Leased) -> tuple[object, set[int], set[str]]:
    """The template, the processes around it, the names in its spool."""
    worker.worker.started()
    names = {path.name for path in worker.worker.folder.iterdir()}
    return worker.worker.line, _processes(worker), names


def _left(worker: Leased, before: tuple[object, set[int], set[str]]) -> str:
    """What is there that was not; a template that ended is a way out too."""
    template, processes, names = before
    if worker.worker.line is not template:
        return "the template was ended"
    deadline_s = time.monotonic() + LEFT_S
    while left := _processes(worker) - processes:
        if time.monotonic() > deadline_s:
            return f"{len(left)} processes are left"
        time.sleep(0.02)
    new = {path.name for path in worker.worker.folder.iterdir()} - names
    for name in new:
        removal.remove_tree(worker.worker.folder / name)
    return f"the spool still has {sorted(new)[:3]}" if new else ""
