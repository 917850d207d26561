"""``kernelsmith`` with another judge: ``python benchmarks/agent/program.py JUDGE ARGUMENTS...``.

JUDGE is "nothing" (each candidate is turned down at once), "bits" (the gate's first look at bits,
once a source, then turned down as not faster), "gate" (the gate as it is, watched) or "played"
(what the gate is known to say of played candidates, watched). The self-proof is left out in all;
everything else is what users get. ``BENCH_STAMPS``: a file that gets one line, the clock, for each
verdict of the first two, or for each look where ``BENCH_STAMP_LOOKS`` is set.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import watched

from kernelsmith.cli.main import main
from kernelsmith.errors import EvidenceError
from kernelsmith.gate.judge import Gate
from kernelsmith.model import (
    Candidate,
    CheckResult,
    Gain,
    Look,
    LookKind,
    Share,
    Task,
    Verdict,
)
from kernelsmith.ports import Device, Judge, Sandbox
from kernelsmith.wiring import Wiring, real

LOOK = ("policy", "trace", "compile", "parity.train", "parity.infer")
NOT_TIMED = CheckResult(name="latency", status="fail", seconds=0.0, message="not timed here")


@dataclass(slots=True)
class JudgeOfNothing:
    """Turns every candidate down at once."""

    task: Task
    device: dict[str, Any]

    def judge(self, candidate: Candidate, incumbent: Candidate, confirms: int) -> Verdict:
        stamp(look=False)
        return Verdict(
            candidate=candidate.id,
            task=self.task.name,
            status="NOT_FASTER",
            checks=(NOT_TIMED,),
            gain=None,
            unchecked=(),
            epoch="none",
            device=self.device,
        )

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        stamp(look=True)
        return Look(kind=kind, candidate=candidate.id, status=None, checks=(), seconds=0.0)

    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        raise EvidenceError("nothing was accepted, so nothing can be re-timed")

    def machine_fault(self) -> str:
        return ""

    def close(self) -> None:
        return None


@dataclass(slots=True)
class JudgeOfBits:
    """The gate's first look at bits, once a source; accepts nothing."""

    gate: Gate
    found: dict[str, Verdict] = field(default_factory=dict)

    def judge(self, candidate: Candidate, incumbent: Candidate, confirms: int) -> Verdict:
        verdict = self._bits(candidate)
        stamp(look=False)
        if not verdict.accepted:
            return verdict
        return replace(verdict, status="NOT_FASTER", checks=(*verdict.checks, NOT_TIMED))

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        verdict = self._bits(candidate)
        stamp(look=True)
        return Look(
            kind=kind,
            candidate=candidate.id,
            status=None if verdict.accepted else verdict.status,
            checks=verdict.checks,
            seconds=sum(check.seconds for check in verdict.checks),
        )

    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        raise EvidenceError("nothing was accepted, so nothing can be re-timed")

    def machine_fault(self) -> str:
        return self.gate.machine_fault()

    def close(self) -> None:
        self.gate.close()

    def _bits(self, candidate: Candidate) -> Verdict:
        if candidate.id not in self.found:
            self.found[candidate.id] = self.gate.judge_bits(candidate, LOOK)
        return self.found[candidate.id]


def stamp(*, look: bool) -> None:
    """One line for a look or a verdict, if it is the one that is counted."""
    if look == bool(os.environ.get("BENCH_STAMP_LOOKS")):
        with open(os.environ["BENCH_STAMPS"], "a", encoding="ascii") as file:
            file.write(f"{time.monotonic():.6f}\n")


def nothing(task: Task, device: Device, sandbox: Sandbox, secret_seed: int, *_: Any) -> Judge:
    return JudgeOfNothing(task, device.describe())


def bits(task: Task, device: Device, sandbox: Sandbox, secret_seed: int, *_: Any) -> Judge:
    judge = JudgeOfBits(Gate(task, device, sandbox, secret_seed))
    judge.gate.judge_bits(judge.gate.seed, LOOK)  # the seed's bits, before the run begins
    return judge


def gate(task: Task, device: Device, sandbox: Sandbox, secret_seed: int, *more: Any) -> Judge:
    judge = real().judge(task, device, sandbox, secret_seed, *more)
    return watched.Watched(judge_of=judge, task=task.name)


def played(task: Task, device: Device, sandbox: Sandbox, secret_seed: int, *_: Any) -> Judge:
    known = watched.played_statuses(task.name)
    judge = watched.JudgeOfPlayed(task=task, device=device.describe(), known=known)
    return watched.Watched(judge_of=judge, task=task.name)


JUDGES: dict[str, Callable[..., Judge]] = {
    "nothing": nothing,
    "bits": bits,
    "gate": gate,
    "played": played,
}


def unproved(judge: Any, share: Share | None) -> dict[str, Any]:
    """In place of the self-proof."""
    return {
        "cheats": {"tried": 0, "rejected": 0},
        "mutants": {"tried": 0, "rejected": 0},
        "seed": "unchecked",
        "unchecked": ("cheats", "mutants"),
    }


def wiring(judge: str) -> Wiring:
    return replace(real(), judge=JUDGES[judge], prove=unproved)


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], wiring=wiring(sys.argv[1])))
