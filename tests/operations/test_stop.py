"""``stop``: asked once or twice, at once, for all, and when there is nothing to stop."""

import signal
from dataclasses import replace
from pathlib import Path

from kernelsmith.cli import stopping
from kernelsmith.cli.reading import opened
from kernelsmith.cli.standing import state_of
from kernelsmith.interrupts import EXIT_PAUSED
from kernelsmith.lineage import queries, standings
from tests.cli.asking import one_error_line, run_of
from tests.operations.processes import LONG, until


def going(start, *words: str, **environment: str):
    run = start("run", *(words or ("toy",)), *LONG, **environment)
    until(lambda: "judging" in run.stderr.readline())
    return run


def test_a_stopped_run_ends_at_its_next_candidate_and_a_second_stop_changes_nothing(
    start, kernelsmith
) -> None:
    run = going(start, KS_SLEEP_S="0.2")
    run.send_signal(signal.SIGSTOP)  # so that it is still there at the second one
    code, out, _ = kernelsmith("stop", "latest")
    assert (code, "ends at its next candidate" in out) == (0, True)
    second = start("stop", "latest", "--wait", PYTHONUNBUFFERED="1")
    assert "was asked to stop before" in second.stdout.readline()
    run.send_signal(signal.SIGCONT)
    assert (second.wait(timeout=20), run.wait(timeout=20)) == (0, 0)
    code, _, err = kernelsmith("stop", "latest")
    assert (code, "is finished, not running" in one_error_line(err)) == (2, True)


def test_stop_now_interrupts_and_waits_for_the_runs_own_exit_code(start, kernelsmith) -> None:
    run = going(start, KS_SLEEP_S="30")
    code, out, _ = kernelsmith("stop", "--all", "--now", "--wait")
    assert (code, "kernelsmith resume" in out) == (130, True)
    assert run.wait(timeout=20) == 130


def test_a_paused_run_is_left_paused_by_a_stop_of_all_which_says_so(start, kernelsmith) -> None:
    run = going(start)
    assert kernelsmith("pause", "latest", "--level", "resident", "--timeout", "60s")[0] == 0
    code, out, _ = kernelsmith("stop", "--all", "--now", "--wait")
    assert (code, out.startswith("left run "), "--level journal" in out) == (0, True, True)
    assert run.poll() is None
    assert kernelsmith("pause", "latest", "--level", "journal", "--timeout", "60s")[0] == 0
    assert run.wait(timeout=20) == EXIT_PAUSED


def test_a_run_that_ended_just_before_is_neither_signalled_nor_called_out_of_reach(
    kernelsmith, tmp_path: Path
) -> None:
    run_of(kernelsmith)
    with opened(tmp_path / "runs.db") as connection:
        run = standings.run_standing(connection, queries.find_run(connection, "latest"))
    process = {**run.began["process"], "started_ticks": -1}  # another has its number: this one
    stopping._interrupt(replace(run, began={**run.began, "process": process}))


def test_a_run_paused_after_it_was_asked_to_stop_is_paused(start, tmp_path: Path) -> None:
    going(start, KS_SLEEP_S="30")
    with opened(tmp_path / "runs.db") as connection:
        run = standings.run_standing(connection, queries.find_run(connection, "latest"))
    asked = replace(run, stop_requested=True)
    assert state_of(asked) == "stopping"
    assert state_of(replace(asked, pausing=True)) == "pausing"
    assert state_of(replace(asked, paused=True)) == "paused"


def test_a_run_whose_process_is_gone_is_not_asked(start, kernelsmith) -> None:
    run = going(start)
    run.send_signal(signal.SIGKILL)
    run.wait()
    code, _, err = kernelsmith("stop", "latest")
    assert code == 2
    assert "its process is gone without a word" in one_error_line(err)
    code, out, _ = kernelsmith("stop", "--all")
    assert (code, out) == (0, "nothing runs here\n")


def test_one_run_or_all_must_be_named(kernelsmith) -> None:
    run_of(kernelsmith)
    for words in (("stop",), ("stop", "latest", "--all")):
        code, _, err = kernelsmith(*words)
        assert (code, "name one run, or say --all" in one_error_line(err)) == (2, True)
