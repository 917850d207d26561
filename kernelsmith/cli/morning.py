"""The summary of a run, for whoever slept: made once, told as text and as JSON."""

import logging
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelsmith import config
from kernelsmith.cli import operating, options, printing
from kernelsmith.cli.reading import opened
from kernelsmith.cli.standing import next_commands, run_fields, state_of, summary_lines
from kernelsmith.config import Operations
from kernelsmith.errors import InfrastructureError, KernelsmithError

if TYPE_CHECKING:
    from kernelsmith.lineage.standings import RunStanding
    from kernelsmith.lineage.tallies import Incident

MOST_CHECKS = 5
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Morning:
    """All that the summary says. ``rejections``: task -> check -> candidates, the most first.
    ``named``: the database, where next commands must name it."""

    run: "RunStanding"
    rejections: Mapping[str, Mapping[str, int]]
    incidents: Mapping[str, "Incident"]
    named: Path | None


def read(db: Path, run_id: str, named: Path | None) -> Morning:
    """What the record says of a run.

    Raises:
        DatabaseError: it cannot be read.
    """
    from kernelsmith.lineage import standings, tallies

    with opened(db) as connection:
        return Morning(
            run=standings.run_standing(connection, run_id),
            rejections=tallies.rejections(connection, run_id),
            incidents=tallies.incidents(connection, run_id),
            named=named,
        )


def fields(what: Morning) -> dict[str, Any]:
    """As JSON types; the run's own are those of ``runs``."""
    from kernelsmith.lineage.records import plain

    run, state = what.run, state_of(what.run)
    where = printing.named_database(what.named)
    told = {
        "schema": "kernelsmith.summary/1",
        **run_fields(run),
        "host": run.began["process"].get("host"),
        "rejected_by": what.rejections,
        "incidents": what.incidents,
        "next": [f"{command}{where}" for command in next_commands(run, state)],
    }
    return dict(plain(told))


def text(what: Morning) -> str:
    """As lines for a person: a headline, the run's own summary, what rejected, what went wrong."""
    run = what.run
    more = []
    for task in run.tasks:
        checks = list(what.rejections.get(task.task, {}).items())[:MOST_CHECKS]
        if checks:
            most = ", ".join(f"{name} {count}" for name, count in checks)
            more.append(f"{task.task}: rejected most by {most}")
    for kind, found in what.incidents.items():
        last = f"; last at {found.last_at[:19]}Z" + (f": {found.last}" if found.last else "")
        more.append(f"incident: {kind.replace('_', ' ')}, {found.count}x{last}")
    why = run.last_payload.get("error")
    if why:
        more.append(f"ended by: {why}")
    lines = [headline(run), *summary_lines(run, what.named, more)]
    return "\n".join(printing.visible(line) for line in lines)


def headline(run: "RunStanding") -> str:
    """The one line that a phone shows."""
    gains = [
        f"{task.task} {printing.times(task.gain.geomean)}"
        for task in run.tasks
        if task.gain is not None and task.incumbent != task.seed
    ]
    found = ", ".join(gains) or "nothing faster"
    host = run.began["process"].get("host") or platform.node()
    return f"kernelsmith on {host}: {state_of(run)} ({run.device}): {found}"


def send(db: Path, run_id: str, named: Path | None, operations: Operations) -> list[str]:
    """Sends the summary where it is wanted.

    Returns:
        What went wrong, in words; nothing is raised for it.
    """
    from kernelsmith.operations import delivery

    if not (operations.summary_to or operations.summary_webhook or operations.summary_command):
        return []
    try:
        what = read(db, run_id, named)
    except KernelsmithError as error:
        _LOG.error(error.message, exc_info=error, extra={"event": "summary_failed"})
        return [f"no summary: {error.message}"]
    said, told = text(what), fields(what)
    problems = []
    if (path := operations.summary_to) is not None:
        problems.append(delivery.deliver("file", lambda: delivery.to_file(path, said, told)))
    if url := operations.summary_webhook:
        problems.append(delivery.deliver("webhook", lambda: delivery.to_webhook(url, said, told)))
    if command := operations.summary_command:
        problems.append(delivery.deliver("command", lambda: delivery.to_command(command, said)))
    return [problem for problem in problems if problem]


@partial(operating.with_operations, metrics=False)
def summary_of(
    run_id: Annotated[
        str, typer.Argument(metavar="[RUN]", help="Run id, its beginning; default the latest.")
    ] = "latest",
    send_it: Annotated[
        bool, typer.Option("--send", help="Send it where the options or the settings say.")
    ] = False,
    db: options.Database = None,
    as_json: options.AsJson = False,
    *,
    operations: Operations,
) -> None:
    """The summary of a run as it stands: also of one that was killed and could send none."""
    from kernelsmith.lineage import queries

    path = db or config.load().db
    with opened(db) as connection:
        name = queries.find_run(connection, run_id)
    what = read(path, name, db)
    if as_json:
        printing.document("summary", fields(what))
    else:
        print(text(what))
    if send_it:
        with operating.telling(operations, path) as telling:
            telling.name_run(name)
            problems = send(path, name, db, operations)
        if problems:
            raise InfrastructureError("; ".join(problems), hint="the log says more: --log FILE")
