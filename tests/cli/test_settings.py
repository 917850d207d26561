"""Durations, settings, and whether a process still lives."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsmith import config
from kernelsmith.errors import InputError
from kernelsmith.processes import is_alive, this_process


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("1.5m", 90.0), ("8h", 28800.0), ("1h30m", 5400.0), (" 2D ", 172800.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert config.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-5s", "5 m", "1h30", "0", "nan"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError) as caught:
        config.seconds(text)
    assert caught.value.hint


def test_folders_of_a_settings_file_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / config.FILE_NAME).write_text('tasks = ["mine"]\ndb = "x.db"\nsandbox = "process"\n')
    settings = config.load(tmp_path, {})
    assert settings.tasks == (tmp_path / "mine",)
    assert settings.db == tmp_path / "x.db"
    assert (settings.sandbox, settings.device) == ("process", "auto")
    (tmp_path / config.FILE_NAME).write_text('db = "~/x.db"\n')
    assert config.load(tmp_path, {}).db == Path.home() / "x.db"
    (tmp_path / config.FILE_NAME).write_text('db = "~nobody-of-that-name/x.db"\n')
    with pytest.raises(InputError, match="home directory"):
        config.load(tmp_path, {})


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    facts = this_process()
    assert is_alive(facts) is True
    assert is_alive({**facts, "started_ticks": 1}) is False
    assert is_alive({**facts, "boot": "another"}) is False
    assert is_alive({**facts, "host": "elsewhere"}) is None
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    child.communicate()
    assert is_alive({**facts, "pid": child.pid}) is False
    assert facts["pid"] == os.getpid()
