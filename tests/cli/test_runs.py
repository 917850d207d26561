"""``run`` and ``resume`` on fakes: what they say, what they refuse."""

import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from kernelsmith.cli.main import main
from tests.cli.asking import Kernelsmith, one_error_line, run_of
from tests.loop import fakes
from tests.loop.fake_wiring import FakeSandbox, fake_wiring


def test_run_says_in_json_what_it_did(kernelsmith: Kernelsmith) -> None:
    run = run_of(kernelsmith)
    task = run["tasks"][0]
    assert {"id", "state", "started_at", "device", "proposer", "tasks"} <= set(run)
    assert (run["state"], run["device"], run["proposer"]) == ("finished", "cpu", "search")
    assert (task["task"], task["judged"]) == ("toy", 8)
    assert task["accepted"] > 0
    assert set(task["gain"]) == {"geomean", "low", "high", "sessions", "against", "cases"}
    assert task["gain"]["sessions"] == 20


def test_run_ends_with_a_table_and_the_next_commands(kernelsmith: Kernelsmith) -> None:
    code, out, err = kernelsmith("run", "toy", "other", "--max-candidates", "12", "--seed", "4")
    assert code == 0
    _, listed, _ = kernelsmith("runs", "--json")
    tasks = json.loads(listed)["runs"][0]["tasks"]
    for task in tasks:
        if not task["incumbent_is_seed"]:
            assert f"kernelsmith diff {task['incumbent']}" in out
            assert "1.200x" in out
            assert "accepted (cpu), unchecked: order" in out
    assert "the gate proved itself in" in err
    assert "10 of 10 cheats rejected" in err


def test_the_next_commands_name_a_database_that_was_named(kernelsmith: Kernelsmith) -> None:
    words = ("run", "toy", "--max-candidates", "8", "--seed", "4", "--db", "my runs.db")
    _, out, _ = kernelsmith(*words)
    following = [line for line in out.splitlines() if line.startswith("  kernelsmith ")]
    assert following
    assert all(line.endswith("--db 'my runs.db'") for line in following)


def test_what_the_table_shows_are_whole_ids_however_narrow_the_terminal(
    kernelsmith: Kernelsmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = kernelsmith("run", "toy", "--max-candidates", "8", "--seed", "4")
    _, listed, _ = kernelsmith("runs", "--json")
    table = out.split("next:")[0]
    assert json.loads(listed)["runs"][0]["tasks"][0]["incumbent"] in table


def test_a_gate_that_fails_its_own_proof_starts_nothing(
    kernelsmith: Kernelsmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KS_PROOF", "fail")
    code, _, err = kernelsmith("run", "toy")
    assert code == 5
    assert "skip_work was accepted" in one_error_line(err)
    code, out, _ = kernelsmith("runs", "--json")
    assert json.loads(out)["runs"] == []


def test_resume_of_a_finished_run_asks_for_more_and_then_goes_on(kernelsmith: Kernelsmith) -> None:
    run = run_of(kernelsmith)
    code, _, err = kernelsmith("resume", run["id"][:12])
    assert code == 2
    assert "is finished" in one_error_line(err)
    code, out, _ = kernelsmith("resume", "latest", "--max-candidates", "5", "--json")
    assert code == 0
    assert json.loads(out)["runs"][0]["tasks"][0]["judged"] == 13


def test_resume_refuses_another_seed_and_another_device(
    kernelsmith: Kernelsmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(kernelsmith)
    more = ("resume", "latest", "--time-limit", "1m")
    monkeypatch.setenv("KS_SEED_SOURCE", "# another seed\n")
    code, _, err = kernelsmith(*more)
    assert (code, "seed of toy has changed" in one_error_line(err)) == (2, True)
    monkeypatch.delenv("KS_SEED_SOURCE")
    monkeypatch.setenv("KS_DEVICE", "another machine")
    code, _, err = kernelsmith(*more)
    assert (code, "epoch" in one_error_line(err)) == (2, True)


def test_resume_refuses_another_epoch_on_the_same_device(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    run_of(kernelsmith)
    plain = sqlite3.connect(tmp_path / "runs.db")
    (text,) = plain.execute("SELECT options FROM runs").fetchone()
    then = json.loads(text)
    then["epochs"]["toy"] = "0123456789abcdef"
    plain.execute("UPDATE runs SET options = ?", (json.dumps(then),))
    plain.commit()
    plain.close()
    code, _, err = kernelsmith("resume", "latest", "--time-limit", "1m")
    assert (code, "was in 0123456789abcdef" in one_error_line(err)) == (2, True)


def test_a_run_that_began_with_a_foreign_source_stays_untrusted_when_resumed(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("# mine\n")
    trusted: list[bool] = []

    def sandbox(name: str, trust: bool) -> FakeSandbox:
        trusted.append(trust)
        return FakeSandbox(name)

    wiring = replace(fake_wiring(), sandbox=sandbox)
    few = ["--max-candidates", "2"]
    assert main(["run", "toy", "--from", "mine.py", *few], wiring) == 0
    assert main(["resume", "latest", *few], wiring) == 0
    assert trusted == [False, False]
    assert main(["run", "toy", *few], wiring) == 0
    assert main(["resume", "latest", *few], wiring) == 0
    assert trusted[2:] == [True, True]


def test_how_to_go_on_names_a_database_that_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wiring = replace(fake_wiring(), judge=lambda *_: fakes.FakeJudge(gainless=True))
    db = tmp_path / "my runs.db"
    assert main(["run", "toy", "--db", str(db)], wiring) == 5
    said = capsys.readouterr().err
    assert re.search(rf"to go on: kernelsmith resume \S+ --db '{re.escape(str(db))}'\n", said)


def test_a_run_may_start_from_a_candidate_or_a_file_which_is_judged_first(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    second = run_of(kernelsmith, "--from", winner[:8])
    _, out, _ = kernelsmith("show", winner, "--json")
    shown = json.loads(out)
    assert (shown["run"], shown["verdict"]) == (second["id"], "accepted")
    assert "of an earlier run" in shown["note"]
    (tmp_path / "mine.py").write_text("# mine\n")
    third = run_of(kernelsmith, "--from", "mine.py")
    assert third["tasks"][0]["judged"] == 8


def test_the_same_seed_proposes_the_same(kernelsmith: Kernelsmith) -> None:
    runs = [run_of(kernelsmith) for _ in range(2)]
    assert runs[0]["tasks"] == runs[1]["tasks"]
