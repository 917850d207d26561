"""The capture proxy: ``/k/RUN/SESSION/…`` goes to the upstream, and every byte is on record.

The order of one call: the request is read whole, recorded, and only then sent; the answer streams
to the client while it comes in, is recorded, and only then ends (:mod:`.exchange`). While its run
is paused a call waits before it is recorded: nothing of it has happened yet.
"""

import asyncio
import logging
import re
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kernelsmith.capture import credentials, headers, upstream
from kernelsmith.capture.exchange import Exchange, Receive, Send, refuse
from kernelsmith.capture.headers import Incoming, RawHeaders
from kernelsmith.capture.upstream import Limits
from kernelsmith.config import server_address
from kernelsmith.errors import InputError
from kernelsmith.loopback import serving
from kernelsmith.model import CallSent, CallStalled, JournalEntry
from kernelsmith.pauses import POLL_S, Pauses
from kernelsmith.ports import Journal

Say = Callable[[str], None]
IsRun = Callable[[str], bool]
ENDING_TIMEOUT_S = 20.0
PROXY_ENDED = "the proxy ended"
PAUSED = "cut because the run was paused"
STRANGER = "this proxy takes the calls of its own run alone\n"
RUN_OF_OWN = "a run of this database makes its own calls; name another run\n"
NOWHERE = "kernelsmith proxy: calls go to /k/RUN/SESSION/v1/messages\n"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """Whose calls a run's own proxy takes: those of this run that carry ``token``, which is
    neither sent on nor recorded. Any process of this machine can reach the proxy."""

    run_id: str
    token: str = field(repr=False)


@dataclass(slots=True, kw_only=True)
class Proxy:
    """One running proxy: an ASGI app for the calls of one upstream. ``only``: it is a run's own.
    One without takes foreign clients' calls, but for those in the name of a run that ``is_run``
    knows; what they say of turns is not recorded. ``pauses``: calls wait while the run is paused;
    ``begun`` counts those that no longer do."""

    journal: Journal
    upstream: str
    limits: Limits
    say: Say
    only: OneRun | None = None
    is_run: IsRun | None = None
    transport: httpx2.AsyncHTTPTransport | None = None
    loop: asyncio.AbstractEventLoop | None = None
    live: dict[int, Exchange] = field(default_factory=dict)
    ending: bool = False
    pauses: Pauses = field(default_factory=Pauses)
    begun: int = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serves one call."""
        # As it was written: an encoded slash parts nothing, so a piece may be missing.
        _, _, run_id, session_id, rest = [*scope["raw_path"].split(b"/", 4), *[b""] * 4][:5]
        names = run_id.decode("latin-1"), session_id.decode("latin-1")
        status, words = await self._refusal(names, scope["headers"])
        if status:
            await PlainTextResponse(words, status)(scope, receive, send)
            return
        if scope["http_version"] == "1.0":  # its streams end by a closed connection: no clean end
            await refuse(send, 505, "invalid_request_error", "HTTP/1.1 is needed")
            return
        try:
            sorted_out = headers.incoming(scope["headers"], own=self.only is not None)
        except InputError as error:
            await refuse(send, 400, "invalid_request_error", error.message)
            return
        try:
            body = await _whole_body(receive, self.limits.request_bytes)
        except InputError as error:
            await refuse(send, 413, "request_too_large", error.message)
            return
        stalled_s = None if body is None else await self._held(receive)
        if body is None or stalled_s is None:
            return
        try:
            if self.ending:
                await refuse(send, 503, "shutting_down", "the proxy is ending")
                return
            target = b"/" + rest + (b"?" + scope["query_string"] if scope["query_string"] else b"")
            sent = _sent(names, scope["method"], target, sorted_out, body)
            request = upstream.request(
                self.upstream, sent.method, target, sorted_out.onward, body, self.limits
            )
            call_id = await self._begin(sent, send, stalled_s)
            if call_id is not None:
                exchange = Exchange(
                    call_id=call_id,
                    method=sent.method,
                    target=sent.path,
                    secrets=sorted_out.secrets,
                    limits=self.limits,
                )
                await self._relay(exchange, request, receive, send)
        finally:
            self.begun -= 1

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Holds the connections to the upstream while the server runs."""
        self.loop = asyncio.get_running_loop()
        async with upstream.connect(self.upstream, self.limits) as self.transport:
            yield
        self.loop = self.transport = None

    def end(self) -> None:
        """Cuts all calls short, records what there is of them and takes no new ones. Called from
        another thread than the server's."""
        loop = self.loop
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._end(), loop).result(ENDING_TIMEOUT_S + 5)

    def under_way(self) -> int:
        """See :class:`kernelsmith.pauses.Calls`."""
        return self.begun

    def cut(self) -> int:
        """See :class:`kernelsmith.pauses.Calls`."""
        loop, live = self.loop, list(self.live.values())
        told = [exchange for exchange in live if not exchange.ending]
        for exchange in told:
            if loop is not None:
                loop.call_soon_threadsafe(exchange.end_within, 0, PAUSED)
        return len(told)

    async def _held(self, receive: Receive) -> float | None:
        """Waits while the run is paused, and counts the call as begun: for how many seconds it
        waited; None: the client left meanwhile, and nothing was sent for it."""
        if self._counted():
            return 0.0
        began_s = time.monotonic()
        # All of the body is here: what comes is the end.
        left = asyncio.ensure_future(receive())
        try:
            while not self._counted():
                if (await asyncio.wait({left}, timeout=POLL_S))[0]:
                    return None
        finally:
            left.cancel()
        return time.monotonic() - began_s

    def _counted(self) -> bool:
        """Counts a call as begun, unless the run is paused. Another thread pauses it and then asks
        for the count: so it counts first, and takes that back where it was too late."""
        if self.pauses.level is None or self.ending:
            self.begun += 1
            if self.pauses.level is None or self.ending:
                return True
            self.begun -= 1
        return False

    async def _end(self) -> None:
        self.ending = True
        for exchange in self.live.values():
            exchange.end_within(0, PROXY_ENDED)
        over = asyncio.get_running_loop().time() + ENDING_TIMEOUT_S
        while self.live and asyncio.get_running_loop().time() < over:
            await asyncio.sleep(0.01)

    async def _refusal(self, names: tuple[str, str], raw: RawHeaders) -> tuple[int, str]:
        """Why a call is none of this proxy's: status and words; status 0 if it is one."""
        if not all(_NAME.fullmatch(name) for name in names):
            return 404, NOWHERE
        if self.only is not None:
            if names[0] != self.only.run_id:
                return 404, NOWHERE
            known = secrets.compare_digest(headers.token(raw), self.only.token.encode())
            return (0, "") if known else (403, STRANGER)
        if self.is_run is not None and await asyncio.to_thread(self.is_run, names[0]):
            return 403, RUN_OF_OWN
        return 0, ""

    async def _begin(self, sent: CallSent, send: Send, stalled_s: float) -> str | None:
        try:
            call_id = await _on_record(self.journal.append(sent))
        except Exception as error:
            words = f"a request could not be recorded and was not sent: {error}"
            self.say(words)
            await refuse(send, 503, "capture_failed", words)
            return None
        if stalled_s:  # where the journal cannot take it, the answer will meet that too
            with suppress(Exception):
                self.journal.append(
                    CallStalled(run_id=sent.run_id, call_id=call_id, seconds=stalled_s)
                )
        return call_id

    async def _relay(
        self, exchange: Exchange, request: httpx2.Request, receive: Receive, send: Send
    ) -> None:
        assert self.transport is not None
        self.live[id(exchange)] = exchange
        appended = False
        try:
            if self.ending:  # while the request went on record
                exchange.error = PROXY_ENDED
            else:
                await exchange.carry(self.transport, request, receive, send)
            entry = await exchange.answered_aside()
            appended = True
            if await self._record(entry, exchange, send):
                await exchange.finish(send)
        except BaseException as error:  # cancelled at the server's end, or a fault of ours
            exchange.error = exchange.error or f"the proxy stopped: {error!r}"
            exchange.complete = False
            if not appended:
                self.journal.append(exchange.answered_at_least())
            raise
        finally:
            del self.live[id(exchange)]

    async def _record(self, entry: JournalEntry, exchange: Exchange, send: Send) -> bool:
        try:
            await _on_record(self.journal.append(entry))
        except Exception as error:
            words = f"call {exchange.call_id}: its answer could not be recorded: {error}"
            self.say(words)
            if not exchange.started and not exchange.left:
                await refuse(send, 503, "capture_failed", words)
            return False
        return True


def build(
    journal: Journal,
    url: str,
    *,
    only: OneRun | None = None,
    is_run: IsRun | None = None,
    limits: Limits | None = None,
    say: Say | None = None,
    pauses: Pauses | None = None,
) -> Starlette:
    """The app. ``url``: where calls go. ``only``: the run whose own proxy it is. ``is_run``:
    whether a name is a run's, whose calls are then refused. ``say``: is told in a line what could
    not be recorded. ``pauses``: the run's. ``app.state.proxy`` is the :class:`Proxy`.

    Raises:
        InputError: ``url`` is no http or https address.
    """
    proxy = Proxy(
        journal=journal,
        upstream=server_address(url),
        limits=limits or Limits(),
        say=say or _say,
        only=only,
        is_run=is_run,
        pauses=pauses or Pauses(),
    )
    proxy.pauses.join(proxy)
    app = Starlette(
        routes=[
            Route("/k/{run}/{session}/{path:path}", proxy),
            Route("/{path:path}", PlainTextResponse(NOWHERE, 404)),
        ],
        lifespan=proxy.lifespan,
    )
    app.state.proxy = proxy
    return app


@contextmanager
def running(
    journal: Journal,
    url: str,
    *,
    port: int = 0,
    only: OneRun | None = None,
    is_run: IsRun | None = None,
    limits: Limits | None = None,
    say: Say | None = None,
    pauses: Pauses | None = None,
) -> Iterator[str]:
    """Serves :func:`build` on loopback, in a thread of its own, and yields its base URL. On the
    way out calls under way are cut and recorded as far as they came; close the journal after.

    Raises:
        InputError: ``url`` is no http or https address.
        InfrastructureError: the port is taken.
    """
    app = build(journal, url, only=only, is_run=is_run, limits=limits, say=say, pauses=pauses)
    with serving(app, port=port) as base_url:
        try:
            yield base_url
        finally:
            app.state.proxy.end()


async def _whole_body(receive: Receive, limit_bytes: int) -> bytes | None:
    """A request's body; None: the client left before it was whole.

    Raises:
        InputError: it is over the limit.
    """
    pieces: list[bytes] = []
    length = 0
    while (message := await receive())["type"] != "http.disconnect":
        pieces.append(message.get("body", b""))
        length += len(pieces[-1])
        if length > limit_bytes:
            raise InputError(f"a request of over {limit_bytes} bytes")
        if not message.get("more_body", False):
            return b"".join(pieces)
    return None


async def _on_record(future: "Future[str]") -> str:
    """Waits for the journal; a caller that is cancelled leaves the journal's work alone."""
    return await asyncio.shield(asyncio.wrap_future(future))


def _sent(
    names: tuple[str, str], method: str, target: bytes, sorted_out: Incoming, body: bytes
) -> CallSent:
    return CallSent(
        run_id=names[0],
        session_id=names[1],
        turn=sorted_out.turn,
        attempt=sorted_out.attempt,
        method=method,
        path=credentials.scrubbed_target(target.decode("latin-1"), sorted_out.secrets),
        headers=sorted_out.recorded,
        dropped=sorted_out.dropped,
        request=body,
    )


def _say(line: str) -> None:
    words = f"capture: {' '.join(line.split())}"
    _LOG.error(words, extra={"event": "capture_failed"})
    print(words, file=sys.stderr, flush=True)
