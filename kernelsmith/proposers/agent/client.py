"""Calls to the model's server: exactly these bytes out, a whole answer back, tries on record.

The SDK makes the connection and sends the request; its own retries are off, so that each try
passes the capture proxy as a call of its own. An answer counts as received at a clean end of its
stream and no sooner: the proxy gives that end only when the answer is on record.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anthropic
import httpx2

from kernelsmith.errors import (
    InfrastructureError,
    InputError,
    KernelsmithError,
    MissingError,
    StorageError,
)
from kernelsmith.proposers.agent.backoff import wait_s
from kernelsmith.proposers.agent.seams import Budget
from kernelsmith.wire import Answer, ApiError, read_response
from kernelsmith.wire.encoding import ACCEPTED
from kernelsmith.wire.problems import UNREADABLE

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 120.0  # between bytes; pings keep a long answer alive
UNREADABLE_MAX = 12  # tries in a row whose answer ended properly and still cannot be read
UNREACHED_MAX = 8  # tries, about two minutes, before the first answer of all
UNREACHABLE, CAPTURE_FAILED = "upstream_unreachable", "capture_failed"  # the proxy's own errors
KEEPALIVE_S = 2.0  # shorter than servers keep a connection, so none is used as it closes
KEY_VARIABLE = "ANTHROPIC_API_KEY"

# What a request may carry. The SDK adds facts on this machine, and what it finds in the
# environment; none of that belongs to a conversation.
_OWN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "anthropic-version", "authorization", "connection"),
        *("content-length", "content-type", "host", "user-agent"),
        *("x-kernelsmith-attempt", "x-kernelsmith-turn"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One call as it went. ``answer`` may be a part of one if ``dropped`` says what broke."""

    answer: Answer
    headers: tuple[tuple[str, str], ...] = ()
    dropped: str = ""


class Caller:
    """The connection of all sessions to their server; belongs to one event loop."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        read_timeout_s: float = READ_TIMEOUT_S,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        now_s: Callable[[], float] = time.time,
        notice: Callable[[str, str], None] = lambda session_id, text: None,
    ) -> None:
        """``base_url``: what session ids are appended to; ``api_key``: "" if the server needs
        none; ``notice(session_id, text)``: told of every wait before another try."""
        self._sleep = sleep
        self._now_s = now_s
        self._notice = notice
        self._api_key = api_key
        self._base_url = base_url
        self._reached = False
        timeout = httpx2.Timeout(
            connect=CONNECT_TIMEOUT_S, read=read_timeout_s, write=read_timeout_s, pool=None
        )
        http = httpx2.AsyncClient(
            timeout=timeout,
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=KEEPALIVE_S),
            trust_env=False,
            verify=base_url.startswith("https:"),  # certificates take long to load
            event_hooks={"request": [_keep_own_headers]},
        )
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key or "none",
            base_url=base_url,
            webhook_key="",
            timeout=timeout,
            max_retries=0,
            http_client=http,
            open_telemetry=False,
        )
        # ANTHROPIC_CUSTOM_HEADERS goes over the arguments, the host's name included.
        self._client._custom_headers = {}

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
            InputError: there is no such model or address; nothing is left to pay with.
            InfrastructureError: the server's answers cannot be read, or no request can be sent.
            StorageError: the proxy cannot record.
        """
        failures, unreadable = 0, 0
        while True:
            attempt = first_attempt + failures
            ticket = await budget.admit(len(body), max_tokens)
            if ticket is None:
                return None
            tried = None
            try:
                tried = await self._try(session_id, turn, attempt, body)
            finally:
                usage = tried.answer.usage if tried is not None else None
                budget.settle(ticket, usage if usage is not None and usage.tokens else None)
            answer = tried.answer
            if not tried.dropped and answer.received:
                self._reached = True
                return answer
            why = tried.dropped or _reason(answer)
            if not tried.dropped and not _is_passing(answer):
                return self._final(answer)
            failures += 1
            self._require_reached(tried, failures, why)
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
        await self._client.close()

    async def _try(self, session_id: str, turn: int, attempt: int, body: bytes) -> Try:
        try:
            response = await self._client.post(
                f"/{session_id}/v1/messages",
                cast_to=httpx2.Response,
                content=body,
                options={"headers": self._headers(turn, attempt), "max_retries": 0},
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
        except anthropic.APIStatusError as error:
            headers = _headers_of(error.response)
            decoded = tuple(pair for pair in headers if pair[0].lower() != "content-encoding")
            answer = read_response(error.status_code, decoded, error.response.content)
            return Try(answer=answer, headers=headers)
        except anthropic.APIConnectionError as error:
            return _dropped(error.__cause__ or error)
        except httpx2.TransportError as error:  # while an error's body was read
            return _dropped(error)
        except httpx2.DecodingError as error:
            return Try(answer=Answer(error=ApiError(kind=UNREADABLE, message=str(error), status=0)))
        assert isinstance(response, httpx2.Response)
        return await _read(response)

    def _headers(self, turn: int, attempt: int) -> dict[str, str | anthropic.Omit]:
        headers: dict[str, str | anthropic.Omit] = {
            "Accept-Encoding": ACCEPTED,
            "Content-Type": "application/json",
            "x-kernelsmith-turn": str(turn),
            "x-kernelsmith-attempt": str(attempt),
        }
        if not self._api_key:
            headers["Authorization"] = anthropic.Omit()
        return headers

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


async def _read(response: httpx2.Response) -> Try:
    """The whole response, to a clean end; still encoded as the record has it, and decoded by the
    same function."""
    headers = _headers_of(response)
    chunks: list[bytes] = []
    dropped = ""
    try:
        async for chunk in response.aiter_raw():
            chunks.append(chunk)
    except httpx2.TransportError as error:
        dropped = _described(error)
    finally:
        await response.aclose()
    answer = read_response(response.status_code, headers, b"".join(chunks))
    return Try(answer=answer, headers=headers, dropped=dropped)


async def _keep_own_headers(request: httpx2.Request) -> None:
    for name in list(request.headers):
        if name.lower() not in _OWN_HEADERS:
            del request.headers[name]


def _headers_of(response: httpx2.Response) -> tuple[tuple[str, str], ...]:
    return tuple(response.headers.multi_items())


def _dropped(error: BaseException) -> Try:
    """Raises InfrastructureError for what is no matter of the connection."""
    wrong = isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol)
    if wrong or not isinstance(error, httpx2.TransportError | OSError):
        if isinstance(error, KernelsmithError):
            raise error
        raise InfrastructureError(f"no request can be sent: {_described(error)}") from error
    return Try(answer=Answer(), dropped=_described(error))


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


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
