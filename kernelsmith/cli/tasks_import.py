"""``kernelsmith tasks import``: cases and weights from a histogram of real calls."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kernelsmith.cli import options, printing
from kernelsmith.errors import InputError, TaskError

if TYPE_CHECKING:
    from kernelsmith.authoring.histogram import Plan
    from kernelsmith.authoring.trace import BadLine, Seen
    from kernelsmith.model import Task

MOST_SHOWN = 8
Trace = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE", help="JSON lines of op or call, shapes or dims, dtype and count."
    ),
]
Into = Annotated[Path, typer.Option(metavar="NAME.toml", help="The task file to put them in.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda: whose cases they become.")]
Weights = Annotated[str, typer.Option(help="time: counts x a size estimate; counts: counts alone.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave lines out that do not read.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, write nothing.")]


def import_trace(
    context: typer.Context,
    trace: Trace,
    into: Into,
    device: Device = "auto",
    weights: Weights = "time",
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn a histogram of calls into cases: at most 12 timed, in proportion; the rest bits."""
    from kernelsmith import catalog
    from kernelsmith.authoring import edit, histogram, writing
    from kernelsmith.authoring.soundness import too_large

    basis = _basis(weights)
    on = context.obj.device_name(device)
    if not into.is_file() or into.suffix != ".toml":
        raise InputError(f"no task file {into}", hint="`kernelsmith tasks new` makes one")
    file = catalog.read_file(into)
    source = catalog.seed_source(into, file.seed)
    task = _task(file, source, str(into))
    seen, bad = _read(trace, task, skip_bad)
    plan = histogram.plan(seen, task, basis)
    if not plan.timed:
        raise InputError(f"{trace} has no call with a token", hint="empty batches are never timed")
    text = catalog.read_text(into, "task file")
    edited = edit.imported(text, on, task.token_dim, plan, seen, trace.name)
    new = "\n".join(edited.lines) + "\n"
    made = _require_sound(text, new, on, source, into)
    warnings = [f"warning: {each.message} (hint: {each.hint})" for each in too_large(made)]
    if not dry_run:
        writing.replace_text(into, new)
    _tell(into, on, plan, [*edited.notes, *warnings], bad, dry_run, as_json)


def _basis(text: str) -> Literal["time", "counts"]:
    if text == "time":
        return "time"
    if text == "counts":
        return "counts"
    raise InputError(f"--weights is {text!r}", hint="time or counts")


def _task(file: Any, source: str, where: str) -> "Task":
    """The task on the first of its devices: calls are the same on all."""
    from kernelsmith.catalog_build import build_task

    return build_task(file, next(iter(file.devices)), source, shipped=False, where=where)


def _read(trace: Path, task: "Task", skip_bad: bool) -> "tuple[list[Seen], list[BadLine]]":
    from kernelsmith.authoring.trace import lines_of, read_trace

    try:
        with trace.open("rb") as file:
            seen, bad = read_trace(lines_of(file), task)
    except OSError as error:
        raise InputError(f"cannot read {trace}: {error.strerror}", hint="name a file") from error
    if bad and not skip_bad:
        shown = "; ".join(f"line {each.number}: {each.why}" for each in bad[:MOST_SHOWN])
        more = f"; and {len(bad) - MOST_SHOWN} more" if len(bad) > MOST_SHOWN else ""
        raise InputError(
            f"{trace} has {printing.counted(len(bad), 'bad line')}: {shown}{more}",
            hint="nothing was imported; mend them, or leave them out with --skip-bad",
        )
    if not seen:
        raise InputError(
            f"{trace} has no call to import",
            hint='a line is {"call": "infer", "dims": {"M": 16, "N": 1024}, '
            '"dtype": "bfloat16", "count": 640}',
        )
    return seen, bad


def _require_sound(old: str, new: str, device: str, source: str, path: Path) -> "Task":
    """The task that is to be written: it loads, and says nothing else of other devices."""
    from kernelsmith.catalog_build import build_task
    from kernelsmith.catalog_schema import TaskFile

    before, after = tomllib.loads(old), tomllib.loads(new)
    before["devices"].pop(device, None)
    changed = {**after, "devices": {n: d for n, d in after["devices"].items() if n != device}}
    if before != changed:
        raise TaskError(
            f"{path}: its cases cannot be edited line by line",
            hint=f"write them under [[devices.{device}.cases]], one table a block",
        )
    file = TaskFile.model_validate(after)
    return build_task(file, device, source, shipped=False, where=str(path))


def _tell(
    into: Path,
    device: str,
    plan: "Plan",
    notes: list[str],
    bad: "list[BadLine]",
    dry_run: bool,
    as_json: bool,
) -> None:
    if as_json:
        timed = [
            {**_fields(group.seen), "weight": share, "kinds": group.kinds}
            for group, share in plan.timed
        ]
        fields = {
            "into": into.as_posix(),
            "device": device,
            "written": not dry_run,
            "rules": plan.rules,
            "timed": timed,
            "bits_only": [_fields(group.seen) for group in plan.bits_only],
            "left_out": plan.left_out,
            "changes": notes,
            "bad_lines": [{"line": each.number, "why": each.why} for each in bad],
        }
        printing.document("tasks_import", fields)
        return
    console = printing.out()
    for each in bad[:MOST_SHOWN]:
        printing.say(console, f"left out line {each.number}: {each.why}")
    if len(bad) > MOST_SHOWN:
        printing.say(console, f"left out {len(bad) - MOST_SHOWN} more lines")
    for line in (*plan.rules, *notes):
        printing.say(console, line)
    for group, share in plan.timed:
        sizes = " ".join(f"{name}={size}" for name, size in group.seen.dims)
        words = f"{share:7.4f}  {group.seen.call}  {group.seen.dtype}  {sizes}"
        printing.say(console, f"{words}  {printing.counted(group.seen.count, 'call')}")
    verb = "would write" if dry_run else "wrote"
    printing.say(console, f"{verb} {into}: {len(plan.timed)} timed cases on {device}")


def _fields(seen: "Seen") -> dict[str, Any]:
    return {"call": seen.call, "dtype": seen.dtype, "dims": dict(seen.dims), "count": seen.count}
