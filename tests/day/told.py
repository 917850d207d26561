"""A run that takes seconds: proposals are told, bits are judged for real, the clock is told."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kernelsmith.gate.judge import BITS, Gate
from kernelsmith.model import (
    Candidate,
    CaseGain,
    CheckResult,
    Gain,
    Look,
    LookKind,
    Task,
    Verdict,
    new_candidate,
    seed_candidate,
)
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Device, Proposer, Sandbox
from kernelsmith.wiring import ProposerParts, Wiring, real

WRONG = ("weight + 1.0", "weight + 1.0625")
FASTER = ("BLOCK=64", "BLOCK=128")
GAIN = 1.25
TIMED = ("latency", "confirm")


@dataclass
class Told:
    """Proposes one rewrite with other bits, then one with the seed's."""

    seed: int = 0
    name: str = "search"
    changes: list[tuple[str, tuple[str, str]]] = field(
        default_factory=lambda: [("other arithmetic", WRONG), ("a wider block", FASTER)]
    )

    def choose(self, histories: Mapping[str, Sequence[Any]], wait_s: float) -> str | None:
        return next(iter(histories))

    def propose(self, task: Task, history: Sequence[Any]) -> Candidate | None:
        if len(history) >= len(self.changes):
            return None
        note, (old, new) = self.changes[len(history)]
        assert old in task.seed_source
        return new_candidate(
            task.seed_source.replace(old, new),
            task.name,
            author="search",
            parents=(seed_candidate(task).id,),
            changes=(f"{old} -> {new}",),
            note=note,
        )

    def standing(self) -> str:
        return ""

    def close(self, histories: Any = None) -> None:
        return None


@dataclass
class ToldClock:
    """The gate's checks about bits, then a gain that is told: a day of tests times nothing."""

    gate: Gate

    def judge(
        self, candidate: Candidate, incumbent: Candidate, confirms: int, number: int | None = None
    ) -> Verdict:
        verdict = self.gate.judge_bits(candidate, (*BITS, "order", "declared_range"))
        if not verdict.accepted:
            return verdict
        told = [CheckResult(name=name, status="pass", seconds=0.0) for name in TIMED]
        timed = {"session": f"{candidate.id} 1 screen", "against": incumbent.id}
        return replace(
            verdict,
            checks=(*verdict.checks, *told),
            gain=self._gain(incumbent.id, 8),
            samples=(timed,),
        )

    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        return True, self._gain(self.gate.seed.id, sessions), {"samples": [{}] * sessions}

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        return self.gate.look(candidate, incumbent, kind)

    def machine_fault(self) -> str:
        return self.gate.machine_fault()

    def close(self) -> None:
        self.gate.close()

    def _gain(self, against: str, sessions: int) -> Gain:
        timed = [case for case in self.gate.task.cases if case.weight > 0]
        return Gain(
            geomean=GAIN,
            low=GAIN - 0.01,
            high=GAIN + 0.01,
            sessions=sessions,
            cases=tuple(
                CaseGain(case=case.id, path=self.gate.task.call(case.call).path, gain=GAIN)
                for case in timed
            ),
            against=against,
        )


def told_wiring() -> Wiring:
    """What users get, but for who proposes and for the clock."""

    def judge(
        task: Task,
        device: Device,
        sandbox: Sandbox,
        secret_seed: int,
        pauses: Pauses | None = None,
        /,
    ) -> ToldClock:
        return ToldClock(Gate(task, device, sandbox, secret_seed, pauses=pauses))

    @contextmanager
    def proposer(parts: ProposerParts) -> Iterator[Proposer]:
        yield Told(seed=parts.seed)

    def prove(judge: Any, share: Any) -> dict[str, Any]:
        proof = {"tried": 0, "rejected": 0}
        return {"cheats": proof, "mutants": proof, "seed": "pass", "unchecked": []}

    return replace(real(), judge=judge, proposer=proposer, prove=prove)
