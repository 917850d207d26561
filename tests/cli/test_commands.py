"""``doctor``, ``lineage verify``, settings, and errors that the user can mend, on fakes."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.asking import Kernelsmith, one_error_line, run_of


def test_doctor_keeps_its_contract(kernelsmith: Kernelsmith, tmp_path: Path) -> None:
    code, out, _ = kernelsmith("doctor", "--gate", "--json")
    shown = json.loads(out)
    assert code == 0
    assert set(shown) == {"schema", "ok", "device", "sandbox", "proposer", "checks", "gate"}
    assert shown["gate"].pop("seconds") >= 0
    assert shown["gate"] == {
        "cheats": {"tried": 10, "rejected": 10},
        "mutants": {"tried": 20, "rejected": 20},
        "checks": {"policy": 4, "memory": 6},
        "seed": "pass",
        "unchecked": [],
    }
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_what_is_missing(kernelsmith: Kernelsmith, tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(b"no database" * 500)
    code, out, _ = kernelsmith("doctor", "--json")
    shown = json.loads(out)
    assert (code, shown["ok"]) == (3, False)
    bad = [check for check in shown["checks"] if not check["ok"]]
    assert [check["name"] for check in bad] == ["database"]
    assert bad[0]["hint"]


def test_lineage_verify_exits_5_and_names_the_row_that_was_edited(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    run_of(kernelsmith)
    code, out, _ = kernelsmith("lineage", "verify")
    assert (code, "intact" in out) == (0, True)
    plain = sqlite3.connect(tmp_path / "runs.db")
    plain.execute("UPDATE verdicts SET status = 'ACCEPTED' WHERE status != 'ACCEPTED'")
    plain.commit()
    plain.close()
    code, out, _ = kernelsmith("lineage", "verify")
    assert code == 5
    assert "verdicts " in out
    assert ": edited (recorded in step" in out


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("show", "latest"),
        ("diff", "latest"),
        ("review",),
        ("review", "--approve", "latest"),
        ("resume", "latest"),
        ("stop", "latest"),
        ("lineage", "verify"),
    ],
)
def test_without_a_database_a_command_says_so_and_makes_none(
    kernelsmith: Kernelsmith, tmp_path: Path, words: tuple[str, ...]
) -> None:
    code, out, err = kernelsmith(*words)
    assert (code, out) == (2, "")
    assert "no database at runs.db" in one_error_line(err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("run", "nothing"), 2, "no task named 'nothing'"),
        (("run",), 2, "missing argument 'TASK...'"),
        (("run", "toy", "--time-limit", "soon"), 2, "'soon' is not a duration"),
        (("run", "toy", "--time-limit", "0s"), 2, "leaves no time"),
        (("run", "toy", "--proposer", "agent"), 3, "ANTHROPIC_API_KEY is not set"),
        (("run", "toy", "--budget-usd", "5"), 2, "--budget-usd is for the agent"),
        (("run", "toy", "--proposer", "agent", "--budget-usd", "much"), 2, "no amount of dollars"),
        (("run", "toy", "--proposer", "agent", "--model", "mine"), 2, "no price is known"),
        (("run", "toy", "--proposer", "magic"), 2, "no proposer 'magic'"),
        (("run", "toy", "--from", "abc"), 2, "no candidate 'abc'"),
        (("run", "toy", "--db", "no/where.db"), 2, "no folder"),
        (("run", "toy", "--nonsense"), 2, "no such option"),
        (("show",), 2, "missing argument 'ID'"),
        (("nonsense",), 2, "no such command"),
    ],
)
def test_what_the_user_can_mend_is_one_line_with_a_hint(
    kernelsmith: Kernelsmith, words: tuple[str, ...], code: int, says: str
) -> None:
    found, out, err = kernelsmith(*words)
    assert (found, out) == (code, "")
    assert says.lower() in one_error_line(err).lower()


def test_settings_come_from_option_then_environment_then_file(
    kernelsmith: Kernelsmith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernelsmith.toml").write_text('db = "file.db"\n')
    run_of(kernelsmith)
    monkeypatch.setenv("KERNELSMITH_DB", "environment.db")
    run_of(kernelsmith)
    run_of(kernelsmith, "--db", "option.db")
    made = {each.name for each in tmp_path.glob("*.db*")}
    assert made == {"file.db", "environment.db", "option.db"}


@pytest.mark.parametrize("text", ["db = ", 'color = "red"', "device = 3"])
def test_a_broken_settings_file_is_one_line(
    kernelsmith: Kernelsmith, tmp_path: Path, text: str
) -> None:
    (tmp_path / "kernelsmith.toml").write_text(text)
    code, _, err = kernelsmith("runs")
    assert code == 2
    assert "kernelsmith.toml" in err.splitlines()[0]


def test_version_and_help(kernelsmith: Kernelsmith) -> None:
    code, out, _ = kernelsmith("--version")
    assert (code, out.split()[0]) == (0, "kernelsmith")
    code, out, _ = kernelsmith("--help")
    assert code == 0
    for command in ("doctor", "tasks", "run", "resume", "stop", "runs", "show", "diff", "gate"):
        assert f"  {command} " in out


def test_it_runs_as_a_module_where_its_script_is_not_on_the_path() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kernelsmith", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("kernelsmith ")
