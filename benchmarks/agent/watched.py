"""A judge whose work is written down, and one that knows the played candidates without a gate.

``BENCH_GATE_LOG``: a file that gets one line of JSON when a look, a judgement or a final timing
begins and one when it ends.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kernelsmith.model import (
    Candidate,
    CaseGain,
    CheckResult,
    Gain,
    KernelCode,
    Look,
    LookKind,
    Status,
    Task,
    Verdict,
    candidate_id,
)
from kernelsmith.ports import Judge
from kernelsmith.rehearsal import variants

PASSED = "ACCEPTED"
SESSIONS = 8
"""Sessions of a final timing in these runs: it comes after all that is killed here."""


@dataclass(slots=True, kw_only=True)
class Watched:
    """Passes everything on and writes down when it began and ended."""

    judge_of: Judge
    task: str
    sessions: int = SESSIONS

    def judge(self, candidate: Candidate, incumbent: Candidate, confirms: int) -> Verdict:
        with self._noted("judge", candidate):
            return self.judge_of.judge(candidate, incumbent, confirms)

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        with self._noted(kind, candidate):
            return self.judge_of.look(candidate, incumbent, kind)

    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        with self._noted("retime", candidate):
            return self.judge_of.retime(candidate, self.sessions, timings)

    def machine_fault(self) -> str:
        return self.judge_of.machine_fault()

    def close(self) -> None:
        self.judge_of.close()

    @contextmanager
    def _noted(self, what: str, candidate: Candidate) -> Iterator[None]:
        facts = {"pid": os.getpid(), "task": self.task, "what": what, "candidate": candidate.id}
        _note({**facts, "phase": "begin"})
        yield
        _note({**facts, "phase": "end"})


def _note(facts: dict[str, Any]) -> None:
    line = json.dumps({**facts, "at_s": time.monotonic()}) + "\n"
    log = os.open(os.environ["BENCH_GATE_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(log, line.encode())
    finally:
        os.close(log)


@dataclass(slots=True, kw_only=True)
class JudgeOfPlayed:
    """Says of each played candidate what the gate is known to say of it, after a pause. Nothing
    is compiled or run."""

    task: Task
    device: dict[str, Any]
    known: dict[str, str]
    sleep: Callable[[float], None] = time.sleep

    def judge(self, candidate: Candidate, incumbent: Candidate, confirms: int) -> Verdict:
        self.sleep(0.15)
        status = self._status(candidate)
        gain = None if status != PASSED else _gain(incumbent.id)
        return Verdict(
            candidate=candidate.id,
            task=self.task.name,
            status=status,
            checks=_checks(status),
            gain=gain,
            unchecked=(),
            epoch="none",
            device=self.device,
        )

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        self.sleep(0.05)
        status = self._status(candidate)
        found = Look(
            kind=kind, candidate=candidate.id, status=None, checks=_checks(PASSED), seconds=0.05
        )
        if status in ("POLICY", "BITS_DIFFER"):
            return replace(found, status=status, checks=_checks(status))
        if kind == "time":
            warm = 1.2 if status == PASSED else 1.0
            gains = (CaseGain(case="played", path="infer", gain=warm),)
            timed = replace(found, against=incumbent.id, gains=gains)
            return replace(timed, gain_warm=warm, gain_cold=warm)
        if kind == "code":
            kernel = KernelCode(kernel="_played", cases=(), options={}, ttir="", assembly="")
            return replace(found, kernels=(kernel,))
        return found

    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        return True, _gain("seed"), {"sessions": []}

    def machine_fault(self) -> str:
        return ""

    def close(self) -> None:
        return None

    def _status(self, candidate: Candidate) -> Status:
        status: Any = self.known.get(candidate.id, "NOT_FASTER")
        return status


def played_statuses(task: str) -> dict[str, str]:
    """Status by candidate id, of the task's winner and of what is near it."""
    known = {candidate_id(variants.winner(task)): "ACCEPTED"}
    for name, variant in variants.VARIANTS[task].items():
        known[candidate_id(variants.source(task, name))] = variant.status
    return known


def _checks(status: Status) -> tuple[CheckResult, ...]:
    failing = {"POLICY": "policy", "BITS_DIFFER": "parity.train", "NOT_FASTER": "latency"}
    found = []
    for name in ("policy", "trace", "compile", "parity.train", "parity.infer", "latency"):
        if failing.get(status) == name:
            message = f"{status} as played"
            found.append(CheckResult(name=name, status="fail", seconds=0.0, message=message))
            return tuple(found)
        found.append(CheckResult(name=name, status="pass", seconds=0.0))
    return (*found, CheckResult(name="confirm", status="pass", seconds=0.1))


def _gain(against: str) -> Gain:
    cases = (CaseGain(case="played", path="infer", gain=1.2),)
    return Gain(geomean=1.2, low=1.1, high=1.3, sessions=SESSIONS, cases=cases, against=against)
