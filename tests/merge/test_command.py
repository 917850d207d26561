"""``kernelsmith merge`` on fakes: real sources and cases, verdicts and gains as told."""

import json
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
from kernelsmith.model import Candidate, CaseGain, Gain, Task, Verdict, candidate_id  # noqa: E402
from tests.cli.asking import one_error_line  # noqa: E402
from tests.loop import fakes  # noqa: E402
from tests.loop.fake_wiring import fake_wiring  # noqa: E402
from tests.merge.played import edited, played, task  # noqa: E402

FIRST = played("rms_norm")
SECOND = edited(FIRST, "rows = 4 if n_cols > 256 else 1", "rows = 2 if n_cols > 256 else 8")
WORSE = edited(FIRST, "rows = 4 if n_cols > 256 else 1", "rows = 1")
Command = Callable[..., tuple[int, str, str]]


@dataclass
class Judge(fakes.FakeJudge):
    """Accepts; the second source is faster than the first on plain forms, slower elsewhere."""

    task: Task = field(kw_only=True)
    epoch: str = "e" * 16

    def judge(
        self,
        candidate: Candidate,
        incumbent: Candidate,
        confirms: int,
        number: int | None = None,
    ) -> Verdict:
        found = fakes.FakeJudge.judge(self, candidate, incumbent, confirms, number)
        return replace(found, epoch=self.epoch)

    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        holds, gain, raw = fakes.FakeJudge.retime(self, candidate, sessions, timings)
        timed = [case for case in self.task.cases if case.weight > 0]
        second = candidate.source == SECOND
        gains = [
            CaseGain(
                case=case.id,
                path=self.task.call(case.call).path,
                gain=1.0
                if candidate.source == WORSE
                else 1.3
                if second and case.call in ("infer", "train")
                else 1.1
                if second
                else 1.2,
            )
            for case in timed
        ]
        return holds, replace(gain, cases=tuple(gains)), raw


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELSMITH_DB", raising=False)

    def run(*words: str, status: str = "ACCEPTED", epoch: str = "e" * 16) -> tuple[int, str, str]:
        wiring = replace(
            fake_wiring(),
            load_task=lambda name, device, folders: task(name),
            judge=lambda of, *_: Judge(status=lambda _: status, task=of, epoch=epoch),
        )
        code = main(words, wiring)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def judged(command: Command, source: str, of: str = "rms_norm", **more: str) -> str:
    Path("mine.py").write_text(source)
    command("gate", "mine.py", "--parent", "seed", "--task", of, **more)
    return candidate_id(source)


def test_a_merge_is_judged_as_the_child_of_all_that_are_in_it(command: Command) -> None:
    first, second, worse = (judged(command, each) for each in (FIRST, SECOND, WORSE))
    code, out, err = command("merge", first[:8], second, worse, "--json")
    shown = json.loads(out)
    assert (code, shown["verdict"], shown["author"]) == (0, "accepted", "person")
    assert [each["candidate"] for each in shown["parents"]] == [first, second]
    assert shown["note"] == f"merged from {first}, {second}"
    assert f"{worse} adds nothing: left out" in err
    assert f"forward_infer_{second[:6]}" in shown["source"]
    file = Path(f"rms_norm_merged_{shown['candidate'][:8]}.py")
    assert file.read_text() == shown["source"]
    _, out, _ = command("review", shown["candidate"])
    assert first in out
    assert second in out
    assert command("lineage", "verify")[0] == 0


def test_write_only_stops_after_writing(command: Command) -> None:
    first, second = judged(command, FIRST), judged(command, SECOND)
    code, out, _ = command("merge", first, second, "--write-only", "-o", "both.py", "--json")
    assert (code, json.loads(out)["parents"]) == (0, [first, second])
    assert "def forward_infer(" in Path("both.py").read_text()
    _, out, _ = command("runs", "--json")
    assert len(json.loads(out)["runs"]) == 2
    Path("both.py").write_text("# mine\n")
    code, _, err = command("merge", first, second, "--write-only", "-o", "both.py")
    assert (code, "is there already" in one_error_line(err)) == (2, True)
    assert Path("both.py").read_text() == "# mine\n"


def test_the_best_everywhere_is_said_and_nothing_is_judged(command: Command) -> None:
    first, worse = judged(command, FIRST), judged(command, WORSE)
    code, out, _ = command("merge", worse, first)
    assert (code, out.startswith(f"{first} is the fastest everywhere")) == (1, True)
    _, out, _ = command("runs", "--json")
    assert len(json.loads(out)["runs"]) == 2


def test_what_may_not_be_merged_is_one_line(command: Command) -> None:
    first, second = judged(command, FIRST), judged(command, SECOND)
    refused = judged(command, FIRST + "# refused\n", status="BITS_DIFFER")
    older = judged(command, FIRST + "# older\n", epoch="d" * 16)
    other = judged(command, played("linear"), "linear")
    for words, says in (
        ((first,), "two candidates or more"),
        ((first, first), "two candidates or more"),
        ((first, refused), "is not accepted: BITS_DIFFER"),
        ((first, older), "of different epochs"),
        ((first, other), "of different tasks"),
        ((first, second, "--task", "linear"), "are of task rms_norm, not linear"),
        ((first, second, "--prefer", other), "is none of them"),
        ((first, "zz"), "no candidate 'zz'"),
    ):
        code, out, err = command("merge", *words)
        assert (code, out) == (2, "")
        assert says in one_error_line(err)
    command("review", "--reject", second, "--reviewer", "Ada")
    code, _, err = command("merge", first, second)
    assert (code, "was rejected by Ada" in one_error_line(err)) == (2, True)
