"""``kernelsmith stop``: a run is asked to end at its next candidate, or ended at once."""

import os
import signal
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelsmith import config
from kernelsmith.cli import following, options
from kernelsmith.cli.standing import is_over, was_killed
from kernelsmith.errors import InputError
from kernelsmith.processes import ignores, is_alive

if TYPE_CHECKING:
    from kernelsmith.lineage.standings import RunStanding
    from kernelsmith.lineage.store import LineageStore


def stop(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Run id, its beginning, or `latest`.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All runs of the database that run on this machine.")
    ] = False,
    now: Annotated[
        bool, typer.Option("--now", help="At once, as Ctrl-C does: `resume` goes on from there.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when it has ended, with its exit code.")
    ] = False,
    db: options.Database = None,
) -> None:
    """Ask a running run to end: at its next candidate, then it times its winners.

    A second stop changes nothing. With --now nothing is finished and the verdict under way is
    dropped; all that is on record stays.
    """
    from kernelsmith.lineage.store import open_existing

    if (run_id is None) != everything:
        raise InputError("name one run, or say --all", hint="`kernelsmith runs` lists them")
    path = db or config.load().db
    store = open_existing(path)
    try:
        runs = _running(store) if run_id is None else [_named(store, run_id)]
        for run in runs:
            print(_stop(store, run, now))
    finally:
        store.close()
    if not runs:
        print("nothing runs here")
    codes = [_end_of(path, run.id) for run in runs if wait and not run.paused]
    if any(codes):
        raise typer.Exit(max(codes))


def _stop(store: "LineageStore", run: "RunStanding", now: bool) -> str:
    """Does it; says what was done."""
    if run.paused:
        return (
            f"left run {run.id} paused: `kernelsmith thaw {run.id}` first, or "
            f"`kernelsmith pause {run.id} --level journal` ends it"
        )
    if now:
        _interrupt(run)
        return f"interrupted run {run.id}; to go on: kernelsmith resume {run.id}"
    if run.stop_requested:
        return f"run {run.id} was asked to stop before; it ends at its next candidate"
    store.append(run.id, "stop_requested", {})
    return f"asked run {run.id} to stop; it ends at its next candidate and times its winners"


def _interrupt(run: "RunStanding") -> None:
    """As Ctrl-C in its terminal; a process that was told not to hear that is ended otherwise.

    Raises:
        InputError: its process cannot be reached from here.
    """
    process = run.began["process"]
    alive = is_alive(process)
    if alive is None:
        raise InputError(
            f"run {run.id} is driven on {process['host']}, out of reach from here",
            hint="without --now it stops at its next candidate; or say --now there",
        )
    if alive:  # else it was quicker
        number = signal.SIGTERM if ignores(process, signal.SIGINT) else signal.SIGINT
        try:
            with suppress(ProcessLookupError):
                os.kill(int(process["pid"]), number)
        except PermissionError as error:
            raise InputError(
                f"run {run.id} is driven by another user, who alone can interrupt it",
                hint="without --now it stops at its next candidate",
            ) from error


def _named(store: "LineageStore", run_id: str) -> "RunStanding":
    """The run, which somebody drives.

    Raises:
        InputError: it has ended, or it is paused.
    """
    from kernelsmith.lineage import queries, standings

    with store.database.reading() as connection:
        run = standings.run_standing(connection, queries.find_run(connection, run_id))
    name = run.id
    if was_killed(run):
        raise InputError(
            f"run {name} is not running: its process is gone without a word",
            hint=f"`kernelsmith resume {name}` goes on with it",
        )
    if run.ended:
        raise InputError(f"run {name} is {run.last}, not running", hint="`kernelsmith runs`")
    if run.paused:
        raise InputError(
            f"run {name} is paused",
            hint=f"`kernelsmith thaw {name}` first, or `kernelsmith pause {name} --level journal`",
        )
    return run


def _running(store: "LineageStore") -> "list[RunStanding]":
    from kernelsmith.lineage import queries, standings

    with store.database.reading() as connection:
        found = [standings.run_standing(connection, name) for name in queries.run_ids(connection)]
    return [run for run in found if not is_over(run) and is_alive(run.began["process"])]


def _end_of(path: Path, run_id: str) -> int:
    """Waits for a run's end; its exit code."""
    from kernelsmith.lineage.database import open_for_reading

    database = open_for_reading(path)
    try:
        last = deque(following.follow(database, run_id, following.NOTHING), maxlen=1).pop()
    finally:
        database.close()
    return following.exit_code(last.run)
