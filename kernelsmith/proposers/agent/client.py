"""Calls to the model's server: tried until there is a whole answer, as long as the budget lets."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from kernelsmith.errors import InfrastructureError, InputError, MissingError, StorageError
from kernelsmith.proposers.agent.backoff import wait_s
from kernelsmith.proposers.agent.connection import Connection, Try
from kernelsmith.proposers.agent.seams import Budget
from kernelsmith.wire import Answer
from kernelsmith.wire.problems import UNREADABLE

READ_TIMEOUT_S = 120.0  # between bytes; pings keep a long answer alive
READ_TIMEOUT_MAX_S = 1800.0  # doubled up to here: a small server may read a prompt for minutes
UNREADABLE_MAX = 12  # tries in a row whose answer ended properly and still cannot be read
UNREACHED_MAX = 8  # tries, about two minutes, before the first answer of all
UNREACHABLE, CAPTURE_FAILED = "upstream_unreachable", "capture_failed"  # the proxy's own errors
KEY_VARIABLE = "ANTHROPIC_API_KEY"
SHORTEST_KEY = 6  # a shorter one is a word that local servers are given, as "none"


class Caller:
    """The connection of all sessions to their server; belongs to one event loop."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        proxy_token: str = "",
        read_timeout_s: float = READ_TIMEOUT_S,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        now_s: Callable[[], float] = time.time,
        notice: Callable[[str, str], None] = lambda session_id, text: None,
    ) -> None:
        """``base_url``: what session ids are appended to; ``api_key``: "" if the server needs
        none; ``proxy_token``: by which the run's proxy knows its own calls;
        ``notice(session_id, text)``: told of every wait before another try."""
        self._sleep = sleep
        self._now_s = now_s
        self._notice = notice
        self._api_key = api_key
        self._base_url = base_url
        self._reached = False
        self._read_timeout_s = read_timeout_s
        self._connection = Connection(base_url, api_key, proxy_token)

    async def call(
        self,
        session_id: str,
        turn: int,
        first_attempt: int,
        body: bytes,
        budget: Budget,
        max_tokens: int,
    ) -> Answer | None:
        """The answer to this turn's request: a whole message, or the server's refusal of this
        very request (400, 413, 422 …) as an ``error``. None: the budget is spent.

        Overload, limits and lost connections are waited out, for as long as it takes; each try
        needs the budget's leave.

        Raises:
            MissingError: the key is missing, wrong or may not use the model; the server was never
                reached.
            InputError: there is no such model or address; nothing is left to pay with; a budget
                cannot be kept, since the server does not say what an answer took.
            InfrastructureError: the server's answers cannot be read, or no request can be sent.
            StorageError: the proxy cannot record.
        """
        failures, unreadable, patience_s = 0, 0, self._read_timeout_s
        while True:
            attempt = first_attempt + failures
            ticket = await budget.admit(len(body), max_tokens, (session_id, turn, attempt))
            if ticket is None:
                return None
            tried = None
            try:
                tried = await self._connection.send(session_id, turn, attempt, body, patience_s)
            finally:
                usage = tried.answer.usage if tried is not None else None
                budget.settle(ticket, usage if usage is not None and usage.tokens else None)
            answer = self._without_key(tried.answer)
            if not tried.dropped and answer.received:
                self._reached = True
                if not answer.usage.tokens:
                    budget.require_no_limits()
                return answer
            why = tried.dropped or _reason(answer)
            if not tried.dropped and not _is_passing(answer):
                return self._final(answer)
            failures += 1
            self._require_reached(tried, failures, why)
            if tried.silent:
                patience_s = max(patience_s, min(2 * patience_s, READ_TIMEOUT_MAX_S))
            unreadable = unreadable + 1 if not tried.dropped and _is_unreadable(answer) else 0
            if unreadable == UNREADABLE_MAX:
                raise InfrastructureError(
                    f"{unreadable} answers in a row from {self._base_url} cannot be read: {why}",
                    hint="does the server speak the Messages API? `kernelsmith show "
                    f"{session_id}` has what it sent",
                )
            pause_s = wait_s(
                f"{session_id}/{turn}/{attempt}", failures, tried.headers, self._now_s()
            )
            self._notice(session_id, f"waits {pause_s:.0f} s: {why}")
            await self._sleep(pause_s)

    async def close(self) -> None:
        """Closes all connections; calls in flight should be cancelled before."""
        await self._connection.close()

    def _without_key(self, answer: Answer) -> Answer:
        """Servers repeat a key that they refuse; their words go on record with a run's end."""
        error = answer.error
        if error is None or len(self._api_key) < SHORTEST_KEY:
            return answer
        message = error.message.replace(self._api_key, "(left out)")
        return replace(answer, error=replace(error, message=message))

    def _require_reached(self, tried: Try, failures: int, why: str) -> None:
        """Raises for a proxy that cannot record, and for a server that was never reached yet: a
        wrong address is not waited out, a lost connection is."""
        kind = tried.answer.error.kind if tried.answer.error else ""
        if kind == CAPTURE_FAILED:
            raise StorageError(why, hint="calls are made only if they can be recorded")
        self._reached = self._reached or not (tried.dropped or kind == UNREACHABLE)
        if not self._reached and failures >= UNREACHED_MAX:
            raise MissingError(
                f"the model's server was not reached in {failures} tries: {why}",
                hint="check ANTHROPIC_BASE_URL and the network, then resume the run",
            )

    def _final(self, answer: Answer) -> Answer:
        """A refusal that another try would not change: the answer, if this request is to blame."""
        error = answer.error
        assert error is not None
        why = _reason(answer)
        if error.status in (401, 403):
            raise MissingError(
                f"the server refuses the key in {KEY_VARIABLE}: {why}"
                if self._api_key
                else f"the server wants a key and {KEY_VARIABLE} is not set: {why}",
                hint=f"export {KEY_VARIABLE}=… and resume the run",
            )
        if error.status == 402:
            raise InputError(f"nothing is left to pay with: {why}", hint="pay, and resume the run")
        if error.status == 404:
            raise InputError(
                f"no such model, or no Messages API there: {why}",
                hint="check the agent's model and ANTHROPIC_BASE_URL",
            )
        return answer


def _reason(answer: Answer) -> str:
    if answer.error is None:
        return "the answer ended before its end"
    error = answer.error
    return f"{error.status} {error.kind}: {error.message}"


def _is_unreadable(answer: Answer) -> bool:
    return answer.error is None or answer.error.kind == UNREADABLE


def _is_passing(answer: Answer) -> bool:
    """Whether another try of the same bytes may be answered."""
    if answer.error is None or answer.error.kind == UNREADABLE:
        return True
    return answer.error.status in (408, 409, 429) or answer.error.status >= 500
