"""``kernelsmith gate``: one file judged, with or without a record."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelsmith import config
from kernelsmith.cli import options, printing, running
from kernelsmith.cli.reading import opened
from kernelsmith.errors import InfrastructureError, InputError
from kernelsmith.lineage.past import PERSON

if TYPE_CHECKING:
    from kernelsmith import loop, startup
    from kernelsmith.interrupts import Interrupts

EXIT_REJECTED = 1
SEED = "seed"


def gate(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A rewrite of the seed.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The task it is a rewrite for; with --parent ID, its task.")
    ] = None,
    parent: Annotated[
        str | None,
        typer.Option(
            metavar="ID|seed", help="What it is an edit of: the verdict goes on record, for review."
        ),
    ] = None,
    again: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="No file: this candidate on record, judged and timed anew."
        ),
    ] = None,
    device: options.Device = None,
    sandbox: options.Sandbox = None,
    task_folders: options.TaskFolders = None,
    db: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge one file against its task's seed.

    Without --parent nothing is recorded. With it the file is judged in a run of its own, as every
    candidate is: the gate proves itself, the file must be faster than the seed with the seed's
    bits, and a winner is timed against the seed once more. `show`, `review` and `resume` take it.

    With --again a candidate on record is judged so: one that is unsupported since an ancestor was
    rejected, or that was never timed against the seed, may be approved and exported if it passes.
    """
    from kernelsmith import startup
    from kernelsmith.cli import verdicts

    settings = config.load()
    _require_one(file, again, parent)
    if parent is not None or again is not None:
        origin = parent if again is None else again
        request = _request(file, task, origin or "", device, sandbox, task_folders, db)
        recorded(context, request, db, as_json)
        return
    assert file is not None
    if db is not None:
        raise InputError(
            "--db is where a verdict is recorded, and this one would not be",
            hint="add --parent ID, or --parent seed; or leave --db out",
        )
    single = startup.Single(
        file=file,
        task=_required(task),
        device=options.chosen("--device", device, settings.device),
        sandbox=options.chosen("--sandbox", sandbox, settings.sandbox),
        task_folders=options.folders(task_folders, settings),
    )
    verdict = startup.judge_file(context.obj, single)
    if as_json:
        printing.document("verdict", verdicts.verdict_fields(verdict))
    else:
        verdicts.show_verdict(verdict)
    if not verdict.accepted:
        raise typer.Exit(EXIT_REJECTED)


def _require_one(file: Path | None, again: str | None, parent: str | None) -> None:
    """Raises InputError unless there is one thing to judge."""
    if file is None and again is None:
        raise InputError("what is to be judged?", hint="name a FILE, or --again CANDIDATE")
    if again is not None and (file is not None or parent is not None):
        raise InputError(
            "--again judges a candidate on record, as what it was",
            hint="leave FILE and --parent out, or --again",
        )


def _required(task: str | None) -> str:
    if task is None:
        raise InputError("which task is it a rewrite for?", hint="add --task TASK")
    return task


def _request(
    file: Path | None,
    task: str | None,
    origin: str,
    device: str | None,
    sandbox: str | None,
    task_folders: list[Path] | None,
    db: Path | None,
) -> "startup.Request":
    """The run that judges a file as an edit of ``origin``, or without a file ``origin`` itself.
    What was not said is the origin's: its task, where it was."""
    from kernelsmith import startup
    from kernelsmith.lineage import queries
    from kernelsmith.wiring import read_source

    settings = config.load()
    if file is not None:
        read_source(file)  # before a database is made
    name, folders = task, options.folders(task_folders, settings)
    if origin != SEED or file is None:
        with opened(db) as connection:
            record = queries.find_candidate(connection, origin)
            origin = queries.load_candidate(connection, record).id
            run_id, its_task = queries.place_of(connection, record)
            kept = queries.run_row(connection, run_id)["options"].get("task_folders", [])
        name = its_task if name is None else name
        folders = folders or tuple(Path(folder) for folder in kept)
    return startup.Request(
        tasks=(_required(name),),
        proposer=PERSON,
        device=options.chosen("--device", device, settings.device),
        sandbox=options.chosen("--sandbox", sandbox, settings.sandbox),
        time_limit_s=config.seconds(settings.time_limit),
        max_candidates=None,
        seed=0,
        first=origin if file is None else str(file),
        parent=None if file is None else origin,
        again=file is None,
        task_folders=folders,
        db=db or settings.db,
    )


def recorded(
    context: typer.Context, request: "startup.Request", named: Path | None, as_json: bool
) -> None:
    """Judges the file of a request in a run of its own and tells the verdict.

    Raises:
        typer.Exit: it was rejected.
    """
    from kernelsmith import startup

    def open_run(interrupts: "Interrupts") -> "AbstractContextManager[loop.Setup]":
        return startup.new_run(context.obj, request, interrupts, running.notice)

    codes: list[int] = []

    def tell(run_id: str) -> None:
        codes.append(_say_verdict(request.db, run_id, named, as_json))

    # An interruption ends it here.
    running.drive(open_run, request.db, named, tell, config.Operations())
    if codes[0]:
        raise typer.Exit(codes[0])


def _say_verdict(path: Path, run_id: str, named: Path | None, as_json: bool) -> int:
    """The candidate's record. The exit code is its verdict's, and its final timing's.

    Raises:
        InfrastructureError: the machine failed on it: there is no verdict.
    """
    from kernelsmith.cli import verdicts
    from kernelsmith.lineage import queries
    from kernelsmith.lineage.verdicts import candidate_record

    with opened(path) as connection:
        record = queries.newest_record(connection, run_id)
        if record is None:  # interrupted before the file was on record
            return EXIT_REJECTED
        found = candidate_record(connection, record)
    if found.verdict is None and found.set_aside is not None:
        raise InfrastructureError(
            f"the machine failed on {found.candidate.id} twice: {found.set_aside}",
            hint="nothing was decided about it; judge it again",
        )
    if as_json:
        printing.document("verdict", verdicts.record_fields(found))
    else:
        verdicts.show_record(found, named)
    if found.verdict is None or not found.verdict.accepted or found.unsupported is not None:
        return EXIT_REJECTED
    if not as_json:
        where = printing.named_database(named)
        print(f"  kernelsmith review {found.candidate.id}{where}")
    return 0
