"""``watch``: a run as its record shows it, whoever drives it and however it ended."""

import json
import signal
import sqlite3
import threading
from pathlib import Path

import pytest

from kernelsmith.cli import following
from kernelsmith.lineage import database, queries, store
from tests.cli.asking import run_of
from tests.operations.processes import LONG, SHORT, lines, until


def test_a_finished_run_is_told_step_by_step_and_ends_with_its_exit_code(
    kernelsmith, tmp_path: Path
) -> None:
    run = run_of(kernelsmith, "--log", "run.jsonl")
    code, out, err = kernelsmith("watch", "--json", "--after", "0")
    told = lines(out)
    assert (code, err) == (0, "")
    first, *steps, last = told
    assert first["schema"] == "kernelsmith.watch.standing/1"
    assert (last["schema"], last["state"], last["exit_code"]) == (
        "kernelsmith.watch.end/1",
        "finished",
        0,
    )
    assert last["tasks"] == run["tasks"]
    assert [step["seq"] for step in steps] == sorted({step["seq"] for step in steps})
    verdicts = [step for step in steps if step["event"] == "verdict"]
    assert len(verdicts) == run["tasks"][0]["judged"]
    rejected = next(step for step in verdicts if step["status"] == "BITS_DIFFER")
    assert rejected["check"] == "parity.train"
    assert "expected 0x3f80" in rejected["message"]
    logged = [
        each
        for each in lines((tmp_path / "run.jsonl").read_text())
        if each["logger"] == store.__name__
    ]
    for step, record in zip(steps, logged, strict=True):
        told_alike = {name: value for name, value in step.items() if name in record}
        assert told_alike.items() <= record.items()
        assert set(step) - set(record) == {"schema", "seq", "at"}
    code, out, _ = kernelsmith("watch", "--json", "--after", str(steps[-3]["seq"]))
    assert [step["seq"] for step in lines(out)[1:-1]] == [step["seq"] for step in steps[-2:]]


def test_a_person_sees_the_lines_of_run_and_its_table(kernelsmith) -> None:
    _, said, during = kernelsmith("run", "toy", "--seed", "4", "--max-candidates", "8")
    code, out, _ = kernelsmith("watch", "latest", "--after", "0")
    assert code == 0
    assert said in out, "the table at the end"

    def words(text: str) -> list[list[str]]:
        told = [line.split() for line in text.splitlines() if "  toy  " in line]
        return [line[1:] for line in told if "judging:" not in line]

    assert [line for line in words(during) if "exploring" not in line] == words(out)


@pytest.mark.slow
def test_a_living_run_is_watched_by_several_to_its_end(start, kernelsmith) -> None:
    run = start("run", "toy", *SHORT, KS_SLEEP_S="0.1")
    assert run.stderr is not None
    until(lambda: "on record" in run.stderr.readline())
    other = start("watch", "--json")
    code, out, _ = kernelsmith("watch", "--json", "--after", "0")
    found, _ = other.communicate(timeout=30)
    assert (code, other.returncode) == (0, 0)
    assert lines(out)[-1] == lines(found)[-1]
    judged = [step for step in lines(out)[1:-1] if step["event"] == "verdict"]
    assert len(judged) == 6


def test_a_run_that_was_killed_is_said_to_be(start, kernelsmith) -> None:
    run = start("run", "toy", *LONG)
    until(lambda: "judging" in run.stderr.readline())
    run.kill()
    run.wait()
    code, out, err = kernelsmith("watch")
    assert code == 4
    assert "its process is gone without a word" in err
    assert "kernelsmith resume" in out
    code, out, _ = kernelsmith("watch", "--json")
    assert (code, lines(out)[-1]["state"]) == (4, "interrupted")


def test_ctrl_c_ends_the_watching_and_not_the_run(start) -> None:
    run = start("run", "toy", *LONG)
    until(lambda: "judging" in run.stderr.readline())
    watching = start("watch")
    assert watching.stdout is not None
    assert f"process {run.pid} on" in watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=30)
    assert watching.returncode == 130
    assert "the run goes on as it was" in err
    assert run.poll() is None


def test_a_run_on_another_machine_is_watched_and_not_vouched_for(
    start, kernelsmith, tmp_path: Path
) -> None:
    run_of(kernelsmith)
    with sqlite3.connect(tmp_path / "runs.db") as plain:
        plain.execute("DELETE FROM events WHERE kind = 'finished'")
        (text,) = plain.execute("SELECT payload FROM events WHERE kind = 'started'").fetchone()
        facts = json.loads(text)
        facts["process"]["host"] = "elsewhere"
        plain.execute("UPDATE events SET payload = ? WHERE kind = 'started'", (json.dumps(facts),))
    plain.close()
    watching = start("watch")
    assert watching.stdout is not None
    line = watching.stdout.readline()
    assert "running  process" in line
    assert "on elsewhere, which cannot be seen from here" in line


def test_a_quiet_run_costs_its_watcher_one_number_a_look(kernelsmith, tmp_path: Path) -> None:
    run_of(kernelsmith)
    with sqlite3.connect(tmp_path / "runs.db") as plain:
        plain.execute("DELETE FROM events WHERE kind = 'finished'")
    plain.close()
    watched = database.open_for_reading(tmp_path / "runs.db")
    with watched.reading() as connection:
        run_id = queries.find_run(connection, "latest")
    asked: list[str] = []
    sights = following.follow(watched, run_id, following.NOTHING - 1, look_every_s=0.01)
    next(sights)
    driver = watched.connection.connection.driver_connection
    driver.set_trace_callback(asked.append)

    def write_later() -> None:
        until(lambda: len(asked) > 5)
        writing = store.open_store(tmp_path / "runs.db")
        writing.append(run_id, "stop_requested", {})
        writing.close()

    thread = threading.Thread(target=write_later)
    thread.start()
    assert next(sights).run.stop_requested
    thread.join()
    watched.close()
    before = asked[: next(i for i, text in enumerate(asked) if "data_version" not in text)]
    assert len(before) > 5
    assert {text.strip() for text in before} == {"PRAGMA data_version"}
