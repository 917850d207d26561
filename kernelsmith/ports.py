"""The seams of kernelsmith: sandbox with its workers, judge, proposer, device, store.

Adapters are built in ``wiring.py`` and nowhere else.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, runtime_checkable

from kernelsmith.model import (
    Candidate,
    Gain,
    Job,
    JobResult,
    JournalEntry,
    Look,
    LookKind,
    Task,
    Verdict,
)

Role = Literal["frontend", "launcher", "seed"]


class Worker(Protocol):
    """A warm process inside the wall. Roles: "frontend" holds candidate Python, "launcher" holds
    candidate machine code, "seed" is a launcher that only ever holds the seed's."""

    def submit(self, job: Job, files: Mapping[str, bytes] | None = None) -> "Reply":
        """Runs one job. ``files`` are laid beside it. A candidate's crash or time-out comes back
        as the result's ``failure``; SandboxError is raised when the machine is to blame."""

    def renew(self) -> None:
        """Ends what runs; the next job meets a newly started worker."""

    def close(self) -> None: ...


class Reply(Protocol):
    """A validated result and the binary files beside it. Close it to free the folder."""

    @property
    def result(self) -> JobResult: ...
    def read(self, name: str, offset: int = 0, nbytes: int | None = None) -> bytes: ...
    def close(self) -> None: ...


class Sandbox(Protocol):
    """Starts workers behind a wall; ``describe`` goes into every record."""

    def start(self, role: Role) -> Worker: ...
    def describe(self) -> dict[str, Any]: ...
    def pause(self) -> None:
        """All processes of all workers stand still when it returns; their memory stays. Time
        limits of jobs under way stand still too. Pausing twice is harmless."""

    def resume(self) -> None:
        """They go on where they stood."""

    def close(self) -> None: ...


@runtime_checkable
class Rooted(Protocol):
    """A sandbox whose workers are no descendants of the host's process."""

    def roots(self) -> list[int]:
        """The first process of each worker, as the host numbers it."""


class Judge(Protocol):
    """The gate. ``incumbent`` is the candidate to beat (the seed at first), ``confirms`` how many
    judgements of this run reached confirm before this one, or may have before they were cut off,
    ``number`` which of this gate's judgements it is (None: the next): a recorded one's draws its
    hidden shapes again."""

    def judge(
        self,
        candidate: Candidate,
        incumbent: Candidate,
        confirms: int,
        number: int | None = None,
    ) -> Verdict: ...
    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        """Times a winner against the seed (end of run): (holds, gain, evidence). ``timings``: how
        many such timings of this task were begun in this run before."""

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        """A quick look for whoever is still writing: decides nothing, pools nothing into
        confirm, shows nothing hidden."""

    def machine_fault(self) -> str:
        """What fails when the seed goes through the workers that hold candidates; "" if nothing
        does: then this machine is sound, and what failed before was not its doing."""

    def close(self) -> None: ...


class Proposer(Protocol):
    """Makes candidates. It sees the lineage of this run, never hidden cases or seeds of inputs."""

    name: str

    def choose(self, histories: Mapping[str, Sequence["Judged"]], wait_s: float) -> str | None:
        """Which of these open tasks (the one with the least time so far first) to propose for
        next; None: none within ``wait_s`` seconds, ask again."""

    def propose(self, task: Task, history: Sequence["Judged"]) -> Candidate | None:
        """The next candidate; None: nothing is left to try for this task. A proposer without a
        model is pure given (seed, history): a resumed run that feeds the same history gets the
        same next candidate."""

    def standing(self) -> str:
        """One line for display: what was spent and what is under way; "" if nothing is."""

    def close(self, histories: Mapping[str, Sequence["Judged"]] | None = None) -> None:
        """Ends what is under way; nothing is spent from here on. ``histories``: the last verdicts
        too are passed on to whoever waits for one."""


@runtime_checkable
class OutlivesAgent(Protocol):
    """A proposer that goes on when the agent in it has ended."""

    def ended_early(self) -> str:
        """Why the agent ended before the run; "" while it has not."""


@runtime_checkable
class Rechecked(Protocol):
    """A judge that can tell whether its workers still are what they were."""

    def recheck(self, nonce: str) -> dict[str, Any]:
        """After a pause: every worker answers a job that carries ``nonce``, and a case of the seed
        gives the bits on record. Where it does not, workers are started anew, once. Returns what
        was seen, JSON-able.

        Raises:
            EvidenceError: it does not after that either.
        """


class Judged(Protocol):
    """What a proposer may see of an earlier candidate of this run and task."""

    @property
    def candidate(self) -> Candidate: ...
    @property
    def status(self) -> str: ...
    @property
    def gain_vs_seed(self) -> float | None: ...
    @property
    def message(self) -> str: ...
    @property
    def check(self) -> str:
        """The check that failed; "" if none did."""

    @property
    def gain(self) -> Gain | None:
        """Against the incumbent of its time, by case, where confirm measured it."""


class Journal(Protocol):
    """The record of conversations with a model. Any thread may call it."""

    def append(self, entry: JournalEntry) -> "Future[str]":
        """Records one entry in one transaction, blobs included. The future gives its id (a call's
        for CallSent) once it is durable, or raises StorageError or DatabaseError."""


class Device(Protocol):
    """What compiles and runs TTIR."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> str:
        """What workers are told: the name, and on a GPU its architecture ("cuda:90")."""

    def describe(self) -> dict[str, Any]:
        """JSON-able facts that belong to the epoch: device, compiler versions, flags, CPU."""

    def object_id(self, ttir: str) -> str:
        """Hash of what decides the machine code: canonical text, device epoch."""

    def turn(self, *, alone: bool) -> AbstractContextManager[None]:
        """Holds the device while a job runs on it: alone for timing, else with others."""


class Store(Protocol):
    """The lineage. One transaction a step; append-only."""

    def append(self, run_id: str, kind: str, payload: Mapping[str, Any]) -> str: ...
    def history(self, run_id: str, task: str) -> Sequence[Judged]: ...
    def pending(self, run_id: str, task: str) -> Sequence[Candidate]:
        """Candidates on record that still wait for a verdict, in order."""

    def stop_requested(self, run_id: str) -> bool:
        """Whether someone asked this run to stop since it was last started or resumed."""

    def close(self) -> None: ...
