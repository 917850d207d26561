"""``tasks`` on the shipped tasks and on broken ones."""

import json
from pathlib import Path

import pytest

from kernelsmith.cli.main import main


def test_tasks_lists_what_is_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0
    out = capsys.readouterr().out
    assert "rms_norm" in out
    assert "linear" in out
    assert main(["tasks", "list", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "kernelsmith.tasks/1"
    assert {task["task"] for task in shown["tasks"]} >= {"rms_norm", "linear"}


def test_tasks_show_says_what_is_timed_and_what_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "show", "rms_norm"]) == 0
    out = capsys.readouterr().out
    assert "forward_train" in out
    assert "of them timed" in out
    assert main(["tasks", "show", "rms_norm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"]["name"] == "rms_norm"


def test_tasks_check_passes_what_is_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "check", "rms_norm"]) == 0
    assert "ok" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["tasks", "show"], ["tasks", "check"], ["run"]])
def test_broken_toml_is_one_line_with_a_hint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("name = \n")
    assert main([*words, "mine", "--tasks", str(tmp_path)]) == 2
    said = capsys.readouterr()
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "mine" in errors[0]
    assert "Traceback" not in said.err
    assert not (tmp_path / "runs.db").exists()


def test_tasks_lists_a_broken_one_as_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text("name = \n")
    assert main(["tasks", "list", "--tasks", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["tasks"]
    assert [task["task"] for task in shown if task["problem"]] == ["mine"]
