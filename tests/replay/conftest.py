"""``kernelsmith`` on fakes whose judgements a test tells, in a folder of its own."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from kernelsmith.cli.main import main  # noqa: E402
from kernelsmith.errors import TaskError  # noqa: E402
from kernelsmith.model import Task  # noqa: E402
from tests.loop import fakes  # noqa: E402
from tests.loop.fake_wiring import FakeDevice, FakeSandbox, fake_wiring  # noqa: E402


@dataclass
class Kit:
    """Commands on fakes. ``judge``: of the next commands; ``asked``: what gates were built with;
    ``walls``: sandbox names and whether the source was trusted."""

    capsys: pytest.CaptureFixture[str]
    judge: fakes.FakeJudge = field(default_factory=fakes.FakeJudge)
    device: FakeDevice = field(default_factory=FakeDevice)
    asked: list[tuple[Task, int]] = field(default_factory=list)
    walls: list[tuple[str, bool]] = field(default_factory=list)
    known: bool = True

    def __call__(self, *words: str) -> tuple[int, str, str]:
        wiring = fake_wiring()

        def build(
            task: Task, device: Any, sandbox: Any, secret: int, pauses: Any = None
        ) -> fakes.FakeJudge:
            self.asked.append((task, secret))
            return self.judge

        def load(name: str, device: str, folders: Any) -> Task:
            if not self.known:
                raise TaskError(f"no task named {name!r}")
            return wiring.load_task(name, device, folders)

        def wall(name: str, trusted: bool) -> FakeSandbox:
            self.walls.append((name, trusted))
            return FakeSandbox(name)

        told = replace(
            wiring,
            judge=build,
            load_task=load,
            device=lambda name: self.device,
            sandbox=wall,
        )
        code = main(words, told)
        said = self.capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def kit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELSMITH_DB", raising=False)
    return Kit(capsys)
