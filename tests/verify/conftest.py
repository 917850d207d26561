"""A library of one toy op, written as an export writes it, and verifying on workers that are not
there: each kernel is wrong in exactly one way."""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from kernelsmith.cli.main import main  # noqa: E402
from kernelsmith.gate.bench import Bench  # noqa: E402
from kernelsmith.gate.epoch import epoch_of  # noqa: E402
from kernelsmith.gate.subject import Limits, Outcome, Subject  # noqa: E402
from kernelsmith.library import certificate as certificates  # noqa: E402
from kernelsmith.library import contents, digests, launch, layout, sources  # noqa: E402
from kernelsmith.library.certificate import Certificate  # noqa: E402
from kernelsmith.model import Task, candidate_id, new_candidate  # noqa: E402
from kernelsmith.ports import Device  # noqa: E402
from tests.gate.conftest import make_task  # noqa: E402
from tests.gate.fake_workers import FakeDevice, FakeSandbox, source_of  # noqa: E402
from tests.loop.fake_wiring import fake_wiring  # noqa: E402

WINNER = source_of(speed=2)
TRITON = metadata.version("triton")


def certificate_of(
    task: Task, source: str, files: dict[str, bytes], *, triton: str, facts: dict[str, Any]
) -> Certificate:
    """What an export of this kernel writes, digests by the fake workers."""
    subject = Subject(candidate=new_candidate(source, task.name, author="search"), role="launcher")
    with Bench(task, FakeDevice(), FakeSandbox(), Limits()) as bench:
        found = digests.outputs(bench, subject, task.cases, certificates.DIGEST_SEED)
    assert not isinstance(found, Outcome)
    gain = certificates.GainFacts(
        geomean=1.2, low=1.1, high=1.3, sessions=20, against="5eed", cases=()
    )
    return Certificate(
        op=task.name,
        task=certificates.task_fields(task),
        device=task.device,
        device_facts=facts,
        epoch=epoch_of(task.seed_source, files[layout.LANG], triton, facts),
        versions={"triton": triton},
        candidate=candidate_id(source),
        record="r" * 64,
        head="d" * 64,
        run="run",
        parents=(candidate_id(task.seed_source),),
        author="search",
        gain=gain,
        checks=("policy",),
        unchecked=("order",),
        review=certificates.ReviewFacts(reviewer="ann", note="", at="2026-11-29T12:00:00Z"),
        digest_seed=certificates.DIGEST_SEED,
        digests=digests.digests(task, found),
        files={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        plan_classes=(),
        autograd="not wired",
    )


def add_epoch(folder: Path, source: str = WINNER, **facts: Any) -> str:
    """Writes an epoch of the toy op and makes it current; returns its folder name."""
    task = make_task()
    files = {
        layout.KERNEL: sources.packaged(source).encode(),
        layout.SEED: sources.packaged(task.seed_source).encode(),
        layout.LANG: contents.lang(),
    }
    told = {"triton": TRITON, "facts": FakeDevice().describe(), **facts}
    files[layout.LAUNCH] = launch.text(task, (), told["facts"], told["triton"]).encode()
    made = certificate_of(task, source, files, **told)
    files[layout.CERTIFICATE] = certificates.text(made).encode()
    name = layout.epoch_name(made.epoch)
    before = layout.read(folder) if layout.is_library(folder) else None
    for place, data in contents.library_files(
        folder, before, {task.name: files}, {task.name: name}
    ).items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return name


@dataclass
class Kit:
    """A library of one epoch, and commands on it."""

    folder: Path
    epoch: str
    capsys: pytest.CaptureFixture[str]
    sandbox: FakeSandbox = field(default_factory=FakeSandbox)
    device: Any = field(default_factory=FakeDevice)
    walls: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def place(self) -> Path:
        return self.folder / "toy" / self.epoch

    def edit(self, file: str, change: Callable[[str], str]) -> None:
        path = self.place / file
        before = path.read_text(encoding="utf-8")
        assert change(before) != before
        path.write_text(change(before), encoding="utf-8")

    def __call__(self, *words: str) -> tuple[int, str, str]:
        def wall(name: str, trusted: bool) -> FakeSandbox:
            self.walls.append((name, trusted))
            return self.sandbox

        def device(name: str) -> Device:
            found: Device = self.device if name == "cpu" else cuda()
            return found

        told = replace(fake_wiring(), sandbox=wall, device=device)
        code = main(words, told)
        said = self.capsys.readouterr()
        return code, said.out, said.err


def cuda() -> Device:
    """The one of this version, which no machine has."""
    from kernelsmith import devices

    return devices.get("cuda")


@pytest.fixture
def kit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Kit:
    folder = tmp_path / "our-kernels"
    return Kit(folder, add_epoch(folder), capsys)
