"""The structured log of a run: JSON lines, one a record, through the standard ``logging``.

Modules log to loggers of their own name, with ``extra={"event": ..., "facts": {...}}``; without
``--log`` nobody listens. The file is opened anew when something rotated it away.
"""

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from kernelsmith.errors import InputError, KernelsmithError

OURS = "kernelsmith"
FIRST = ("time", "level", "event", "run", "task", "candidate", "check", "seconds", "message")
_LOG = logging.getLogger(__name__)


class JsonLines(logging.Formatter):
    """A record as one line of JSON, ``FIRST`` in this order. What belongs to no run in particular
    says ``run_id``, once that is known."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        """``clean`` leaves secrets out of a text."""
        super().__init__()
        self.clean = clean
        self.run_id = ""

    def format(self, record: logging.LogRecord) -> str:
        """Nothing in it is a secret that is known, or shaped like a key."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        said: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "log"),
            "run": self.run_id or None,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
            "logger": record.name,
            "process": record.process,
            "thread": record.threadName,
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            said["error"] = type(error).__name__
            said["hint"] = getattr(error, "hint", None)
            said["traceback"] = "".join(traceback.format_exception(error))
        ordered = {name: said[name] for name in FIRST if name in said} | said
        told = {name: value for name, value in ordered.items() if value not in (None, "")}
        clean = {name: self._clean(value) for name, value in told.items()}
        return json.dumps(clean)

    def _clean(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {str(name): self._clean(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(each) for each in value]
        return value if isinstance(value, int | float | None) else self.clean(str(value))


class LogFile(WatchedFileHandler):
    """The file of a log. One that cannot be written is told of once, and ends no run."""

    told = False

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line; opens the file anew first, where it was moved away."""
        try:
            super().emit(record)
        except OSError:  # of opening it anew
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """What went wrong is the exception that is being dealt with."""
        if not self.told:
            self.told = True
            error = sys.exception()
            print(
                f"the log {self.baseFilename} cannot be written, the run goes on: {error}",
                file=sys.stderr,
                flush=True,
            )


@contextmanager
def opened(path: Path, level: str, secrets: Sequence[str]) -> Iterator[JsonLines]:
    """Records of this process go to ``path`` while the block runs: ours from ``level``, those of
    libraries from "warning" at least. What ends the block is a record too, with its traceback, and
    so is what ends a thread.

    Raises:
        InputError: the file cannot be opened.
    """
    from kernelsmith.capture.credentials import scrubbed

    lines = JsonLines(lambda text: scrubbed(text, secrets))
    try:
        file = LogFile(path, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write the log {path}: {error.strerror}", hint="name another with --log"
        ) from error
    file.setFormatter(lines)
    file.setLevel(level.upper())
    top, ours = logging.getLogger(), logging.getLogger(OURS)
    level_before, hook_before = ours.level, threading.excepthook

    def thread_ended(ending: threading.ExceptHookArgs) -> None:
        error = ending.exc_value
        _LOG.error("a thread ended: %s", error, exc_info=error, extra={"event": "thread_ended"})
        hook_before(ending)

    top.addHandler(file)
    ours.setLevel(min(file.level, logging.WARNING))  # metrics count warnings, whatever is written
    threading.excepthook = thread_ended
    try:
        yield lines
    except BaseException as error:
        _note_end(error)
        raise
    finally:
        threading.excepthook = hook_before
        ours.setLevel(level_before)
        top.removeHandler(file)
        file.close()


def _note_end(error: BaseException) -> None:
    """What ended the command. Typer's way out with an exit code is no error."""
    if isinstance(error, KeyboardInterrupt):
        _LOG.warning("interrupted", extra={"event": "interrupted"})
    elif isinstance(error, KernelsmithError):
        _LOG.error(error.message, exc_info=error, extra={"event": "error"})
    elif not hasattr(error, "exit_code"):
        message = f"unforeseen {type(error).__name__}: {error}"
        _LOG.critical(message, exc_info=error, extra={"event": "error"})
