"""``kernelsmith``: the commands, and how an error becomes one line and an exit code."""

import functools
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from kernelsmith import config
from kernelsmith.cli import (
    auditing,
    gating,
    library_commands,
    lineage_commands,
    merging,
    morning,
    ordering,
    pausing,
    proxying,
    reading,
    rehearsing,
    reviewing,
    running,
    setting_up,
    shipping,
    stopping,
    verifying,
    watching,
)
from kernelsmith.cli.printing import visible
from kernelsmith.errors import KernelsmithError
from kernelsmith.interrupts import EXIT_INTERRUPTED
from kernelsmith.wiring import Wiring, real

EXIT_FAILED = 4

USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[
    0
]  # Typer's UsageError, wherever it lives

_EPILOG = (
    "Exit codes: 0 done or accepted; 1 judged and rejected; 2 the input is wrong; 3 something "
    "needed is missing; 4 the machine failed; 5 the evidence cannot be trusted; 75 paused to "
    "the record; 130 interrupted."
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
    app.command("doctor")(_aborting(setting_up.doctor))
    app.add_typer(setting_up.tasks_app(), name="tasks")
    app.command("run")(running.run)
    app.command("resume")(running.resume)
    app.command("rehearse")(rehearsing.rehearse)
    app.command("watch")(watching.watch)
    app.command("summary")(morning.summary_of)
    app.command("stop")(_aborting(stopping.stop))
    app.command("pause")(_aborting(pausing.pause))
    app.command("thaw")(_aborting(pausing.thaw))
    app.command("runs")(reading.runs)
    app.command("show")(reading.show)
    app.command("diff")(reading.diff)
    app.command("review")(_aborting(reviewing.review))
    app.command("gate")(_aborting(gating.gate))
    app.command("order")(_aborting(ordering.order))
    app.command("audit")(_aborting(auditing.audit))
    app.command("merge")(_aborting(merging.merge))
    app.command("export")(_aborting(shipping.export))
    app.command("verify")(_aborting(verifying.verify))
    app.add_typer(library_commands.library_app(), name="library")
    app.command("replay")(_aborting(verifying.replay))
    app.command("proxy")(proxying.proxy)
    app.add_typer(lineage_commands.lineage_app(), name="lineage")
    return app


def main(arguments: Sequence[str] | None = None, wiring: Wiring | None = None) -> int:
    """Runs one command and returns its exit code. ``wiring``: other builders, for tests."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    _expect_no_log()
    try:
        _prepare_streams()
        command = typer.main.get_command(build_app())
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
        _silence_stdout()
        return 0
    except OSError as error:
        _silence_stdout()  # or Python writes to it once more at exit
        where = "" if error.filename is None else f" {error.filename}"
        _say(f"cannot read or write{where}: {error.strerror or error}", "is a disk full?")
        _trace()
        return EXIT_FAILED
    except Exception as error:
        _say(
            f"unforeseen {type(error).__name__}: {error}",
            "this is a fault of kernelsmith: report it with what KERNELSMITH_TRACEBACK=1 shows",
        )
        _trace()
        return EXIT_FAILED


def _aborting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Typer ends a command on Ctrl-C without a word; an abort is told to :func:`main`."""

    @functools.wraps(function)
    def called(*values: Any, **named: Any) -> Any:
        try:
            return function(*values, **named)
        except KeyboardInterrupt as error:
            raise typer.Abort from error

    return called


def _expect_no_log() -> None:
    """Without ``--log`` records go nowhere: what a person must know is said on stderr anyway."""
    ours = logging.getLogger("kernelsmith")
    if not ours.handlers:
        ours.addHandler(logging.NullHandler())


def _prepare_streams() -> None:
    """A terminal that lacks a sign gets a question mark in its place.

    Raises:
        OSError: stdout is closed.
    """
    if sys.stdout is None:
        raise OSError("stdout is closed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _silence_stdout() -> None:
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _trace() -> None:
    if config.wants_traceback():
        traceback.print_exc()


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
    if sys.stderr is None:
        return
    print(f"error: {visible(' '.join(message.split()))}", file=sys.stderr)
    if hint:
        print(f"hint: {visible(' '.join(hint.split()))}", file=sys.stderr)
