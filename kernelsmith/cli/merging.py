"""``kernelsmith merge``: several winners of a task as one candidate, judged as any other."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelsmith import config
from kernelsmith.cli import gating, options, printing
from kernelsmith.cli.reading import opened
from kernelsmith.errors import InputError
from kernelsmith.lineage.past import PERSON

if TYPE_CHECKING:
    from kernelsmith import startup
    from kernelsmith.library.merge import Merge, Winner
    from kernelsmith.lineage.verdicts import CandidateRecord
    from kernelsmith.model import Gain, Task
    from kernelsmith.wiring import Wiring

EXIT_NOTHING = 1


def merge(
    context: typer.Context,
    names: Annotated[
        list[str], typer.Argument(metavar="ID", help="Two or more accepted candidates.")
    ],
    task: Annotated[str | None, typer.Option(help="The task that they must be of.")] = None,
    prefer: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="It takes each case where no other is faster by the task's min_gain; default: "
            "the one that gains most overall.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where to write it; default by its id."),
    ] = None,
    write_only: Annotated[bool, typer.Option("--write-only", help="Write it, judge nothing.")] = (
        False
    ),
    sandbox: options.Sandbox = None,
    task_folders: options.TaskFolders = None,
    db: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Make one per-shape dispatch of several winners, and judge it as a new candidate.

    Each timed case goes to the winner whose gain over the seed on record is greatest, by the task's
    min_gain at least; between two cases the boundary is their sizes' geometric mean. The verdict
    goes on record, for review.
    """
    found = _found(names, task, db)
    chosen = None if prefer is None else _preferred(prefer, [each for each, _, _ in found])
    loaded, folders = _task(context.obj, found, task_folders, db)
    made = _merge(loaded, found, chosen)
    if made.same_as is not None:
        words = f"{made.same_as} is the fastest everywhere it was timed: there is nothing to merge"
        if as_json:
            printing.document("merge", {"task": loaded.name, "same_as": made.same_as, "file": None})
        else:
            print(words)
        raise typer.Exit(EXIT_NOTHING)
    file = _written(loaded, made, out)
    console = printing.out() if write_only and not as_json else printing.err()
    for case, winner in made.fastest:
        printing.say(console, f"  {case}  {winner}")
    left = [each.candidate.id for each, _, _ in found if each.candidate.id not in made.used]
    for name in left:
        printing.say(console, f"{name} adds nothing: left out")
    printing.say(console, f"wrote {file}")
    if write_only:
        if as_json:
            fields = {"task": loaded.name, "same_as": None, "file": str(file)}
            printing.document("merge", {**fields, "parents": made.used, "left": left})
        return
    gating.recorded(context, _request(loaded, made, file, sandbox, folders, db), db, as_json)


def _request(
    task: "Task",
    made: "Merge",
    file: Path,
    sandbox: str | None,
    folders: tuple[Path, ...],
    db: Path | None,
) -> "startup.Request":
    """The run that judges it, as `gate FILE --parent ID` has one, with all of them as parents."""
    from kernelsmith import startup

    settings = config.load()
    return startup.Request(
        tasks=(task.name,),
        proposer=PERSON,
        device=task.device,
        sandbox=options.chosen("--sandbox", sandbox, settings.sandbox),
        time_limit_s=config.seconds(settings.time_limit),
        max_candidates=None,
        seed=0,
        first=str(file),
        parent=made.used[0],
        merged=made.used,
        task_folders=folders,
        db=db or settings.db,
    )


def _found(
    names: list[str], task: str | None, db: Path | None
) -> "list[tuple[CandidateRecord, Gain, str]]":
    """(record, gain over the seed, seed's id) of each candidate.

    Raises:
        InputError: fewer than two; one may not be merged; they are of different tasks or epochs.
        EvidenceError: the lineage was edited.
    """
    from kernelsmith.lineage import queries, verdicts
    from kernelsmith.lineage.verify import require_intact

    found = []
    with opened(db) as connection:
        require_intact(connection)
        for record in dict.fromkeys(queries.find_candidate(connection, name) for name in names):
            each = verdicts.candidate_record(connection, record)
            seed = queries.load_candidate(connection, queries.seed_record(connection, record)).id
            found.append((each, _gain(each, seed), seed))
    if len(found) < 2:
        raise InputError("a merge takes two candidates or more", hint="give another ID")
    told = [each.candidate for each, _, _ in found]
    for what, of_each in (
        ("tasks", [each.task for each in told]),
        ("epochs", [each.verdict.epoch if each.verdict else "" for each, _, _ in found]),
        ("seeds", [seed for _, _, seed in found]),
    ):
        if len(set(of_each)) > 1:
            pairs = [f"{each.id} {one}" for each, one in zip(told, of_each, strict=True)]
            raise InputError(
                f"they are of different {what}: {', '.join(pairs)}",
                hint="gains compare within one task, epoch and seed; `gate --again ID` judges anew",
            )
    its = found[0][0].candidate.task
    if task not in (None, its):
        raise InputError(f"they are of task {its}, not {task}", hint="leave --task out")
    return found


def _gain(found: "CandidateRecord", seed: str) -> "Gain":
    name, verdict = found.candidate.id, found.verdict
    if verdict is None or not verdict.accepted:
        status = "not judged" if verdict is None else verdict.status
        raise InputError(f"{name} is not accepted: {status}", hint="`kernelsmith runs` lists runs")
    if found.decision is not None and found.decision.decision == "reject":
        raise InputError(
            f"{name} was rejected by {found.decision.reviewer}",
            hint=f"`kernelsmith review --undo {name}` takes that back",
        )
    if found.final is not None:
        if found.unsupported is not None:
            again = f"`kernelsmith gate --again {name}` judges and times it anew"
            raise InputError(f"{name}: {found.unsupported}", hint=again)
        return found.final[1]
    if verdict.gain is None or verdict.gain.against != seed:
        raise InputError(
            f"{name} was not timed against the seed", hint=f"`kernelsmith gate --again {name}` does"
        )
    return verdict.gain


def _preferred(prefix: str, found: "list[CandidateRecord]") -> str:
    names = [each.candidate.id for each in found if each.candidate.id.startswith(prefix)]
    if len(names) != 1:
        raise InputError(f"--prefer {prefix!r} is none of them", hint="name one that is merged")
    return names[0]


def _task(
    wiring: "Wiring",
    found: "list[tuple[CandidateRecord, Gain, str]]",
    given: list[Path] | None,
    db: Path | None,
) -> "tuple[Task, tuple[Path, ...]]":
    """The task as it is now, and where it was found: by default where the first one's run did.

    Raises:
        InputError: its seed has changed since.
    """
    from kernelsmith import assembly
    from kernelsmith.lineage import queries
    from kernelsmith.model import seed_candidate

    record, _, seed = found[0]
    with opened(db) as connection:
        row = queries.run_row(connection, record.run_id)
    kept = tuple(Path(folder) for folder in row["options"].get("task_folders", []))
    folders = options.folders(given, config.load()) or kept
    (task,) = assembly.load_tasks(wiring, (record.candidate.task,), row["device"], folders)
    if seed_candidate(task).id != seed:
        raise InputError(
            f"the seed of {task.name} has changed since they were judged (it was {seed})",
            hint="restore the seed, or judge them against the new one",
        )
    return task, folders


def _merge(
    task: "Task", found: "list[tuple[CandidateRecord, Gain, str]]", prefer: str | None
) -> "Merge":
    """The merged source, within the language of candidates.

    Raises:
        InputError: it is not.
    """
    from kernelsmith.gate import policy
    from kernelsmith.library.merge import merge as merged

    made = merged(task, [_winner(each, gain) for each, gain, _ in found], prefer)
    violations = policy.check(made.source, task.entries)
    if violations and made.same_as is None:
        raise InputError(
            f"their merge is outside the language of candidates: {violations[0]}",
            hint="merge fewer of them",
        )
    return made


def _winner(found: "CandidateRecord", gain: "Gain") -> "Winner":
    from kernelsmith.library.merge import Winner

    return Winner(
        id=found.candidate.id,
        source=found.candidate.source,
        gains={each.case: each.gain for each in gain.cases},
        overall=gain.geomean,
    )


def _written(task: "Task", made: "Merge", out: Path | None) -> Path:
    """Raises InputError where another file is there already, or none can be written."""
    from kernelsmith.model import candidate_id

    file = out or Path(f"{task.name}_merged_{candidate_id(made.source)[:8]}.py")
    data = made.source.encode()
    try:
        if file.exists() and (not file.is_file() or file.read_bytes() != data):
            raise InputError(f"{file} is there already", hint="give another -o FILE")
        file.write_bytes(data)
    except OSError as error:
        raise InputError(
            f"cannot write {file}: {error.strerror}", hint="give another -o FILE"
        ) from error
    return file
