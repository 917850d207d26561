"""``kernelsmith`` with real workers and a gate that decides by bits alone, so that two runs with
one seed decide alike on however busy a machine: ``python bits_wiring.py run rms_norm ...``."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kernelsmith.cli.main import main
from kernelsmith.gate.judge import Gate
from kernelsmith.model import Candidate, CaseGain, Gain, Look, LookKind, Task, Verdict
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Device, Sandbox
from kernelsmith.wiring import Wiring, real

CHECKS = ("policy", "trace", "compile", "parity.train", "parity.infer", "determinism")


@dataclass(frozen=True)
class JudgeOfBits:
    """Accepts whatever keeps its bits, as if it were 1 % faster."""

    gate: Gate

    def judge(
        self, candidate: Candidate, incumbent: Candidate, confirms: int, number: int | None = None
    ) -> Verdict:
        verdict = self.gate.judge_bits(candidate, CHECKS)
        gain = self._gain(incumbent.id) if verdict.accepted else None
        return replace(verdict, gain=gain)

    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        return True, self._gain("seed"), {}

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        return self.gate.look(candidate, incumbent, kind)

    def machine_fault(self) -> str:
        return self.gate.machine_fault()

    def recheck(self, nonce: str) -> dict[str, Any]:
        return self.gate.recheck(nonce)

    def close(self) -> None:
        self.gate.close()

    def _gain(self, against: str) -> Gain:
        cases = tuple(
            CaseGain(case=case.id, path=self.gate.task.call(case.call).path, gain=1.01)
            for case in self.gate.task.cases
            if case.weight
        )
        return Gain(geomean=1.01, low=1.0, high=1.02, sessions=8, cases=cases, against=against)


def judge(
    task: Task, device: Device, sandbox: Sandbox, secret_seed: int, pauses: Pauses | None = None
) -> JudgeOfBits:
    return JudgeOfBits(Gate(task, device, sandbox, secret_seed, pauses=pauses))


def prove(judge: Any, share: Any) -> dict[str, Any]:
    """The seed alone, which makes it ready."""
    judge.gate.judge_bits(judge.gate.seed, CHECKS)
    counts = {"tried": 0, "rejected": 0}
    return {"cheats": counts, "mutants": counts, "checks": {}, "seed": "pass"}


def load_task(name: str, device: str, folders: Sequence[Path]) -> Task:
    """Plain calls in bfloat16, one small case a call form."""
    task = real().load_task(name, device, folders)
    chosen = {}
    for case in sorted(task.cases, key=lambda c: (c.dim("M") < 33, c.dim("M") * c.dim("N"))):
        if case.call in ("train", "infer", "backward") and case.dtype == "bfloat16":
            chosen.setdefault(case.call, replace(case, weight=1.0))
    return replace(task, cases=tuple(chosen.values()), token_range=(0, 12), ranges=())


def bits_wiring() -> Wiring:
    return replace(real(), judge=judge, prove=prove, load_task=load_task)


if __name__ == "__main__":
    sys.exit(main(wiring=bits_wiring()))
