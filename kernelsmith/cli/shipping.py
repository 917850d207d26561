"""``export``: approved winners into a library."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelsmith import config
from kernelsmith.cli import options, printing

if TYPE_CHECKING:
    from kernelsmith.library.export import Export
    from kernelsmith.model import Task
    from kernelsmith.wiring import Wiring


def export(
    context: typer.Context,
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="The library; made if it is not there.")
    ],
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Only what this run's reviews approved."),
    ] = None,
    sandbox: Annotated[
        str | None, typer.Option(help="auto, docker, bubblewrap or process.")
    ] = None,
    tasks: options.TaskFolders = None,
    db: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Writes approved winners into a library of kernels, each with a certificate."""
    from kernelsmith.library.export import Builders, export
    from kernelsmith.lineage import queries
    from kernelsmith.lineage.store import open_existing

    wiring: Wiring = context.obj
    settings = config.load()
    wall = options.chosen("--sandbox", sandbox, settings.sandbox)
    store = open_existing(db or settings.db)
    try:
        store.database.require_writable()
        with store.database.reading() as connection:
            within = None if run_id is None else queries.find_run(connection, run_id)
        builders = Builders(
            task=lambda row, name: _task(wiring, row, name, tasks),
            device=wiring.device,
            sandbox=lambda trusted: wiring.sandbox(wall, trusted),
        )
        console = printing.err()
        done = export(store, to, within, builders, lambda line: printing.say(console, line))
    finally:
        store.close()
    tell(done, as_json)


def tell(done: "Export", as_json: bool) -> None:
    """Prints what an export did."""
    if as_json:
        printing.document("export", _fields(done))
    else:
        _show(done)


def _task(
    wiring: "Wiring", row: Mapping[str, Any], name: str, folders: list[Path] | None
) -> "Task":
    """The task of a run: from the folders given now, else from those the run was given."""
    then = [Path(folder) for folder in row["options"].get("task_folders", ())]
    return wiring.load_task(name, row["device"], folders or then)


def _fields(done: "Export") -> dict[str, Any]:
    return {
        "folder": str(done.folder),
        "package": done.package,
        "ops": [
            {
                "op": each.op,
                "candidate": each.candidate,
                "run": each.run,
                "epoch": each.epoch,
                "device": each.device,
                "gain": printing.gain_fields(each.gain),
                "unchecked": list(each.unchecked),
                "autograd": not isinstance(each.autograd, str),
                "no_autograd_because": each.autograd if isinstance(each.autograd, str) else None,
                "certificate_sha256": each.certificate_hash,
            }
            for each in done.ops
        ],
        "left": [
            {"op": op, "candidate": candidate, "reason": why} for op, candidate, why in done.left
        ],
        "superseded": [{"candidate": old, "by": new} for old, new in done.superseded],
    }


def _show(done: "Export") -> None:
    console = printing.out()
    printing.say(console, f"exported to {done.folder}", "bold")
    for each in done.ops:
        words = f"{each.op:<12} {each.candidate}  {printing.gain_line(each.gain)}"
        printing.say(console, f"  {words}")
        printing.say(console, f"  {'':<12} certified on {each.device}, epoch {each.epoch}")
        if each.unchecked:
            printing.say(console, f"  {'':<12} unchecked: {', '.join(each.unchecked)}", "yellow")
        if isinstance(each.autograd, str):
            printing.say(console, f"  {'':<12} no autograd: {each.autograd}", "yellow")
    for old, new in done.superseded:
        printing.say(console, f"  not exported: {old}, {new} was approved after it", "dim")
    for op, candidate, why in done.left:
        printing.say(console, f"  left out: {op} {candidate}: {why}", "yellow")
    names = ", ".join(each.op for each in done.ops)
    printing.say(console, f"from {done.package} import {names}")
    if done.package != done.folder.name:
        printing.say(console, f"install it under that name: pip install {done.folder}", "dim")
