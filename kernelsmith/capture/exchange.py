"""One call on its way: the answer goes to the client as it comes, all but its end.

The end waits until the answer is on record. So whoever saw a clean end can count on the record,
and an answer that is not on record, or not whole, never ends cleanly.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx2

from kernelsmith.capture import credentials, facts, headers, upstream
from kernelsmith.capture.upstream import Limits
from kernelsmith.model import CallAnswered

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
PARSED_IN_PLACE_BYTES = 1 << 16
_NO_BODY = (204, 304)


@dataclass(slots=True, kw_only=True)
class Exchange:
    """What is known of one call while it runs.

    ``held``: the last piece of an answer of declared length; the client waits for it. ``started``:
    the client was given status and headers. ``left``: the client is gone. ``ending``: why the
    call is cut short once ``deadline`` is over.
    """

    call_id: str
    method: str
    target: str
    secrets: tuple[str, ...]
    limits: Limits
    began_s: float = field(default_factory=time.monotonic)
    status: int | None = None
    onward: list[tuple[bytes, bytes]] = field(default_factory=list)
    recorded: tuple[tuple[str, str], ...] = ()
    declared: int | None = None
    pieces: list[bytes] = field(default_factory=list)
    received_bytes: int = 0
    delivered_bytes: int = 0
    drained_bytes: int = 0
    held: bytes = b""
    first_byte_s: float | None = None
    complete: bool = False
    started: bool = False
    left: bool = False
    error: str = ""
    ending: str = ""
    deadline: asyncio.Timeout | None = None

    @property
    def bodiless(self) -> bool:
        """Whether status and headers are all of the answer, so that they are its end."""
        return self.method == "HEAD" or self.status in _NO_BODY or self.declared == 0

    def end_within(self, seconds: float, why: str) -> None:
        """Cuts the call short unless it is over by then. Only in the loop's own thread."""
        self.ending = self.ending or why
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + seconds)

    async def carry(
        self,
        transport: httpx2.AsyncBaseTransport,
        request: httpx2.Request,
        receive: Receive,
        send: Send,
    ) -> None:
        """Sends the request and passes the answer on. Whatever breaks on the way is told by
        ``error`` and ``complete``."""
        watch = asyncio.create_task(self._watch(receive))
        try:
            async with asyncio.timeout(None) as self.deadline:
                await self._pass_on(transport, request, send)
        except TimeoutError:
            self.error = self.ending
        except httpx2.HTTPError as error:
            self.error = upstream.words(error)
        finally:
            self.deadline = None
            watch.cancel()

    async def finish(self, send: Send) -> None:
        """Gives the client the end that waited; a broken answer gets no clean one."""
        if self.left:
            return
        if self.complete:
            await self._start(send)
            await send({"type": "http.response.body", "body": self.held, "more_body": False})
        elif not self.started:
            await refuse(send, 502, "upstream_unreachable", self.error)

    def answered(self) -> CallAnswered:
        """What goes on record. The piece that waits counts as delivered: it is on its way."""
        came = b"".join(self.pieces)
        try:
            stated = facts.stated(self.target, self.status, self.recorded, came)
        except Exception as error:  # whatever is wrong with the reader, what came is kept
            stated, self.error = {}, f"{self.error} (not read: {upstream.words(error)})".lstrip()
        body, note = credentials.kept_body(self.status, self.recorded, came, self.secrets)
        self.error = self.error or note
        return self._answered(body, stated)

    def answered_at_least(self) -> CallAnswered:
        """The same; where there is no room for the body, what else is known: a call that began has
        an end on record."""
        try:
            return self.answered()
        except Exception:
            return self._answered(b"", {})

    async def answered_aside(self) -> CallAnswered:
        """The same; a long body is read in another thread, so that other streams go on."""
        if self.received_bytes < PARSED_IN_PLACE_BYTES:
            return self.answered()
        return await asyncio.to_thread(self.answered)

    def _answered(self, body: bytes, stated: Mapping[str, Any]) -> CallAnswered:
        return CallAnswered(
            call_id=self.call_id,
            status=self.status,
            headers=self.recorded,
            body=body,
            complete=self.complete,
            delivered_bytes=self.delivered_bytes + (0 if self.left else len(self.held)),
            error=credentials.scrubbed(self.error, self.secrets),
            first_byte_s=self.first_byte_s,
            seconds=time.monotonic() - self.began_s,
            **stated,
        )

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left = True
        self.end_within(self.limits.drain_s, "the client left and the answer went on for too long")

    async def _pass_on(
        self, transport: httpx2.AsyncBaseTransport, request: httpx2.Request, send: Send
    ) -> None:
        response = await transport.handle_async_request(request)
        try:
            self.first_byte_s = time.monotonic() - self.began_s
            self.status = response.status_code
            self.onward, self.recorded = headers.outgoing(response.headers.raw, self.secrets)
            self.declared = headers.content_length(self.onward)
            if not self.bodiless:
                await self._start(send)
            async with aclosing(response.aiter_raw()) as pieces:
                async for piece in pieces:
                    await self._take(piece, send)
                    if self.error:
                        return
            self.complete = True
        finally:
            await response.aclose()

    async def _start(self, send: Send) -> None:
        if not self.started:
            self.started = True
            await send(
                {"type": "http.response.start", "status": self.status, "headers": self.onward}
            )

    async def _take(self, piece: bytes, send: Send) -> None:
        room = self.limits.answer_bytes - self.received_bytes
        self.pieces.append(piece if len(piece) <= room else piece[:room])
        self.received_bytes += len(piece)
        if len(piece) > room:
            self.error = f"an answer of over {self.limits.answer_bytes} bytes, recorded in part"
        elif self.left:
            self.drained_bytes += len(piece)
            if self.drained_bytes > self.limits.drain_bytes:
                self.error = (
                    f"the client left and the answer went on for {self.drained_bytes} bytes"
                )
        elif self.declared is not None and self.received_bytes >= self.declared:
            self.held = piece
        else:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self.delivered_bytes += 0 if self.left else len(piece)


async def refuse(send: Send, status: int, kind: str, message: str) -> None:
    """Answers with an error as the Messages API words its own."""
    error = {"type": "error", "error": {"type": kind, "message": message}}
    body = json.dumps(error).encode()
    lines = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body, "more_body": False})
