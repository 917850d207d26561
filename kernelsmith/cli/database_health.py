"""``doctor --db``: whether the lineage is well, and a copy of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelsmith.cli import options, printing
from kernelsmith.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

Flag = Annotated[
    bool,
    typer.Option(
        "--db", help="Look at the lineage alone, in depth (DB, else the usual one), and copy it."
    ),
]
Named = Annotated[Path | None, typer.Argument(metavar="[DB]", help="With --db: the file.")]
To = Annotated[
    Path | None,
    typer.Option("--to", metavar="FILE", help="With --db: the copy; else DB.backup-TIME."),
]
NoBackup = Annotated[bool, typer.Option("--no-backup", help="With --db: make no copy.")]


def require_db(db: bool, named: Path | None, to: Path | None, no_backup: bool) -> None:
    """Refuses what only ``--db`` takes.

    Raises:
        InputError: it is there without ``--db``, or two of them contradict each other.
    """
    if not db and (named is not None or to is not None or no_backup):
        raise InputError(
            "a file, --to and --no-backup are for a look at the lineage", hint="doctor --db [DB]"
        )
    if to is not None and no_backup:
        raise InputError("--to and --no-backup contradict each other", hint="leave one out")


def examine(path: Path, to: Path | None, *, backup: bool, as_json: bool) -> None:
    """Looks, copies what is sound, tells; ends the command with the worst exit code.

    Raises:
        InputError: the copy can have no such place.
        KernelsmithError: as ``lineage.health`` says.
    """
    from kernelsmith.lineage import health

    options.can_be_written(to)
    found = health.examine(path)
    unsound = [each.exit_code for each in found.checks if not each.sound]
    copy = health.back_up(path, to) if backup and not unsound else None
    if as_json:
        fields = {
            "ok": found.ok,
            "path": str(found.path),
            "steps": found.steps,
            "head": found.head,
            "checks": [
                {"name": each.name, "ok": each.ok, "detail": each.detail, "hint": each.hint}
                for each in found.checks
            ],
            "backup": None
            if copy is None
            else {"path": str(copy.path), "bytes": copy.nbytes, "head": copy.head},
        }
        printing.document("doctor_db", fields)
    else:
        _show(found, copy, backup)
    code = max(unsound, default=max(each.exit_code for each in found.checks))
    if code:
        raise typer.Exit(code)


def show_checks(console: "Console", checks: Iterable[Any]) -> None:
    """A line for each thing that ``doctor`` looked at, with its hint."""
    for each in checks:
        mark, colour = ("✓", "green") if each.ok else ("✗", "red")
        printing.say(console, f"{mark} {each.name:<10} {each.detail}", colour)
        if each.hint:
            printing.say(console, f"    hint: {each.hint}")


def _show(found: Any, copy: Any, backup: bool) -> None:
    console = printing.out()
    show_checks(console, found.checks)
    if copy is not None:
        words = f"{copy.path}, {copy.nbytes / 2**20:,.1f} MiB, opened again: the same record"
        printing.say(console, f"✓ {'backup':<10} {words}", "green")
    elif backup:
        printing.say(console, f"  {'backup':<10} none: there is nothing sound to copy")
