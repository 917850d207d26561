"""``--detach``: the same command once more, in a session of its own, and how it tells it began.

The command is executed anew, not forked: nothing of this process is shared but one pipe, into which
it writes the run's id when that is on record. Until then what it says goes to the caller, too.
"""

import functools
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from kernelsmith import config
from kernelsmith.cli import options, printing
from kernelsmith.errors import InfrastructureError, InputError
from kernelsmith.interrupts import EXIT_INTERRUPTED

DETACH = "--detach"
READY = "--ready-fd"
LOOK_EVERY_S = 0.3  # at what it says while it starts

Ready = Callable[[str], None]
"""Takes the id of a run that is on record."""


def _options(
    detach: Annotated[
        bool,
        typer.Option(DETACH, help="Go on in the background; wait only until it is on record."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where its output goes then; default kernelsmith-RUN.out beside the database.",
        ),
    ] = None,
    ready_fd: Annotated[int | None, typer.Option(READY, hidden=True)] = None,
) -> None:
    """The options; only their signature is used."""


def detachable(command: Callable[..., None]) -> Callable[..., None]:
    """A command that may run in the background, with options ``db`` and ``as_json``. It takes
    ``ready`` and calls it once its run is on record."""

    @functools.wraps(command)
    def called(*, detach: bool, output: Path | None, ready_fd: int | None, **values: Any) -> None:
        if detach:
            db = values["db"] or config.load().db
            _detach(db, output, values["as_json"], sys.orig_argv)
            return
        if ready_fd is not None:  # people read what it says
            values["as_json"] = False
        elif output is not None:
            raise InputError("--output is where a detached run's output goes", hint="add --detach")
        command(**values, ready=functools.partial(_tell_ready, ready_fd))

    return options.joined(called, command, options.of_signature(_options).values(), "ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    """A command in its own session. ``said``: its output, to be read from its start."""

    process: subprocess.Popen[bytes]
    ready: BinaryIO
    said: BinaryIO
    output: Path


def _tell_ready(ready_fd: int | None, run_id: str) -> None:
    """Says to whoever started this command that its run is on record. Nobody may be there."""
    if ready_fd is None:
        return
    with suppress(OSError), os.fdopen(ready_fd, "w") as ready:  # the caller may have gone away
        json.dump({"run": run_id}, ready)


def _detach(db: Path, output: Path | None, as_json: bool, words: Sequence[str]) -> None:
    """Starts this process's own command (``words``: as it was started) without ``--detach``.
    Returns when its run is on record.

    Raises:
        InputError: the output cannot be written.
        DatabaseError: nor can it beside the database, since nothing can.
        InfrastructureError: it was killed before.
        typer.Exit: it ended before, with its exit code; it has said why.
    """
    if output is None:
        from kernelsmith.lineage.database import can_create

        can_create(db)
    try:
        with _uninterrupted():  # or what was started would be nobody's
            started = _start(db, output, words)
        with started.ready, started.said:
            told = _wait(started)
    except KeyboardInterrupt:
        started.process.terminate()
        started.process.wait()
        print("interrupted: the command was ended", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if not told:
        code = started.process.wait()
        if output is None:
            started.output.unlink(missing_ok=True)  # all of it was passed on
        if code < 0:
            raise InfrastructureError(
                f"the command was killed by signal {-code} before its run was on record",
                hint="`dmesg` says whether memory ran out",
            )
        raise typer.Exit(code)
    run_id = str(json.loads(told)["run"])
    kept = started.output
    if output is None:
        kept = kept.rename(kept.with_name(f"kernelsmith-{run_id}.out"))
    facts = {"run": run_id, "pid": started.process.pid, "output": str(kept), "db": str(db)}
    started.process.returncode = 0  # it is nobody's to wait for from here on
    if as_json:
        printing.document("detached", facts)
    else:
        print(f"run {run_id} goes on as process {facts['pid']}; its output: {kept}")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is heard at the end of the block. What is executed inside it hears Ctrl-C, even if
    this process was told to ignore it."""
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


def _start(db: Path, output: Path | None, words: Sequence[str]) -> _Started:
    if DETACH not in words:
        raise InputError(f"{DETACH} needs a command line", hint="start it by `kernelsmith run`")
    folder = db.expanduser().absolute().parent
    path = (output or folder / f".kernelsmith-starting-{os.getpid()}.out").expanduser().absolute()
    try:
        log = path.open("ab")
        said = path.open("rb")
    except OSError as error:
        raise InputError(
            f"cannot write the output {path}: {error.strerror}", hint="name a file with --output"
        ) from error
    said.seek(log.tell())
    place = len(words) - 1 - list(reversed(words)).index(DETACH)
    reading, writing = os.pipe()
    with log:
        process = subprocess.Popen(
            [sys.executable, *words[1:place], READY, str(writing), *words[place + 1 :]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(writing,),
            start_new_session=True,
        )
    os.close(writing)
    return _Started(process=process, ready=os.fdopen(reading, "rb"), said=said, output=path)


def _wait(started: _Started) -> bytes:
    """What came through the pipe to its end; nothing if the command ended before."""
    told = b""
    while True:
        readable, _, _ = select.select([started.ready], [], [], LOOK_EVERY_S)
        sys.stderr.write(started.said.read().decode("utf-8", "replace"))
        sys.stderr.flush()
        if readable:
            chunk = os.read(started.ready.fileno(), 4096)
            if not chunk:
                break
            told += chunk
    if not told:
        started.process.wait()
        sys.stderr.write(started.said.read().decode("utf-8", "replace"))
    return told
