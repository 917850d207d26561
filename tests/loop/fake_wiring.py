"""The command line on fakes: ``python fake_wiring.py run toy ...`` is kernelsmith without kernels.

The environment says what the fakes do: KS_SLEEP_S a judgement's length, KS_MARK a file touched
when judging begins, KS_REPEAT every which proposal repeats an earlier one, KS_STATUS one status
for all, KS_PROOF=fail, KS_PROVE_S how long a proof takes, KS_SEED_SOURCE.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kernelsmith.cli.main import main
from kernelsmith.errors import EvidenceError, TaskError
from kernelsmith.model import Task
from kernelsmith.wiring import Wiring, real
from tests.loop import fakes


@dataclass(frozen=True)
class FakeDevice:
    facts: str = "a toy"
    name: str = "cpu"

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "cpu": self.facts}

    @property
    def target(self) -> str:
        return self.name

    def object_id(self, ttir: str) -> str:
        return fakes.sha(ttir)

    def turn(self, *, alone: bool) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True)
class FakeSandbox:
    name: str

    def start(self, role: str) -> Any:
        raise NotImplementedError(role)

    def describe(self) -> dict[str, Any]:
        return {"name": "process" if self.name == "auto" else self.name}

    def pause(self) -> None:
        return None

    def resume(self) -> None:
        return None

    def close(self) -> None:
        return None


def list_tasks(folders: Sequence[Path]) -> Sequence[Any]:
    from kernelsmith.catalog import TaskListing

    return [
        TaskListing(
            name=name,
            path=Path(f"{name}.toml"),
            shipped=True,
            summary="a toy",
            devices=("cpu",),
            cases=(("cpu", 1),),
            problem="",
        )
        for name in ("toy", "other")
    ]


def load_task(name: str, device: str, folders: Sequence[Path]) -> Task:
    if name not in ("toy", "other"):
        raise TaskError(f"no task named {name!r}", hint="tasks here: toy, other")
    return fakes.make_task(name, os.environ.get("KS_SEED_SOURCE"))


def prove(judge: Any, share: Any) -> dict[str, Any]:
    time.sleep(float(os.environ.get("KS_PROVE_S", "0")))
    if os.environ.get("KS_PROOF") == "fail":
        raise EvidenceError("cheat skip_work was accepted", hint="do not trust this gate")
    return {
        "cheats": {"tried": 5, "rejected": 5},
        "mutants": {"tried": 10, "rejected": 10},
        "checks": {"policy": 2, "memory": 3},
        "seed": "pass",
    }


def make_judge(task: Task, *_: Any) -> fakes.FakeJudge:
    judge = fakes.FakeJudge(
        sleep_s=float(os.environ.get("KS_SLEEP_S", "0")), mark=os.environ.get("KS_MARK", "")
    )
    status = os.environ.get("KS_STATUS")
    if status:
        judge.status = lambda candidate: status
    return judge


def fake_wiring() -> Wiring:
    return Wiring(
        list_tasks=list_tasks,
        load_task=load_task,
        device_name=lambda name: "cpu" if name == "auto" else name,
        device=lambda name: FakeDevice(os.environ.get("KS_DEVICE", "a toy")),
        sandbox=lambda name, trusted: FakeSandbox(name),
        walls=list,
        judge=make_judge,
        prove=prove,
        proposer=lambda parts: (
            nullcontext(
                fakes.FakeProposer(seed=parts.seed, repeat=int(os.environ.get("KS_REPEAT", "0")))
            )
            if parts.name == "search"
            else real().proposer(parts)
        ),
        normal_hash=fakes.normal_hash,
    )


if __name__ == "__main__":
    sys.exit(main(wiring=fake_wiring()))
