"""Commands that give a run's machine back and take it again: ``pause``, ``thaw``."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelsmith import config
from kernelsmith.cli import options
from kernelsmith.errors import EvidenceError, InfrastructureError, InputError
from kernelsmith.processes import is_alive

if TYPE_CHECKING:
    from kernelsmith.lineage.pauses import PauseBook, PauseWord
    from kernelsmith.lineage.standings import RunStanding

LOOK_S = 0.2


def pause(
    run_id: options.RunId,
    level: Annotated[
        str,
        typer.Option(
            help="resident: no new work, its sandbox stays warm; freeze: all its workers stop at "
            "once, memory stays; journal: its processes end, `resume` goes on from the record."
        ),
    ] = "freeze",
    grace: Annotated[
        str,
        typer.Option(help="Calls to a model may take this long to end; then they are cut."),
    ] = "30s",
    timeout: Annotated[
        str, typer.Option(help="How long to wait until it says that it is paused.")
    ] = "15m",
    db: options.Database = None,
) -> None:
    """Give the machine back; `thaw` goes on. Returns when the run is paused.

    Its time limit stands still. Whatever was being measured is measured again after it.
    """
    from kernelsmith.pauses import LEVELS, RESERVED

    if level in RESERVED:
        raise InputError(
            f"level {level} is reserved: this version cannot put a run's memory on the disk",
            hint="freeze keeps it in memory; journal keeps what is on record",
        )
    if level not in LEVELS:
        raise InputError(f"there is no level {level!r}", hint=f"levels: {', '.join(LEVELS)}")
    grace_s, timeout_s = config.seconds(grace), config.seconds(timeout)
    with _book(run_id, db) as (book, run):
        _require_driven(run)
        if run.pausing:
            raise InputError(
                f"run {run.id} was asked to pause before and has not answered",
                hint=f"`kernelsmith thaw {run.id}` takes that back",
            )
        if run.paused and LEVELS.index(_level(book)) >= LEVELS.index(level):
            raise InputError(
                f"run {run.id} is paused already ({_level(book)})",
                hint=f"`kernelsmith thaw {run.id}` lets it go on",
            )
        book.append("pause_requested", {"level": level, "grace_s": grace_s})
        until_s = time.monotonic() + timeout_s
        word = _answer(book, run, timeout_s, asked=f"pause ({level})")
        while level == "journal" and is_alive(run.began["process"]) and time.monotonic() < until_s:
            time.sleep(LOOK_S)
    _say_paused(run, word)


def thaw(
    run_id: options.RunId,
    timeout: Annotated[
        str, typer.Option(help="How long to wait until it says that it goes on.")
    ] = "15m",
    db: options.Database = None,
) -> None:
    """Let a paused run go on, once its workers answer with the bits on record."""
    timeout_s = config.seconds(timeout)
    with _book(run_id, db) as (book, run):
        _require_driven(run)
        if not (run.paused or run.pausing):
            raise InputError(f"run {run.id} is not paused", hint="`kernelsmith runs`")
        book.append("thaw_requested", {})
        word = _answer(book, run, timeout_s, asked="thaw")
    if word.kind == "thaw_failed":
        raise EvidenceError(
            f"run {run.id} does not go on: {word.payload['error']}",
            hint=f"what was recorded before is safe: `kernelsmith resume {run.id}`",
        )
    from kernelsmith.pausing import checked_words

    seconds, checked = word.payload.get("seconds", 0.0), word.payload.get("recheck", {})
    print(f"run {run.id} goes on after {seconds:.0f} s: {checked_words(checked)}")


@contextmanager
def _book(run_id: str, db: Path | None) -> "Iterator[tuple[PauseBook, RunStanding]]":
    """The record of one run, and how it stands."""
    from kernelsmith.lineage import queries, standings
    from kernelsmith.lineage.pauses import PauseBook
    from kernelsmith.lineage.store import open_existing

    store = open_existing(db or config.load().db)
    try:
        with store.database.reading() as connection:
            run = standings.run_standing(connection, queries.find_run(connection, run_id))
        yield PauseBook(store=store, run_id=run.id), run
    finally:
        store.close()


def _require_driven(run: "RunStanding") -> None:
    """Raises InputError if no process of this machine drives the run."""
    from kernelsmith.cli.standing import is_over, state_of

    if is_over(run):
        on = f"`kernelsmith resume {run.id}` goes on with it"
        raise InputError(
            f"run {run.id} is {state_of(run)}, not running",
            hint="`kernelsmith runs`" if run.last == "finished" else on,
        )
    process = run.began["process"]
    if is_alive(process) is None:
        raise InputError(
            f"run {run.id} is driven on {process['host']}, out of reach from here",
            hint="say it there",
        )


def _level(book: "PauseBook") -> str:
    return str(book.latest().payload.get("level", "resident"))


def _answer(book: "PauseBook", run: "RunStanding", timeout_s: float, asked: str) -> "PauseWord":
    """What the run answers to what was just asked of it.

    Raises:
        InfrastructureError: it says nothing in time, or its process is gone.
    """
    from kernelsmith.lineage.pauses import ANSWERED

    until_s = time.monotonic() + timeout_s
    while True:
        word = book.latest()
        if word.kind in ANSWERED:
            return word
        gone = is_alive(run.began["process"]) is False
        if gone and (word := book.latest()).kind in ANSWERED:
            return word
        if gone:
            raise InfrastructureError(
                f"run {run.id} ended before it answered to {asked}",
                hint=f"`kernelsmith resume {run.id}` goes on with it",
            )
        if time.monotonic() > until_s:
            raise InfrastructureError(
                f"run {run.id} has not answered to {asked} in {timeout_s:.0f} s; it may still",
                hint=f"`kernelsmith show {run.id}` says how it stands",
            )
        time.sleep(LOOK_S)


def _say_paused(run: "RunStanding", word: "PauseWord") -> None:
    from kernelsmith.pausing import held_words

    if word.kind in ("pause_failed", "thaw_failed"):
        still = word.payload.get("paused")
        then = f"stays paused ({still})" if still else "goes on"
        if word.kind == "thaw_failed":
            then = "ends"
        raise InfrastructureError(
            f"run {run.id} could not be paused and {then}: {word.payload['error']}"
        )
    if word.kind != "paused":
        raise InputError(f"run {run.id} was thawed before it was paused")
    level = word.payload["level"]
    if level == "journal":  # asked for, or a signal came first
        print(f"run {run.id} is paused: nothing is held; `kernelsmith resume {run.id}` goes on")
        return
    held, calls = word.payload["held"], word.payload["calls"]
    print(f"run {run.id} is paused ({level}): {held_words(held)} still held")
    if calls["cut"]:
        print(f"{calls['cut']} calls to the model were cut; each is on record and is sent again")
    print(f"`kernelsmith thaw {run.id}` lets it go on")
