"""Where the summary of a run goes: a file, a webhook, a command. None of them ends a run."""

import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from kernelsmith.errors import InfrastructureError, KernelsmithError

WEBHOOK_TRIES = 4
WEBHOOK_TIMEOUT_S = 10.0
FIRST_WAIT_S = 1.0
COMMAND_TIMEOUT_S = 60.0
MAX_TOLD_CHARS = 2000
_LOG = logging.getLogger(__name__)


def deliver(what: str, send: Callable[[], None]) -> str:
    """Sends it; what went wrong is a record of the log and the answer, "" if nothing did."""
    try:
        send()
    except (KernelsmithError, OSError) as error:
        message = f"the summary did not reach the {what}: {error}"
        _LOG.error(message, exc_info=error, extra={"event": "summary_failed"})
        return message
    _LOG.info("summary sent to the %s", what, extra={"event": "summary_sent"})
    return ""


def to_file(path: Path, text: str, fields: Mapping[str, Any]) -> None:
    """Writes the text; JSON where the file's name says so. An older one is replaced as a whole.

    Raises:
        InfrastructureError: it cannot be written.
    """
    content = json.dumps(fields, indent=2) if path.suffix == ".json" else text
    partial = path.parent / f".{path.name}.{os.getpid()}"
    try:
        partial.write_text(content + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InfrastructureError(f"cannot write {path}: {error.strerror}") from error


def to_webhook(
    url: str,
    text: str,
    fields: Mapping[str, Any],
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Posts ``fields`` with a ``text`` beside them, which is what Slack and its kin show. Tries
    again, with longer waits, where the server or the way to it failed.

    Raises:
        InfrastructureError: it was not taken. The message names the server, not the whole URL.
    """
    parts, wait_s, problem = urlsplit(url), FIRST_WAIT_S, ""
    body = {"text": text, **fields}
    for number in range(1, WEBHOOK_TRIES + 1):
        try:
            # Not along with a redirect: the secret is for this server.
            answer = httpx2.post(url, json=body, timeout=WEBHOOK_TIMEOUT_S, follow_redirects=False)
            if answer.is_success:
                return
            problem = f"it answered {answer.status_code}"
            if answer.status_code < 500 and answer.status_code not in (408, 429):
                break
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            problem = f"{type(error).__name__}: {error}".replace(url, parts.hostname or "")
        _LOG.warning(
            "the webhook at %s failed, try %d: %s",
            *(parts.hostname, number, problem),
            extra={"event": "webhook_retry"},
        )
        if number < WEBHOOK_TRIES:
            wait(wait_s)
            wait_s *= 2
    raise InfrastructureError(f"{parts.hostname} did not take it: {problem}")


def to_command(command: str, text: str, timeout_s: float = COMMAND_TIMEOUT_S) -> None:
    """Runs it in a shell with the text on its stdin; ends it and all it started at its limit.

    Raises:
        InfrastructureError: it failed or took too long.
    """
    with subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(text + "\n", timeout=timeout_s)
        except BaseException as error:  # late, or interrupted while we waited
            with suppress(ProcessLookupError):  # its shell may be gone: what it left holds the pipe
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise InfrastructureError(
                f"it did not end within {timeout_s:g} s and was killed"
            ) from error
    if process.returncode:
        told = said.strip()[-MAX_TOLD_CHARS:] or "it said nothing"
        raise InfrastructureError(f"it failed ({process.returncode}): {told}")
