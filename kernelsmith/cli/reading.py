"""Commands that read the lineage: ``runs``, ``show``, ``diff``. They never create one."""

import sys
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
    from kernelsmith.cli.standing import agent_line, row, run_fields, state_of
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
        printing.say(console, words, "bold")
        for task in each.tasks:
            name, judged, accepted, incumbent, gain, interval = row(task)
            counts = f"{judged} judged, {accepted} accepted"
            printing.say(console, f"  {name:<12} {counts:<26} {incumbent:<16}  {gain}  {interval}")
        if each.agent is not None:
            printing.say(console, f"  {'agent':<12} {agent_line(each.agent)}")
    if not found:
        printing.say(console, "no runs yet: kernelsmith run TASK")


def show(
    name: Annotated[
        str,
        typer.Argument(metavar="ID", help="Run, candidate or session, its beginning, or `latest`."),
    ],
    run_id: Annotated[
        str | None, typer.Option("--run", help="The candidate or session as it is in this run.")
    ] = None,
    db: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """A candidate with its evidence, a conversation with a model, or a run."""
    from kernelsmith.cli import verdicts
    from kernelsmith.lineage import queries
    from kernelsmith.lineage.verdicts import candidate_record

    with opened(db) as connection:
        if run_id is None and is_run(connection, name):
            _show_run(connection, queries.find_run(connection, name), db, as_json)
            return
        within = None if run_id is None else queries.find_run(connection, run_id)
        if _is_session(connection, name):
            _show_session(connection, *queries.find_session(connection, name, within), db, as_json)
            return
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
    """What a candidate changed, as a patch: `kernelsmith diff ID | git apply`."""
    from kernelsmith.cli import patches
    from kernelsmith.cli.transcript import REHEARSAL
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
        path = patch_path(connection, record)
        rehearsal = queries.is_rehearsed(connection, record)
    text = patches.patch(old.source, new.source, path)
    if as_json:
        fields = {
            "candidate": new.id,
            "author": new.author,
            "rehearsal": rehearsal,
            "against": old.id,
            "diff": text,
        }
        printing.document("diff", fields)
        return
    if rehearsal:
        print(f"{new.id} by {new.author}: {REHEARSAL}", file=sys.stderr)
    patches.show(text)
    if not text:
        print(f"{new.id} and {old.id} are the same source", file=sys.stderr)


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


def patch_path(connection: Any, record: str) -> str:
    """The file that a patch of a candidate is for: its seed's, by the definition its run judged
    by; a run that kept none is taken to have named task and seed alike."""
    from kernelsmith.cli import patches
    from kernelsmith.lineage import queries
    from kernelsmith.lineage.definitions import definition

    run_id, task = queries.place_of(connection, record)
    run_options = queries.run_row(connection, run_id)["options"]
    kept = definition(connection, run_options, task)
    folder = Path(patches.SHIPPED_SEEDS)
    if kept is not None and not kept.shipped and run_options.get("task_folders"):
        folder = Path(run_options["task_folders"][0])
    return patches.seed_path(task if kept is None else kept.seed_name, task, folder, Path.cwd())


def is_run(connection: Any, name: str) -> bool:
    """Whether ``name`` can only mean a run. ``latest`` means the latest run; an empty name is left
    to whoever looks a run up to refuse."""
    from kernelsmith.lineage import queries

    if name == "latest" or not name.strip():
        return True
    if not queries.run_ids(connection, name):
        return False
    if queries.candidate_ids(connection, name):
        raise InputError(
            f"{name!r} begins a run's id and a candidate's", hint="give more of the id"
        )
    return True


def _show_run(connection: Any, run_id: str, db: Path | None, as_json: bool) -> None:
    from kernelsmith.cli.standing import run_fields, show_sessions, summary
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
    if standing.agent is not None:
        show_sessions(console, standing.agent)
    if newest:
        printing.say(console)
        printing.say(console, f"newest {len(newest)} candidates")
    for each in newest:
        status = each["status"] or ("seed" if each["author"] == "seed" else "waiting")
        words = f"{each['id']}  {each['task']:<12} {status:<14} {each['message'] or ''}"
        printing.say(console, f"  {words.rstrip()}")


def _is_session(connection: Any, name: str) -> bool:
    """Whether ``name`` means a conversation: ours begin with "s", which no other id does; a
    foreign client's may be any word that begins no candidate's id."""
    from kernelsmith.lineage import queries

    if name.startswith("s"):
        return True
    foreign = queries.session_names(connection, name)
    return bool(foreign) and not queries.candidate_ids(connection, name)


def _show_session(
    connection: Any, session_id: str, run_id: str, db: Path | None, as_json: bool
) -> None:
    from kernelsmith.cli.conversations import session_fields
    from kernelsmith.cli.transcript import show_session
    from kernelsmith.lineage import conversations, queries, spending

    is_known = run_id in queries.run_ids(connection, run_id)
    options = queries.run_row(connection, run_id)["options"] if is_known else {}
    prices = spending.prices_of(options)
    fields = session_fields(
        conversations.session(connection, session_id, run_id),
        spending.brief(connection, run_id, session_id, prices),
        prices=prices,
        submitted=spending.submissions(connection, session_id),
        rehearsal=bool(options.get("agent", {}).get("rehearsal")),
    )
    if as_json:
        printing.document("session", fields)
    else:
        show_session(fields, db)
