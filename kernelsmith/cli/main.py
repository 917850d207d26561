"""``kernelsmith``: the commands, and how an error becomes one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kernelsmith.cli import lineage_commands, reading, running, setting_up
from kernelsmith.errors import KernelsmithError
from kernelsmith.wiring import Wiring, real

EXIT_INTERRUPTED = 130

USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[
    0
]  # Typer's UsageError, wherever it lives

_EPILOG = (
    "Exit codes: 0 done or accepted; 1 judged and rejected; 2 the input is wrong; 3 something "
    "needed is missing; 4 the machine failed; 5 the evidence cannot be trusted; 130 interrupted."
)


def build_app() -> typer.Typer:
    """All commands of this version."""
    app = typer.Typer(
        name="kernelsmith",
        help="Makes Triton kernels faster and keeps every bit.",
        epilog=_EPILOG,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    app.command("doctor")(setting_up.doctor)
    app.add_typer(setting_up.tasks_app(), name="tasks")
    app.command("run")(running.run)
    app.command("resume")(running.resume)
    app.command("stop")(running.stop)
    app.command("runs")(reading.runs)
    app.command("show")(reading.show)
    app.command("diff")(reading.diff)
    app.command("gate")(running.gate)
    app.add_typer(lineage_commands.lineage_app(), name="lineage")
    return app


def main(arguments: Sequence[str] | None = None, wiring: Wiring | None = None) -> int:
    """Runs one command and returns its exit code. ``wiring``: other builders, for tests."""
    command = typer.main.get_command(build_app())
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = command.main(
            words, prog_name="kernelsmith", standalone_mode=False, obj=wiring or real()
        )
        sys.stdout.flush()
        return int(code or 0)
    except USAGE_ERROR as error:
        return _usage(error)
    except KernelsmithError as error:
        _say(error.message, error.hint)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted", None)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        print(f"kernelsmith {metadata.version('kernelsmith-rl')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Options of every command."""


def _usage(error: BaseException) -> int:
    message = getattr(error, "format_message", lambda: str(error))().rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "kernelsmith"
    _say(message[:1].lower() + message[1:], f"`{path} --help`")
    return 2


def _say(message: str, hint: str | None) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    if hint:
        print(f"hint: {' '.join(hint.split())}", file=sys.stderr)
