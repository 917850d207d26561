"""``gate FILE --parent ID``: a hand-edited kernel is judged on record and can be reviewed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.cli.main import main
from kernelsmith.lineage import reviews, standings
from kernelsmith.lineage.database import open_for_reading
from kernelsmith.model import Candidate
from tests.cli.asking import Kernelsmith, one_error_line, run_of
from tests.loop import fakes
from tests.loop.fake_wiring import fake_wiring

PROGRAM = [sys.executable, str(Path(__file__).parents[1] / "loop" / "fake_wiring.py")]


@pytest.fixture
def accepting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KS_STATUS", "ACCEPTED")


def edited(tmp_path: Path, text: str = "# mine\n") -> str:
    (tmp_path / "mine.py").write_text(text)
    return "mine.py"


def test_an_edit_of_a_candidate_is_its_child_in_a_run_of_its_own(
    kernelsmith: Kernelsmith, tmp_path: Path, accepting: None
) -> None:
    run = run_of(kernelsmith)
    parent = run["tasks"][0]["incumbent"]
    code, out, err = kernelsmith("gate", edited(tmp_path), "--parent", parent[:8], "--json")
    shown = json.loads(out)
    assert code == 0
    assert "the gate proved itself" in err
    assert (shown["schema"], shown["verdict"]) == ("kernelsmith.verdict/1", "accepted")
    assert (shown["author"], shown["note"]) == ("person", "edited by hand: mine.py")
    assert [each["candidate"] for each in shown["parents"]] == [parent]
    assert shown["gain"]["against"] == fakes.seed_of(fakes.make_task()).id
    assert shown["against_seed"]["holds"] is True
    assert shown["run"] != run["id"]
    _, out, _ = kernelsmith("runs", "--json")
    newest = json.loads(out)["runs"][0]
    assert (newest["id"], newest["proposer"], newest["state"]) == (
        shown["run"],
        "person",
        "finished",
    )
    name = shown["candidate"]
    _, out, _ = kernelsmith("review", name)
    assert f"descends   from {parent}  accepted (cpu)" in out
    assert kernelsmith("review", "--approve", name, "--reviewer", "Ada")[0] == 0
    assert kernelsmith("lineage", "verify")[0] == 0


def test_for_people_it_ends_with_the_review_to_type(
    kernelsmith: Kernelsmith, tmp_path: Path, accepting: None
) -> None:
    parent = run_of(kernelsmith)["tasks"][0]["incumbent"]
    code, out, _ = kernelsmith("gate", edited(tmp_path), "--parent", parent)
    name = fakes.make_candidate("# mine\n").id
    assert code == 0
    assert "accepted (cpu)" in out
    assert out.splitlines()[-1] == f"  kernelsmith review {name}"


def test_without_a_database_an_edit_of_the_seed_makes_one(
    kernelsmith: Kernelsmith, tmp_path: Path, accepting: None
) -> None:
    words = ("gate", edited(tmp_path), "--parent", "seed", "--task", "toy", "--db", "new.db")
    code, out, _ = kernelsmith(*words, "--json")
    shown = json.loads(out)
    assert (code, shown["status"]) == (0, "ACCEPTED")
    seed = fakes.seed_of(fakes.make_task()).id
    assert [each["candidate"] for each in shown["parents"]] == [seed]


@pytest.mark.parametrize("status", ["BITS_DIFFER", "NOT_FASTER"])
def test_a_rejected_edit_is_on_record_and_exits_1(
    kernelsmith: Kernelsmith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    parent = run_of(kernelsmith)["tasks"][0]["incumbent"]
    monkeypatch.setenv("KS_STATUS", status)
    code, out, _ = kernelsmith("gate", edited(tmp_path), "--parent", parent, "--json")
    shown = json.loads(out)
    assert (code, shown["status"]) == (1, status)
    assert kernelsmith("review", "--approve", shown["candidate"], "--reviewer", "Ada")[0] == 2


def test_a_rejected_candidate_may_be_mended_by_hand(
    kernelsmith: Kernelsmith, tmp_path: Path, accepting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KS_STATUS", "BITS_DIFFER")
    assert kernelsmith("run", "toy", "--max-candidates", "1")[0] == 0
    _, out, _ = kernelsmith("show", "latest", "--json")
    wrong = json.loads(out)["newest"][0]["id"]
    monkeypatch.setenv("KS_STATUS", "ACCEPTED")
    assert kernelsmith("gate", edited(tmp_path), "--parent", wrong)[0] == 0


def test_what_loses_its_final_timing_exits_1_and_is_unsupported(
    kernelsmith: Kernelsmith, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = fakes.FakeJudge(status=lambda each: "ACCEPTED", holds=lambda each: False)
    wiring = fake_wiring()
    wiring = type(wiring)(
        **{
            **{name: getattr(wiring, name) for name in wiring.__dataclass_fields__},
            "judge": lambda *_: judge,
        }
    )
    words = ["gate", edited(tmp_path), "--parent", "seed", "--task", "toy", "--json"]
    assert main(words, wiring) == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["status"], shown["against_seed"]["holds"]) == ("ACCEPTED", False)
    assert shown["unsupported"] == "it is not faster than the seed by the final timing"


def test_what_people_send_in_counts_as_one_series(
    kernelsmith: Kernelsmith, tmp_path: Path, capsys: pytest.CaptureFixture[str], accepting: None
) -> None:
    run_of(kernelsmith)
    judges: list[fakes.FakeJudge] = []

    def judge(*_: Any) -> fakes.FakeJudge:
        judges.append(fakes.FakeJudge(status=by_name))
        return judges[-1]

    def by_name(candidate: Candidate) -> str:
        return "POLICY" if "import" in candidate.source else "NOT_FASTER"

    wiring = fake_wiring()
    kept = {name: getattr(wiring, name) for name in wiring.__dataclass_fields__}
    wiring = type(wiring)(**{**kept, "judge": judge})
    for source in ("# one\n", "import os\n", "# two\n", "# three\n"):
        words = ["gate", edited(tmp_path, source), "--parent", "seed", "--task", "toy"]
        assert main(words, wiring) == 1
    capsys.readouterr()
    # each waits on record while it is judged, and so counts itself; "import" never got so far
    first, *_, last = [judged[0][2] for judged in (each.judged for each in judges)]
    assert last - first == 2
    opened = open_for_reading(tmp_path / "runs.db")
    with opened.reading() as connection:
        assert standings.confirms_by_hand(connection, "toy") == 3
        assert standings.confirms_by_hand(connection, "other") == 0
    opened.close()


@pytest.mark.parametrize(
    ("source", "words", "says"),
    [
        ("# mine\n", ("--parent", "zz"), "no candidate 'zz'"),
        ("# mine\n", ("--parent", "WINNER", "--task", "other"), "is of task toy, not other"),
        ("# mine\n", ("--parent", "seed"), "which task is it a rewrite for?"),
        ("# mine\n", (), "which task is it a rewrite for?"),
        ("# mine\n", ("--task", "toy", "--db", "runs.db"), "this one would not be"),
        ("# the seed of toy\n", ("--parent", "WINNER"), "is the seed's own program"),
        ("WINNER", ("--parent", "WINNER"), "nothing was edited"),
        (None, ("--parent", "WINNER"), "cannot read"),
    ],
)
def test_what_cannot_be_judged_is_one_line_and_leaves_no_run(
    kernelsmith: Kernelsmith,
    tmp_path: Path,
    source: str | None,
    words: tuple[str, ...],
    says: str,
) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    _, out, _ = kernelsmith("show", winner, "--json")
    if source is not None:
        edited(tmp_path, json.loads(out)["source"] if source == "WINNER" else source)
    code, out, err = kernelsmith(
        "gate", "mine.py", *(winner if word == "WINNER" else word for word in words)
    )
    assert (code, out) == (2, "")
    assert says in one_error_line(err)
    _, out, _ = kernelsmith("runs", "--json")
    assert len(json.loads(out)["runs"]) == 1


def test_a_person_as_a_runs_proposer_is_sent_to_gate(kernelsmith: Kernelsmith) -> None:
    code, _, err = kernelsmith("run", "toy", "--proposer", "person")
    assert (code, "a person proposes one file" in one_error_line(err)) == (2, True)
    assert "kernelsmith gate FILE --parent ID" in err


def test_an_interrupted_judgement_is_resumed(
    kernelsmith: Kernelsmith, tmp_path: Path, accepting: None
) -> None:
    words = ["gate", edited(tmp_path), "--parent", "seed", "--task", "toy"]
    env = {**os.environ, "KS_SLEEP_S": "60", "KS_MARK": str(tmp_path / "mark")}
    process = subprocess.Popen(
        [*PROGRAM, *words], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "mark").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "kernelsmith resume" in err
    assert kernelsmith("resume", "latest")[0] == 0
    name = fakes.make_candidate("# mine\n").id
    _, out, _ = kernelsmith("show", name, "--json")
    assert json.loads(out)["against_seed"]["holds"] is True


def reject(kernelsmith: Kernelsmith, name: str, note: str = "") -> None:
    words = ("review", "--reject", name, "--reviewer", "Ada", "--note", note)
    assert kernelsmith(*words)[0] == 0


def shown(kernelsmith: Kernelsmith, *words: str) -> dict[str, Any]:
    return dict(json.loads(kernelsmith("show", *words, "--json")[1]))


def test_what_lost_its_support_is_judged_again_and_has_it_back(
    kernelsmith: Kernelsmith, tmp_path: Path, accepting: None
) -> None:
    run = run_of(kernelsmith)
    winner = run["tasks"][0]["incumbent"]
    parent = shown(kernelsmith, winner)["parents"][0]["candidate"]
    assert kernelsmith("review", "--approve", winner, "--reviewer", "Ada")[0] == 0
    reject(kernelsmith, parent)
    assert "was rejected after" in shown(kernelsmith, winner)["unsupported"]
    code, out, err = kernelsmith("gate", "--again", winner[:8], "--json")
    again = json.loads(out)
    assert code == 0
    assert "the gate proved itself" in err
    assert (again["candidate"], again["author"]) == (winner, "search")
    assert again["note"].startswith(f"judged again, first in run {run['id']}")
    assert again["run"] != run["id"]
    assert [each["candidate"] for each in again["parents"]] == [parent]
    assert again["unsupported"] is None
    first = shown(kernelsmith, winner, "--run", run["id"])
    assert (first["unsupported"], first["decision"]["decision"]) == (None, "approve")
    assert kernelsmith("lineage", "verify")[0] == 0
    reject(kernelsmith, parent, "once more")
    assert "was rejected after" in shown(kernelsmith, winner)["unsupported"]


def test_what_was_never_timed_against_the_seed_may_be_approved_then(
    kernelsmith: Kernelsmith, accepting: None
) -> None:
    run_of(kernelsmith)
    _, out, _ = kernelsmith("review", "--all", "--json")
    old = next(
        each["candidate"]
        for each in json.loads(out)["candidates"]
        if each["why_not"] == "it was not timed against the seed"
    )
    code, _, err = kernelsmith("review", "--approve", old, "--reviewer", "Ada")
    assert (code, f"`kernelsmith gate --again {old}`" in err) == (2, True)
    assert kernelsmith("gate", "--again", old)[0] == 0
    assert kernelsmith("review", "--approve", old, "--reviewer", "Ada")[0] == 0


def test_the_latest_timing_of_a_program_decides_whichever_run_made_it(
    kernelsmith: Kernelsmith, capsys: pytest.CaptureFixture[str], accepting: None
) -> None:
    run = run_of(kernelsmith)
    winner = run["tasks"][0]["incumbent"]
    judge = fakes.FakeJudge(status=lambda each: "ACCEPTED", holds=lambda each: False)
    kept = {name: getattr(fake_wiring(), name) for name in fake_wiring().__dataclass_fields__}
    wiring = type(fake_wiring())(**{**kept, "judge": lambda *_: judge})
    assert main(["gate", "--again", winner], wiring) == 1
    capsys.readouterr()
    first = shown(kernelsmith, winner, "--run", run["id"])
    assert first["unsupported"] == "it is not faster than the seed by the final timing"


def test_a_program_that_was_rejected_in_a_later_run_is_not_approved_in_an_earlier(
    kernelsmith: Kernelsmith, tmp_path: Path, accepting: None
) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    assert kernelsmith("review", "--approve", winner, "--reviewer", "Ada")[0] == 0
    assert kernelsmith("gate", "--again", winner)[0] == 0
    opened = open_for_reading(tmp_path / "runs.db")
    with opened.reading() as connection:
        assert len(reviews.approved(connection)) == 1
    reject(kernelsmith, winner)
    with opened.reading() as connection:
        assert reviews.approved(connection) == []
    assert kernelsmith("review", "--undo", winner, "--reviewer", "Ada")[0] == 0
    with opened.reading() as connection:
        assert len(reviews.approved(connection)) == 1
    opened.close()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "what is to be judged?"),
        (("mine.py", "--again", "WINNER"), "judges a candidate on record, as what it was"),
        (("--again", "WINNER", "--parent", "seed"), "judges a candidate on record"),
        (("--again", "WINNER", "--task", "other"), "is of task toy, not other"),
        (("--again", "SEED"), "is the seed's own program"),
        (("--again", "zz"), "no candidate 'zz'"),
        (("--again", "seed"), "no candidate 'seed'"),
    ],
)
def test_what_cannot_be_judged_again_is_one_line_and_leaves_no_run(
    kernelsmith: Kernelsmith, words: tuple[str, ...], says: str
) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    names = {"WINNER": winner, "SEED": fakes.seed_of(fakes.make_task()).id}
    code, out, err = kernelsmith("gate", *(names.get(word, word) for word in words))
    assert (code, out) == (2, "")
    assert says in one_error_line(err)
    assert len(json.loads(kernelsmith("runs", "--json")[1])["runs"]) == 1
