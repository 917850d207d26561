"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from kernelsmith.config import Settings

Database = Annotated[
    Path | None, typer.Option("--db", help="The lineage; default $KERNELSMITH_DB, ./runs.db.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
TaskFolders = Annotated[
    list[Path] | None, typer.Option("--tasks", metavar="DIR", help="Look for tasks here first.")
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Run id, its beginning, or `latest`.")]


def folders(given: list[Path] | None, settings: Settings) -> tuple[Path, ...]:
    """Task folders in the order they are searched."""
    return tuple(given) if given else settings.tasks
