"""A journal in memory that obeys, an upstream of raw sockets, a client of raw sockets."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx2

from kernelsmith.errors import StorageError
from kernelsmith.model import CallAnswered, CallSent, JournalEntry, SessionRecord

PATIENCE_S = 20.0


class MemoryJournal:
    """Keeps entries in order. ``holding``: entries of this kind wait for :meth:`release`;
    ``failing``: they are refused."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.forget()

    def forget(self) -> None:
        self.entries: list[JournalEntry] = []
        self.waiting: list[tuple[Future[str], str]] = []
        self.holding: type | None = None
        self.failing: type | None = None
        self.ids = (f"c{n}" for n in count(1))

    def append(self, entry: JournalEntry) -> "Future[str]":
        future: Future[str] = Future()
        with self.changed:
            if self.failing is not None and isinstance(entry, self.failing):
                future.set_exception(StorageError("cannot write database runs.db: disk full"))
                return future
            self.entries.append(entry)
            identity = entry.call_id if isinstance(entry, CallAnswered) else next(self.ids)
            if self.holding is not None and isinstance(entry, self.holding):
                self.waiting.append((future, identity))
            else:
                future.set_result(identity)
            self.changed.notify_all()
        return future

    def release(self) -> None:
        with self.changed:
            for future, identity in self.waiting:
                future.set_result(identity)
            self.waiting = []

    def sent(self) -> list[CallSent]:
        return [entry for entry in self.entries if isinstance(entry, CallSent)]

    def answered(self, number: int = 1) -> list[CallAnswered]:
        """Waits until there are as many answers on record."""

        def found() -> list[CallAnswered]:
            return [entry for entry in self.entries if isinstance(entry, CallAnswered)]

        with self.changed:
            assert self.changed.wait_for(lambda: len(found()) >= number, PATIENCE_S)
            return found()

    def sessions(self, run_id: str) -> Sequence[SessionRecord]:
        raise NotImplementedError

    def close(self) -> None:
        pass


@dataclass(slots=True, kw_only=True)
class Line:
    """One request as it came, and the way back."""

    head: bytes
    body: bytes
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def chunks(self, *pieces: bytes) -> None:
        await self.send(*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces))

    async def when(self, event: threading.Event) -> None:
        assert await asyncio.to_thread(event.wait, PATIENCE_S)

    def break_off(self) -> None:
        self.writer.transport.abort()


Script = Callable[[Line], Awaitable[None]]


class RawUpstream:
    """A server that keeps requests byte for byte and answers as ``script`` says."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.up = threading.Event()
        self.url = ""
        self.connections = 0
        self.forget()

    def forget(self) -> None:
        self.requests: list[Line] = []
        self.script: Script | None = None

    def answers(self, *pieces: bytes) -> None:
        """Every request is answered with these pieces, one write each."""

        async def script(line: Line) -> None:
            await line.send(*pieces)

        self.script = script

    def __enter__(self) -> "RawUpstream":
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self.up.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._serve())
        self.loop.close()

    async def _serve(self) -> None:
        self.stop = asyncio.Event()
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.up.set()
        await self.stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                named = headers_of(head)
                body = await reader.readexactly(int(named.get(b"content-length", b"0")))
                line = Line(head=head, body=body, writer=writer)
                self.requests.append(line)
                assert self.script is not None
                await self.script(line)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
            return
        finally:
            writer.close()


def headers_of(head: bytes) -> dict[bytes, bytes]:
    lines = head.split(b"\r\n")[1:]
    pairs = (line.partition(b":") for line in lines if line)
    return {name.lower(): value.strip() for name, _, value in pairs}


@dataclass(slots=True, kw_only=True)
class Rig:
    """A proxy before an upstream."""

    base: str
    upstream: RawUpstream
    journal: MemoryJournal
    said: list[str] = field(default_factory=list)

    def url(self, path: str = "/v1/messages") -> str:
        return f"{self.base}/k/run1/s1{path}"

    def dial(self, request: bytes) -> "Dialled":
        return Dialled(self.base, request)


class Dialled:
    """A client of one raw connection, which reads in a thread of its own."""

    def __init__(self, base: str, request: bytes) -> None:
        parts = urlsplit(base)
        self.socket = socket.create_connection((parts.hostname, parts.port), PATIENCE_S)
        self.socket.sendall(request)
        self.received = b""
        self.changed = threading.Condition()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while True:
            try:
                piece = self.socket.recv(65536)
            except OSError:
                piece = b""
            with self.changed:
                self.received += piece
                self.changed.notify_all()
            if not piece:
                self.over.set()
                return

    def wait_for(self, words: bytes) -> bytes:
        with self.changed:
            assert self.changed.wait_for(lambda: words in self.received, PATIENCE_S), self.received
            return self.received

    def rest(self) -> bytes:
        assert self.over.wait(PATIENCE_S)
        self.hang_up()
        return self.received

    def hang_up(self) -> None:
        with self.changed, contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()


def post(path: str, body: bytes, *lines: str) -> bytes:
    """A request as bytes; it asks for the connection to be closed after."""
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


def chunked(*more: str, status: str = "200 OK", kind: str = "text/event-stream") -> bytes:
    """The head of an answer in chunks."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Transfer-Encoding: chunked", *more]
    return "\r\n".join([*lines, "", ""]).encode()


LAST_CHUNK = b"0\r\n\r\n"


def whole(body: bytes, *more: str, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """An answer of declared length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*lines, "", ""]).encode() + body


def events(*extra: bytes) -> bytes:
    """A streamed message with usage, as the Messages API writes it; ``extra`` goes inside."""
    return b"".join(
        [
            b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":'
            b'"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":'
            b'null,"usage":{"input_tokens":11,"cache_read_input_tokens":7,"output_tokens":1}}}\n\n',
            b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
            b'"content_block":{"type":"text","text":""}}\n\n',
            "event: content_block_delta\ndata: "
            '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße 核"'
            "}}\n\n".encode(),
            *extra,
            b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
            b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"'
            b'},"usage":{"output_tokens":29}}\n\n',
            b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
        ]
    )


def cut(data: bytes, size: int) -> list[bytes]:
    """``data`` in pieces of this size."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def one(found: Sequence[Any]) -> Any:
    assert len(found) == 1, found
    return found[0]


def read_all(url: str) -> tuple[int, bytes, bool]:
    """Posts and reads: (status, the bytes that came, whether they ended cleanly)."""
    body = bytearray()
    with httpx2.stream("POST", url, content=b"{}") as response:
        try:
            for piece in response.iter_raw():
                body += piece
        except httpx2.RemoteProtocolError:
            return response.status_code, bytes(body), False
    return response.status_code, bytes(body), True
