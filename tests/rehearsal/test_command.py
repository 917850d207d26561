"""``kernelsmith rehearse`` with the real agent, proxy, server and database; the gate is a fake."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kernelsmith import catalog
from kernelsmith.cli.main import main
from kernelsmith.model import Candidate, CheckResult, Look, LookKind, Task, candidate_id
from kernelsmith.rehearsal import LABEL, MODEL, variants
from kernelsmith.wiring import Wiring, real
from tests.loop import fakes
from tests.loop.fake_wiring import fake_wiring

Command = Callable[..., tuple[int, str, str]]


@dataclass
class ToldJudge(fakes.FakeJudge):
    """Bits differ where ``tl.sum`` adds the squares; everything else is accepted."""

    status: Callable[[Candidate], str] = lambda candidate: "ACCEPTED"
    looked: list[tuple[str, str]] = field(default_factory=list)

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        self.looked.append((candidate.id, kind))
        broken = "tl.sum(h * h" in candidate.source
        check = CheckResult(
            name="parity.train",
            status="fail" if broken else "pass",
            seconds=0.0,
            message="case train, output y: 1 ulp apart" if broken else "",
        )
        return Look(
            kind=kind,
            candidate=candidate.id,
            status="BITS_DIFFER" if broken else None,
            checks=(check,),
            seconds=0.0,
        )


@pytest.fixture
def judge() -> ToldJudge:
    return ToldJudge()


@pytest.fixture
def wiring(judge: ToldJudge) -> Wiring:
    def load_task(name: str, device: str, folders: object) -> Task:
        return catalog.load_task(name, device)

    return replace(
        fake_wiring(),
        load_task=load_task,
        judge=lambda *_: judge,
        normal_hash=real().normal_hash,
    )


@pytest.fixture
def rehearse(
    wiring: Wiring,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> tuple[int, str, str]:
        code = main(words, wiring)
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def test_a_rehearsal_breaks_bits_mends_them_and_wins(rehearse: Command, judge: ToldJudge) -> None:
    code, out, err = rehearse("rehearse", "--json")
    assert code == 0, err
    first = candidate_id(variants.source("rms_norm", "first"))
    winner = candidate_id(variants.winner("rms_norm"))
    assert judge.looked == [(first, "bits"), (winner, "bits")]
    assert [name for name, _, _ in judge.judged] == [winner]
    (run,) = json.loads(out)["runs"]
    assert (run["state"], run["proposer"]) == ("finished", "agent")
    assert run["tasks"][0]["incumbent"] == winner
    assert MODEL in out


def test_it_says_loudly_what_it_is_before_and_after(rehearse: Command) -> None:
    _, _, err = rehearse("rehearse")
    loud = f"REHEARSAL: {LABEL}"
    lines = err.splitlines()
    assert lines[1].startswith(loud)
    assert lines[-2].startswith(loud)


def test_a_task_that_is_not_played_is_refused(rehearse: Command) -> None:
    code, _, err = rehearse("rehearse", "softmax")
    assert code == 2
    assert "does not play 'softmax'" in err
    assert "runs.db" not in err


def test_more_budget_counts_from_what_was_spent(rehearse: Command) -> None:
    rehearse("rehearse")
    for more in (1000, 2000):
        code, out, err = rehearse("resume", "latest", "--budget-tokens", str(more), "--json")
        assert code == 0, err
        assert err.startswith(f"REHEARSAL: {LABEL}")
        (run,) = json.loads(out)["runs"]
        assert run["agent"]["budget_tokens"] == run["agent"]["usage"]["tokens"] + more
