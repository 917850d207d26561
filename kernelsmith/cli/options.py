"""Options that several commands share."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from kernelsmith.config import Settings
from kernelsmith.errors import InputError

Database = Annotated[
    Path | None, typer.Option("--db", help="The lineage; default $KERNELSMITH_DB, ./runs.db.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
TaskFolders = Annotated[
    list[Path] | None, typer.Option("--tasks", metavar="DIR", help="Look for tasks here first.")
]
Device = Annotated[str | None, typer.Option(help="auto, cpu or cuda.")]
Sandbox = Annotated[str | None, typer.Option(help="auto, docker, bubblewrap or process.")]
Model = Annotated[str | None, typer.Option(help="The agent's model, any id its server knows.")]
BudgetUsd = Annotated[
    str | None, typer.Option(help="The agent's dollars, default 5; `none` for no such limit.")
]
BudgetTokens = Annotated[
    int | None, typer.Option(min=1, help="The agent's tokens, read and written; not limited.")
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, help="The agent's conversations at once, default 2.")
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Run id, its beginning, or `latest`.")]


def chosen(name: str, given: str | None, setting: str) -> str:
    """The option if it was given, else the setting.

    Raises:
        InputError: the option is an empty word, as from a variable that is not set.
    """
    if given is not None and not given.strip():
        raise InputError(f"{name} is {given!r}", hint=f"leave {name} out to get {setting}")
    return setting if given is None else given


def can_be_written(*paths: Path | None) -> None:
    """Refuses a place for a file before the work of minutes whose answer is to go there.

    Raises:
        InputError: its folder is missing, or it is a folder.
    """
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise InputError(f"{path.parent} is no folder", hint="make it first")
        if path is not None and path.is_dir():
            raise InputError(f"{path} is a folder", hint="name a file")


def folders(given: list[Path] | None, settings: Settings) -> tuple[Path, ...]:
    """Task folders in the order they are searched."""
    return tuple(given) if given else settings.tasks


def of_signature(function: Callable[..., None]) -> dict[str, inspect.Parameter]:
    """The options that a function's signature asks for."""
    return dict(inspect.signature(function, eval_str=True).parameters)


def joined(
    called: Callable[..., None],
    command: Callable[..., None],
    more: Iterable[inspect.Parameter],
    name: str,
) -> Callable[..., None]:
    """``called`` with the options of ``command``, ``more`` behind them, and without ``name``: it
    makes that parameter of ``command`` out of what ``more`` asks for."""
    own = of_signature(command).values()
    parameters = [*(each for each in own if each.name != name), *more]
    parameters.sort(key=lambda each: each.kind)  # keyword-only parameters of ours come last
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called
