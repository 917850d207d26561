"""Tasks, a proposer and a judge without kernels: quick, deterministic, told what to do."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelsmith.errors import SandboxError
from kernelsmith.model import (
    Candidate,
    CaseGain,
    CheckResult,
    Gain,
    Look,
    LookKind,
    Task,
    Verdict,
)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def make_task(name: str = "toy", seed_source: str | None = None) -> Task:
    return Task(
        name=name,
        device="cpu",
        seed_name=name,
        seed_source=seed_source or f"# the seed of {name}\n",
        summary="a toy",
        entries=("forward_train",),
        calls=(),
        cases=(),
        token_dim="M",
        token_range=(0, 64),
        ranges=(),
        num_programs=2,
        min_gain=0.01,
        max_regress=0.03,
        shipped=True,
    )


def make_candidate(source: str, task: str = "toy", parents: tuple[str, ...] = ()) -> Candidate:
    return Candidate(
        id=sha(source)[:16],
        task=task,
        source=source,
        parents=parents,
        author="search",
        changes=("BLOCK",),
    )


def seed_of(task: Task) -> Candidate:
    source = task.seed_source
    return Candidate(id=sha(source)[:16], task=task.name, source=source, parents=(), author="seed")


def normal_hash(source: str) -> str:
    return sha("\n".join(line.rstrip() for line in source.splitlines()).strip())


@dataclass
class FakeProposer:
    """Next source from seed and history alone; every ``repeat``-th says an earlier thing again."""

    seed: int = 0
    limit: int = 10_000
    repeat: int = 0
    name: str = "search"
    closed: bool = False

    def choose(self, histories: Mapping[str, Sequence[Any]], wait_s: float) -> str | None:
        return next(iter(histories))

    def standing(self) -> str:
        return ""

    def close(self, histories: Any = None) -> None:
        self.closed = True

    def propose(self, task: Task, history: Sequence[Any]) -> Candidate | None:
        count = len(history)
        if count >= self.limit:
            return None
        told = sha(f"{self.seed} {[(p.candidate.id, p.status, p.gain_vs_seed) for p in history]}")
        parents = (history[-1].candidate.id,) if history else (seed_of(task).id,)
        if history and history[-1].status == "DUPLICATE":
            parents = (seed_of(task).id,)
        if self.repeat and count % self.repeat == self.repeat - 1:
            return make_candidate(history[0].candidate.source + "  \n" * count, task.name, parents)
        return make_candidate(f"# {task.name} {count} {told}\n", task.name, parents)


@dataclass
class Parrot:
    """Proposes the seed, with another space behind it each time."""

    name: str = "search"

    def choose(self, histories: Mapping[str, Sequence[Any]], wait_s: float) -> str | None:
        return next(iter(histories))

    def standing(self) -> str:
        return ""

    def close(self, histories: Any = None) -> None:
        return None

    def propose(self, task: Task, history: Sequence[Any]) -> Candidate | None:
        seed = seed_of(task)
        return make_candidate(seed.source + " " * (len(history) + 1), task.name, (seed.id,))


def make_verdict(
    candidate: Candidate, status: str = "ACCEPTED", gain: float = 1.05, against: str = "seed"
) -> Verdict:
    passed = [CheckResult(name=name, status="pass", seconds=0.1) for name in ("policy", "trace")]
    unchecked = CheckResult(name="order", status="unchecked", seconds=0.0)
    if status == "POLICY":
        checks = [CheckResult(name="policy", status="fail", seconds=0.1, message="3:1: no exec")]
    elif status == "BITS_DIFFER":
        evidence = {"case": "m16", "index": [0, 3], "expected": "0x3f80", "actual": "0x3f81"}
        message = "case m16: y[0, 3]: 0x3f81, expected 0x3f80"
        bits = CheckResult(
            name="parity.train", status="fail", seconds=0.1, message=message, evidence=evidence
        )
        checks = [*passed, bits]
    else:
        confirm = CheckResult(
            name="confirm",
            status="pass" if status == "ACCEPTED" else "fail",
            seconds=1.5,
            message="" if status == "ACCEPTED" else "not faster",
            evidence={"e_value": 25.6},
        )
        checks = [*passed, unchecked, confirm]
    timed = status in ("ACCEPTED", "NOT_FASTER")
    return Verdict(
        candidate=candidate.id,
        task=candidate.task,
        status=status,  # type: ignore[arg-type]
        checks=tuple(checks),
        gain=make_gain(gain if status == "ACCEPTED" else 0.99, against) if timed else None,
        unchecked=("order",) if timed else (),
        epoch="e" * 16,
        device={"device": "cpu", "cpu": "a toy"},
        samples=({"session": 0, "scores": [gain]}, {"session": 1, "scores": [gain]})
        if timed
        else (),
    )


def make_gain(geomean: float, against: str, sessions: int = 8) -> Gain:
    return Gain(
        geomean=geomean,
        low=geomean - 0.01,
        high=geomean + 0.01,
        sessions=sessions,
        cases=(CaseGain(case="m16", path="infer", gain=geomean),),
        against=against,
    )


def by_id(candidate: Candidate) -> str:
    """A status that the candidate's own hash decides."""
    kinds = ("POLICY", "BITS_DIFFER", "NOT_FASTER", "ACCEPTED")
    return kinds[int(candidate.id, 16) % len(kinds)]


@dataclass
class FakeJudge:
    """``status`` decides each verdict; ``holds`` the final timing; ``fails`` says whether the
    machine fails first; ``fault`` what the seed shows of it. ``mark``: a file touched when judging
    begins. ``clock`` moves by ``cost_s`` a verdict and ``session_s`` a session."""

    status: Callable[[Candidate], str] = by_id
    holds: Callable[[Candidate], bool] = lambda candidate: True
    fails: Callable[[Candidate], bool] = lambda candidate: False
    sleep_s: float = 0.0
    mark: str = ""
    gainless: bool = False
    clock: list[float] = field(default_factory=lambda: [0.0])
    cost_s: float = 1.0
    session_s: float = 0.1
    judged: list[tuple[str, str, int]] = field(default_factory=list)
    retimed: list[str] = field(default_factory=list)
    timings: list[int] = field(default_factory=list)
    closed: bool = False
    fault: Callable[[], str] = lambda: ""
    cut_retiming: list[BaseException] = field(default_factory=list)

    def judge(
        self,
        candidate: Candidate,
        incumbent: Candidate,
        confirms: int,
        number: int | None = None,
    ) -> Verdict:
        self.clock[0] += self.cost_s
        self.judged.append((candidate.id, incumbent.id, confirms))
        if self.mark:
            Path(self.mark).touch()
        if self.sleep_s:
            time.sleep(self.sleep_s)
        if self.fails(candidate):
            raise SandboxError("the template died")
        verdict = make_verdict(candidate, self.status(candidate), against=incumbent.id)
        return replace(verdict, gain=None) if self.gainless else verdict

    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        self.clock[0] += self.session_s * sessions
        self.retimed.append(candidate.id)
        self.timings.append(timings)
        if self.cut_retiming:
            raise self.cut_retiming.pop()
        gain = make_gain(1.2 if self.holds(candidate) else 0.98, "seed", sessions)
        return self.holds(candidate), gain, {"sessions": [{"scores": [gain.geomean]}] * sessions}

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        status = self.status(candidate) if kind == "bits" else "ACCEPTED"
        wrong = status in ("POLICY", "BITS_DIFFER")
        verdict = make_verdict(candidate, status if wrong else "ACCEPTED")
        return Look(
            kind=kind,
            candidate=candidate.id,
            status=verdict.status if wrong else None,
            checks=verdict.checks,
            seconds=0.0,
            against=incumbent.id,
        )

    def machine_fault(self) -> str:
        return self.fault()

    def close(self) -> None:
        self.closed = True


def run_payload(tasks: Sequence[Task], **more: Any) -> Mapping[str, Any]:
    """What ``store.append("", "run", ...)`` takes."""
    return {
        "proposer": "search",
        "seed": 7,
        "secret_seed": 123456789,
        "device": "cpu",
        "device_facts": {"name": "cpu"},
        "sandbox": {"name": "process"},
        "versions": {"kernelsmith": "0"},
        "options": {"time_limit_s": 60.0},
        "seeds": [seed_of(task) for task in tasks],
        "normal_hashes": [normal_hash(task.seed_source) for task in tasks],
        "process": {"pid": 1},
        **more,
    }
