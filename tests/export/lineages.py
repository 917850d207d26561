"""Small lineages for exports: real seeds and winners, verdicts that nobody had to wait for."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelsmith import catalog
from kernelsmith.cases import call_for
from kernelsmith.gate.epoch import epoch
from kernelsmith.library.export import Builders
from kernelsmith.library.selection import REQUIRED
from kernelsmith.lineage.store import open_store
from kernelsmith.model import (
    Candidate,
    Case,
    CaseGain,
    CheckResult,
    Gain,
    Task,
    Verdict,
    new_candidate,
    seed_candidate,
)
from kernelsmith.ports import Role, Sandbox, Worker
from kernelsmith.wiring import real, versions

ROOT = Path(__file__).resolve().parents[2]
FORMS = ("train", "infer", "backward", "residual_train", "residual_backward")


def small_task() -> Task:
    """``rms_norm`` at sizes that take a moment: 40 rows at most, of 128 columns."""
    task = catalog.load_task("rms_norm", "cpu", ())
    cases = [
        call_for(task, form, dtype, {"M": rows, "N": 128}, regime)
        for form in FORMS
        for dtype in ("bfloat16", "float32")
        for rows, regime in ((7, "ties"), (33, "cancel"))
    ]
    timed = replace(cases[0], weight=1.0)
    return replace(
        task,
        calls=tuple(call for call in task.calls if call.name in FORMS),
        cases=(timed, *cases[1:]),
        token_range=(0, 40),
        ranges=(("N", (128,)),),
        shipped=False,
    )


@dataclass
class Lineage:
    """A database with one run of one task, and what to record next."""

    path: Path
    task: Task
    run_id: str = ""

    def append(self, kind: str, payload: dict[str, Any]) -> str:
        with closing(open_store(self.path)) as store:
            return store.append(self.run_id, kind, payload)

    def begin(self) -> None:
        device = real().device("cpu")
        options = {"epochs": {}, "task_folders": []}
        self.run_id = self.append(
            "run",
            {
                "proposer": "search",
                "seed": 1,
                "secret_seed": 2,
                "device": "cpu",
                "device_facts": device.describe(),
                "sandbox": {"name": "process"},
                "versions": versions(),
                "options": options,
                "definitions": (self.task,),
                "seeds": [seed_candidate(self.task)],
                "normal_hashes": ["of the seed"],
                "process": {"pid": 1, "host": "here", "started_s": 0.0},
            },
        )

    def accepted(self, source: str, **changes: Any) -> tuple[Candidate, str]:
        """A candidate with an accepting verdict (``changes`` to it) and its record."""
        seed = seed_candidate(self.task)
        candidate = new_candidate(source, self.task.name, author="agent", parents=(seed.id,))
        record = self.append("candidate", {"candidate": candidate, "normal_hash": candidate.id})
        facts = real().device("cpu").describe()
        verdict = Verdict(
            candidate=candidate.id,
            task=self.task.name,
            status="ACCEPTED",
            checks=tuple(CheckResult(name=name, status="pass", seconds=0.1) for name in REQUIRED),
            gain=gain_of(self.task.cases[0], seed.id),
            unchecked=("order",),
            epoch=epoch(self.task, facts),
            device=facts,
            samples=({"seconds": 1.0},),
        )
        told = {"seconds": 2.0, "elapsed_s": 3.0, "gain_vs_seed": 1.5}
        self.append("verdict", {"verdict": replace(verdict, **changes), **told})
        return candidate, record

    def timed(self, candidate: Candidate, *, holds: bool = True) -> None:
        gain = gain_of(self.task.cases[0], seed_candidate(self.task).id)
        told = {"holds": holds, "gain": gain, "evidence": {}, "elapsed_s": 4.0}
        self.append("retiming", {"task": self.task.name, "candidate": candidate.id, **told})

    def decide(self, record: str, decision: str = "approve") -> None:
        self.append(
            "review",
            {"record": record, "decision": decision, "reviewer": "Ada", "note": "reads well"},
        )


def gain_of(case: Case, against: str) -> Gain:
    return Gain(
        geomean=1.5,
        low=1.4,
        high=1.6,
        sessions=20,
        cases=(CaseGain(case=case.id, path="train", gain=1.5),),
        against=against,
    )


@dataclass(frozen=True)
class Held:
    """A wall that stays for the next export."""

    wall: Sandbox

    def start(self, role: Role) -> Worker:
        return self.wall.start(role)

    def describe(self) -> dict[str, Any]:
        return self.wall.describe()

    def close(self) -> None:
        """Whoever opened the wall closes it."""


def builders(wall: Sandbox | None = None, device: Callable[[str], Any] | None = None) -> Builders:
    """Real workers behind a wall; without one, nothing may run."""

    def sandbox(trusted: bool) -> Sandbox:
        assert wall is not None, "nothing should run"
        return Held(wall)

    return Builders(
        task=lambda row, name: catalog.load_task(name, "cpu", ()),
        device=device or real().device,
        sandbox=sandbox,
    )


def quiet(line: str) -> None:
    assert line
