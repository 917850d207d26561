"""``kernelsmith watch``: a run as it goes on, read from its record; watching changes nothing."""

import itertools
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelsmith import config
from kernelsmith.cli import display, following, options, printing
from kernelsmith.cli.standing import agent_line, is_over, run_fields, state_of, summary, was_killed
from kernelsmith.interrupts import EXIT_INTERRUPTED
from kernelsmith.model import Candidate
from kernelsmith.processes import is_alive

if TYPE_CHECKING:
    from kernelsmith.cli.following import Sight
    from kernelsmith.lineage.database import Database
    from kernelsmith.lineage.occurrences import Occurrence
    from kernelsmith.lineage.standings import RunStanding
    from kernelsmith.loop import Happening

NEWEST = 10
KINDS = {
    "candidate": "proposed",
    "verdict": "judged",
    "retiming": "retimed",
    "retiming_begun": "retiming",
}
"""Kinds of steps that the loop tells of by another name."""


def watch(
    run_id: Annotated[
        str, typer.Argument(metavar="[RUN]", help="Run id, its beginning; default the latest.")
    ] = "latest",
    after: Annotated[
        int | None,
        typer.Option(min=0, metavar="SEQ", help="Begin after this step; 0: with the first one."),
    ] = None,
    db: options.Database = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, one a step.")
    ] = False,
) -> None:
    """Watch a run of this or another process until it ends; Ctrl-C ends the watching alone.

    Exits as the run does: 0 finished, 75 paused, 130 interrupted, 4 or 5 failed, 4 also if its
    process is gone without a word.
    """
    from kernelsmith.lineage import occurrences, queries
    from kernelsmith.lineage.database import open_for_reading

    database = open_for_reading(db or config.load().db)
    try:
        with database.reading() as connection:
            name = queries.find_run(connection, run_id)
            row = queries.run_row(connection, name)
            if after is None:
                after = occurrences.before_the_last(connection, name, NEWEST)
        limit_s = float(row["options"]["time_limit_s"])
        run = _stream(database, name, after) if as_json else _show(database, name, after, limit_s)
    except KeyboardInterrupt:
        print("no longer watching; the run goes on as it was", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        database.close()
    if was_killed(run):
        print("its process is gone without a word: it was killed", file=sys.stderr)
    if not as_json:
        summary(run, db)
    if code := following.exit_code(run):
        raise typer.Exit(code)


def _stream(database: "Database", run_id: str, after: int) -> "RunStanding":
    """How it stands, then a line a step, then how it ended."""
    sights = following.follow(database, run_id, after)
    first = next(sights)
    _line("standing", run_fields(first.run))
    for sight in itertools.chain([first], sights):
        for each in sight.news:
            _line("step", _fields(each))
    _line("end", {**run_fields(sight.run), "exit_code": following.exit_code(sight.run)})
    return sight.run


def _line(name: str, fields: dict[str, Any]) -> None:
    from kernelsmith.lineage.records import plain

    print(json.dumps({"schema": f"kernelsmith.watch.{name}/1", **plain(fields)}), flush=True)


def _fields(what: "Occurrence") -> dict[str, Any]:
    from kernelsmith.lineage import occurrences

    return {"seq": what.seq, "at": what.at, **occurrences.fields(what)}


def _show(database: "Database", run_id: str, after: int, limit_s: float) -> "RunStanding":
    """The display of ``run``, fed by the record."""
    console = printing.out()
    sights = following.follow(database, run_id, after)
    first = next(sights)
    printing.say(console, _whose(first.run))
    with display.progress(first.run.device, console) as report:
        report(_happening("waiting", None, first, limit_s))
        for sight in itertools.chain([first], sights):
            for each in sight.news:
                kind = KINDS.get(each.kind, each.kind)
                report(_happening(kind, each, sight, limit_s), _age_s(each.at))
    return sight.run


def _whose(run: "RunStanding") -> str:
    """Where a run is driven, and whether that can be seen from here."""
    process, state = run.began["process"], state_of(run)
    words = f"run {run.id}  {state}  process {process['pid']} on {process['host']}"
    if not is_over(run) and is_alive(process) is None:
        words += ", which cannot be seen from here: it may be gone"
    return words


def _happening(kind: str, what: "Occurrence | None", sight: "Sight", limit_s: float) -> "Happening":
    """What the loop would have told, with the counts as they are now."""
    from kernelsmith.lane import Progress
    from kernelsmith.loop import Happening

    run = sight.run
    elapsed_s = (what and what.elapsed_s) or run.elapsed_s
    timed = {what.task: what.gain if what.holds else None} if kind == "retimed" and what else {}
    return Happening(
        kind=kind,
        task=what.task if what else "",
        elapsed_s=elapsed_s,
        left_s=max(0.0, float(run.began.get("time_limit_s", limit_s)) - elapsed_s),
        tasks=tuple(
            Progress(
                task=task.task,
                judged=task.judged,
                accepted=task.accepted,
                duplicates=task.duplicates,
                incumbent=task.incumbent,
                estimate=task.estimate,
                retimed=timed.get(task.task, task.gain),
            )
            for task in run.tasks
        ),
        candidate=_candidate(what) if what else None,
        verdict=what.verdict if what else None,
        note=what.message if what else "",
        standing="" if run.agent is None else agent_line(run.agent),
    )


def _candidate(what: "Occurrence") -> Candidate | None:
    """The candidate; by its id alone where the step says no more of it."""
    if what.candidate is not None or not what.candidate_id:
        return what.candidate
    name = what.candidate_id
    return Candidate(id=name, task=what.task, source="", parents=(), author="")


def _age_s(at: str) -> float:
    """Seconds since then, by the clocks of two machines at worst."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())
