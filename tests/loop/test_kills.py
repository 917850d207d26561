"""A run killed with SIGKILL at random moments: no recorded verdict is lost, none is doubled."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from kernelsmith.interrupts import EXIT_PAUSED
from kernelsmith.lineage import database, standings
from kernelsmith.lineage.verify import verify

PROGRAM = [sys.executable, str(Path(__file__).with_name("fake_wiring.py"))]
KILLS = 3
CANDIDATES = 60
JUDGED = re.compile(r"^ +[\d:]+  toy  ([0-9a-f]{16})  (accepted|NOT_FASTER|POLICY|BITS_DIFFER)")


def started(words: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *words],
        cwd=folder,
        env={**os.environ, "KS_SLEEP_S": "0.004", "KS_REPEAT": "7"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed_after(words: list[str], folder: Path, seconds: float) -> list[tuple[str, ...]]:
    """Kills the command ``seconds`` after its first verdict; what it said was recorded."""
    process = started(words, folder)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if JUDGED.match(line):
            break
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    lines += process.stderr.read().splitlines()
    process.stderr.close()
    process.wait()
    return [found.groups() for line in lines if (found := JUDGED.match(line))]


def on_record(folder: Path) -> list[tuple[str, str]]:
    """Candidates and their statuses in order; all of the record verifies."""
    opened = database.open_for_reading(folder / "runs.db")
    with opened.reading() as connection:
        assert verify(connection).findings == ()
        rows = connection.exec_driver_sql(
            "SELECT candidates.id, status FROM verdicts JOIN candidates USING (record) "
            "ORDER BY candidates.position"
        ).all()
    opened.close()
    return [(row[0], row[1]) for row in rows]


def test_a_run_killed_again_and_again_ends_like_one_left_alone(tmp_path: Path) -> None:
    kill, whole = tmp_path / "killed", tmp_path / "whole"
    kill.mkdir()
    whole.mkdir()
    run = ["run", "toy", "--seed", "3", "--max-candidates", str(CANDIDATES), "--time-limit", "1h"]
    draw = random.Random(20)
    said: list[tuple[str, ...]] = []
    words = run
    for _ in range(KILLS):
        said += killed_after(words, kill, draw.uniform(0.0, 0.1))
        kept = dict(on_record(kill))
        for name, word in said:
            assert kept[name] == ("ACCEPTED" if word == "accepted" else word)
        words = ["resume", "latest"]
    assert 0 < len(on_record(kill)) < CANDIDATES
    for words, folder in ((["resume", "latest"], kill), (run, whole)):
        process = started(words, folder)
        process.communicate()
        assert process.returncode == 0
    verdicts = on_record(kill)
    assert verdicts == on_record(whole)
    assert len({name for name, _ in verdicts}) == len(verdicts) == CANDIDATES


def test_a_killed_run_shows_as_interrupted_and_cannot_be_resumed_twice(tmp_path: Path) -> None:
    killed_after(["run", "toy", "--seed", "3", "--time-limit", "1h"], tmp_path, 0.0)
    runs = subprocess.run(
        [*PROGRAM, "runs", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(runs.stdout)["runs"][0]["state"] == "interrupted"
    going = started(["resume", "latest"], tmp_path)
    assert going.stderr is not None
    while not JUDGED.match(going.stderr.readline()):
        pass
    again = subprocess.run(
        [*PROGRAM, "resume", "latest"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert again.returncode == 2
    assert f"is running (process {going.pid}" in again.stderr
    going.send_signal(signal.SIGTERM)
    _, rest = going.communicate()
    assert going.returncode == EXIT_PAUSED
    assert "kernelsmith resume" in rest
    opened = database.open_for_reading(tmp_path / "runs.db")
    with opened.reading() as connection:
        run_id = connection.exec_driver_sql("SELECT id FROM runs").scalar_one()
        assert standings.run_standing(connection, run_id).last == "paused"
    opened.close()
