"""Commands that read the lineage: ``runs``, ``show``, ``diff``. They never create one."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kernelsmith import config
from kernelsmith.cli import options, printing
from kernelsmith.errors import InputError

NEWEST = 20


def runs(db: options.Database = None, as_json: options.AsJson = False) -> None:
    """All runs, newest first."""
    from kernelsmith.cli.standing import row, run_fields, state_of
    from kernelsmith.lineage import queries, standings

    with opened(db) as connection:
        found = [standings.run_standing(connection, each) for each in queries.run_ids(connection)]
    if as_json:
        printing.document("runs", {"runs": [run_fields(each) for each in found]})
        return
    console = printing.out()
    for each in found:
        started = each.started_at[:19].replace("T", " ")
        words = f"{each.id}  {state_of(each)}  {started} UTC  {each.device}  {each.proposer}"
        console.print(words, style="bold", markup=False)
        for task in each.tasks:
            name, judged, accepted, incumbent, gain, interval = row(task)
            counts = f"{judged} judged, {accepted} accepted"
            console.print(f"  {name:<12} {counts:<26} {incumbent:<16}  {gain}  {interval}")
    if not found:
        console.print("no runs yet: kernelsmith run TASK")


def show(
    name: Annotated[
        str, typer.Argument(metavar="ID", help="Run or candidate id, its beginning, or `latest`.")
    ],
    run_id: Annotated[
        str | None, typer.Option("--run", help="The candidate as it is in this run.")
    ] = None,
    db: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """A candidate with its evidence, or a run."""
    from kernelsmith.cli import verdicts
    from kernelsmith.lineage import queries
    from kernelsmith.lineage.verdicts import candidate_record

    with opened(db) as connection:
        if run_id is None and _is_run(connection, name):
            _show_run(connection, queries.find_run(connection, name), db, as_json)
            return
        within = None if run_id is None else queries.find_run(connection, run_id)
        found = candidate_record(connection, queries.find_candidate(connection, name, within))
    if as_json:
        printing.document("verdict", verdicts.record_fields(found))
    else:
        verdicts.show_record(found, db)


def diff(
    name: Annotated[
        str,
        typer.Argument(metavar="CANDIDATE", help="Candidate id, its beginning, or `latest`."),
    ],
    against: Annotated[
        Literal["parent", "seed"], typer.Option(help="What it is compared with.")
    ] = "seed",
    db: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """What a candidate changed."""
    from kernelsmith.lineage import queries

    with opened(db) as connection:
        record = queries.find_candidate(connection, name)
        new = queries.load_candidate(connection, record)
        others = (
            queries.parent_records(connection, record)
            if against == "parent"
            else [queries.seed_record(connection, record)]
        )
        if not others:
            raise InputError(f"candidate {new.id} is a seed: it has no parent")
        old = queries.load_candidate(connection, others[0])
    lines = list(
        difflib.unified_diff(
            old.source.splitlines(),
            new.source.splitlines(),
            f"{old.id} ({old.author})",
            f"{new.id} ({new.author})",
            lineterm="",
        )
    )
    if as_json:
        fields = {"candidate": new.id, "against": old.id, "diff": "\n".join(lines)}
        printing.document("diff", fields)
        return
    console = printing.out()
    for line in lines:
        console.print(line, style=_colour(line), markup=False)
    if not lines:
        console.print(f"{new.id} and {old.id} are the same source", markup=False)


@contextmanager
def opened(db: Path | None) -> Iterator[Any]:
    """One view of the lineage that the options and settings name."""
    from kernelsmith.lineage.database import open_for_reading

    database = open_for_reading(db or config.load().db)
    try:
        with database.reading() as connection:
            yield connection
    finally:
        database.close()


def _is_run(connection: Any, name: str) -> bool:
    """Whether ``name`` can only mean a run. ``latest`` means the latest run."""
    from kernelsmith.lineage import queries

    if name == "latest":
        return True
    if not queries.run_ids(connection, name):
        return False
    if queries.candidate_ids(connection, name):
        raise InputError(
            f"{name!r} begins a run's id and a candidate's", hint="give more of the id"
        )
    return True


def _show_run(connection: Any, run_id: str, db: Path | None, as_json: bool) -> None:
    from kernelsmith.cli.standing import run_fields, summary
    from kernelsmith.lineage import queries, standings, verdicts

    standing = standings.run_standing(connection, run_id)
    row = queries.run_row(connection, run_id)
    newest = verdicts.newest(connection, run_id, NEWEST)
    accepted = verdicts.accepted(connection, run_id)
    if as_json:
        facts = {key: row[key] for key in ("seed", "sandbox", "versions", "options", "seeds")}
        facts["device_facts"] = row["device_facts"]
        lists = {"accepted": accepted, "newest": newest}
        printing.document("run", {**run_fields(standing), **facts, **lists})
        return
    summary(standing, db)
    console = printing.out()
    if newest:
        console.print(f"\nnewest {len(newest)} candidates")
    for each in newest:
        status = each["status"] or ("seed" if each["author"] == "seed" else "waiting")
        words = f"{each['id']}  {each['task']:<12} {status:<14} {each['message'] or ''}"
        console.print(f"  {words.rstrip()}", markup=False)


def _colour(line: str) -> str:
    if line.startswith(("---", "+++")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
