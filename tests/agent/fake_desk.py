"""A desk whose gate is a script: looks and verdicts by what the source says."""

from dataclasses import dataclass, field
from typing import Any

from kernelsmith import catalog
from kernelsmith.lineage.past import PastCandidate
from kernelsmith.model import (
    Candidate,
    CaseGain,
    CheckResult,
    Gain,
    KernelCode,
    Look,
    LookKind,
    Task,
    ToolDone,
    new_candidate,
    seed_candidate,
)
from kernelsmith.proposers.agent.desk import View
from kernelsmith.proposers.agent.tools import Toolbox, ToolReply
from kernelsmith.proposers.search import normalised_hash

BITS = ("policy", "trace", "compile", "parity.train", "parity.infer")
SESSION = "s0123456789a"
DIFFER = (
    "case train.bf16.M67-N1024.cancel, output y: 2 of 68608 elements differ, first at [3, 17]: "
    "expected 0x3f80 (1.0), actual 0x3f81 (1.0078125), 1 ulp apart"
)


def rms_norm() -> Task:
    return catalog.load_task("rms_norm", "cpu")


@dataclass
class FakeDesk:
    """``faults``: text in a source -> (status, failing check, its message); ``gain`` of a time
    look; ``log`` what reached the gate."""

    task: Task
    history: list[PastCandidate] = field(default_factory=list)
    faults: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    verdicts: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    gain: float = 1.05
    raises: Exception | None = None
    log: list[tuple[str, Candidate]] = field(default_factory=list)

    @property
    def seed(self) -> Candidate:
        return seed_candidate(self.task)

    def view(self, task: str) -> View:
        accepted = [one.candidate for one in self.history if one.status == "ACCEPTED"]
        incumbent = accepted[-1] if accepted else self.seed
        return View(
            task=self.task, seed=self.seed, incumbent=incumbent, history=tuple(self.history)
        )

    def seen(self, task: str, normal_hash: str) -> str | None:
        known = {normalised_hash(self.seed.source): self.seed.id}
        for one in self.history:
            known.setdefault(normalised_hash(one.candidate.source), one.candidate.id)
        return known.get(normal_hash)

    async def look(self, candidate: Candidate, kind: LookKind) -> Look:
        self.log.append((kind, candidate))
        if self.raises is not None:
            raise self.raises
        fault = next((f for text, f in self.faults.items() if text in candidate.source), None)
        checks = [CheckResult(name=name, status="pass", seconds=0.1) for name in BITS]
        if fault is not None:
            at = BITS.index(fault[1])
            failed = CheckResult(name=fault[1], status="fail", seconds=0.1, message=fault[2])
            return self._look(candidate, kind, fault[0], [*checks[:at], failed])
        if kind == "time":
            return self._timed(candidate, checks)
        if kind == "code":
            return self._look(candidate, kind, None, checks[:3], kernels=kernels())
        return self._look(candidate, kind, None, checks)

    def _look(
        self,
        candidate: Candidate,
        kind: LookKind,
        status: Any,
        checks: list[CheckResult],
        **rest: Any,
    ) -> Look:
        return Look(
            kind=kind,
            candidate=candidate.id,
            status=status,
            checks=tuple(checks),
            seconds=0.5,
            **rest,
        )

    def _timed(self, candidate: Candidate, checks: list[CheckResult]) -> Look:
        timed = [case for case in self.task.cases if case.weight > 0]
        gains = tuple(
            CaseGain(case=case.id, path=self.task.call(case.call).path, gain=self.gain)
            for case in timed
        )
        return self._look(
            candidate,
            "time",
            None,
            [*checks, CheckResult(name="latency", status="pass", seconds=1.0)],
            against=self.view(self.task.name).incumbent.id,
            gains=gains,
            gains_cold=gains,
            gain_warm=self.gain,
            gain_cold=self.gain,
            against_us={case.id: 20.0 for case in timed[1:]},
            candidate_us={case.id: 20.0 / self.gain for case in timed[1:]},
        )

    async def submit(self, candidate: Candidate) -> PastCandidate:
        self.log.append(("submit", candidate))
        verdict = next((v for text, v in self.verdicts.items() if text in candidate.source), None)
        status, check, message = verdict or ("ACCEPTED", "", "")
        one = past(candidate, status, check, message, self.gain if not verdict else None)
        self.history.append(one)
        return one


def past(
    candidate: Candidate,
    status: str,
    check: str = "",
    message: str = "",
    gain: float | None = None,
) -> PastCandidate:
    measured = None
    if gain is not None:
        cases = (CaseGain(case="residual_train.bf16.M257-N1024.normal", path="train", gain=gain),)
        measured = Gain(
            geomean=gain, low=gain, high=gain, sessions=8, cases=cases, against="0" * 16
        )
    return PastCandidate(
        candidate=candidate,
        status=status,
        gain_vs_seed=gain,
        message=message,
        check=check,
        gain=measured,
    )


def kernels() -> tuple[KernelCode, ...]:
    ttir = 'module {\n  tt.func @_forward() loc(#loc1)\n}\n#loc1 = loc("/home/someone/k.py":1:1)\n'
    assembly = (
        "\t.text\n_forward:                 # @_forward\n\tvaddps\t%zmm0, %zmm1, %zmm2 # note\n"
        "\tmovq\t%rax, 8(%rsp)             # 8-byte Spill\n\t.size\t_forward, 1\n"
    )

    def one(kernel: str, warps: int, case: str) -> KernelCode:
        return KernelCode(
            kernel=kernel,
            cases=("train.bf16.M67-N1024.cancel", case),
            options={"num_warps": warps},
            ttir=ttir,
            assembly=assembly,
            stats={"arena_bytes": 4160, "spills": 1},
        )

    return (
        one("_forward", 4, "train.bf16.M1-N1024.ties"),
        one("_backward_input", 4, "infer.bf16.M112-N128.normal"),
        one("_forward", 8, "residual_train.bf16.M257-N1024.normal"),
    )


def toolbox(desk: FakeDesk, session: str = SESSION, parent: Candidate | None = None) -> Toolbox:
    its_desk: Any = desk
    return Toolbox(desk.task, session, parent or desk.seed, its_desk, normalised_hash)


def recorded(name: str, reply: ToolReply, ordinal: int = 0) -> ToolDone:
    return ToolDone(
        session_id=SESSION,
        turn=ordinal,
        ordinal=0,
        tool_use_id=f"toolu_{ordinal}",
        name=name,
        text=reply.text,
        is_error=reply.is_error,
        seconds=0.1,
        facts=reply.facts,
    )


def other(task: Task, old: str, new: str, author: str = "agent", note: str = "") -> Candidate:
    """A candidate that is the seed with one text replaced."""
    assert task.seed_source.count(old) >= 1
    source = task.seed_source.replace(old, new)
    return new_candidate(source, task.name, author=author, parents=("f" * 16,), note=note)
