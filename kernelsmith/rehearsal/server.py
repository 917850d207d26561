"""The server: routes of the Messages API over a script. Scripted replies, not a model."""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kernelsmith.model import SCRIPTED_HEADER
from kernelsmith.rehearsal import LABEL, MODEL, asked, quirks, replies, zero
from kernelsmith.rehearsal.asked import Asked, Fault
from kernelsmith.rehearsal.delivery import Delivery, cut, pieces
from kernelsmith.rehearsal.script import Script, reply_to, script

WRONG_KEY = "wrong-key"
_SSE = "text/event-stream; charset=utf-8"


def application(name: str, delivery: Delivery | None = None) -> ASGIApp:
    """The server as an ASGI app.

    Raises:
        InputError: no such script.
    """
    delivery = delivery or Delivery()
    answer: Answering
    if name == "zero":
        answer = partial(_at_once, delivery)
    else:
        answer = partial(_scripted, script(name), quirks.Tries(), delivery)
    messages = Messages(answer=answer, delivery=delivery)
    return Starlette(
        routes=[
            Route("/v1/messages", messages),
            Route("/v1/messages/count_tokens", _count_tokens, methods=["POST"]),
            Route("/v1/models", _models),
            Route("/v1/models/{model_id}", _model),
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``whole`` False: the stream is left without a clean end; ``trouble``: what the plan put in
    the way of the script's reply, "" if nothing."""

    status: int
    headers: list[tuple[bytes, bytes]]
    parts: Iterable[bytes]
    whole: bool = True
    asked: Asked | None = None
    trouble: str = ""


Answering = Callable[[Request, bytes], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """``/v1/messages`` as an ASGI app."""

    answer: Answering
    delivery: Delivery

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it."""
        request = Request(scope, receive)
        try:
            body = await request.body()
        except ClientDisconnect:
            return
        if self.delivery.latency_s:
            await asyncio.sleep(self.delivery.latency_s)
        answer = self.answer(request, body)
        if self.delivery.log is None:
            await _send(answer, send, None)
            return
        watch = asyncio.create_task(_gone(receive))
        whole = await _send(answer, send, watch)
        watch.cancel()
        _note(self.delivery.log, request, body, answer, whole)


def _at_once(delivery: Delivery, request: Request, body: bytes) -> Answer:
    """The script "zero"."""
    zipped = _zips(delivery, request)
    key = "" if delivery.odd_chunks is None else hashlib.sha256(body).hexdigest()
    parts = pieces(delivery, [zero.answer(body)], zipped, key)
    return Answer(status=200, headers=_headers("zero", _SSE, zipped), parts=parts)


def _scripted(
    played: Script, tries: quirks.Tries, delivery: Delivery, request: Request, body: bytes
) -> Answer:
    """A script's reply, or what the plan puts in its way."""
    found = _refused(request) or asked.read(body)
    key = hashlib.sha256(body).hexdigest()
    if isinstance(found, Fault):
        return _error(found, key, 0, None)
    tried = tries.next(key)
    met = quirks.trouble(played.plan, found.session, found.turn, tried)
    if met is not None and met.kind == "status":
        kind, message = quirks.KINDS[met.status]
        fault = Fault(status=met.status, kind=kind, message=message)
        refusal = _error(fault, key, tried, met.retry_after_s)
        return replace(refusal, asked=found, trouble=met.kind)
    reply = reply_to(played, found)
    usage = replace(found.prompt, output=replies.output_tokens(reply))
    content, events = _SSE, replies.stream_events(reply, key, usage, found.thinking)
    if not found.stream:
        content = "application/json"
        events = iter([replies.document(reply, key, usage, found.thinking)])
    if met is not None and met.kind == "error":
        whole = list(events)
        overloaded = replies.error_event(*quirks.KINDS[529])
        events = iter([*whole[: int(len(whole) * met.share)], overloaded])
    zipped = _zips(delivery, request)
    parts: Iterable[bytes] = pieces(delivery, events, zipped, key)
    if met is not None and met.kind == "cut":
        parts = cut(parts, met.share)
    return Answer(
        status=200,
        headers=_headers(f"{key[:20]}{tried}", content, zipped),
        parts=parts,
        whole=met is None or met.kind != "cut",
        asked=found,
        trouble="" if met is None else met.kind,
    )


def _zips(delivery: Delivery, request: Request) -> bool:
    return delivery.gzip and "gzip" in request.headers.get("accept-encoding", "")


async def _send(answer: Answer, send: Send, watch: "asyncio.Task[None] | None") -> bool:
    """Sends it; whether all of it was handed over to a client that was still there. Going out
    before the end makes the server cut the connection."""
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    for part, last in _with_last(answer.parts):
        if watch is not None:
            await asyncio.sleep(0)  # lets a client's leaving be seen
            if watch.done():
                return False
        more = not (last and answer.whole)
        await send({"type": "http.response.body", "body": part, "more_body": more})
    return answer.whole


def _with_last(parts: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each part, and whether it is the last."""
    ahead = iter(parts)
    now = next(ahead, b"")
    for following in ahead:
        yield now, False
        now = following
    yield now, True


async def _gone(receive: Receive) -> None:
    """Ends when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _note(log: Path, request: Request, body: bytes, answer: Answer, whole: bool) -> None:
    found = answer.asked
    line = {
        "time": time.time(),
        "path": request.url.path,
        "request_sha256": hashlib.sha256(body).hexdigest(),
        "request_bytes": len(body),
        "task": found.task if found else None,
        "session": found.session if found else None,
        "turn": found.turn if found else None,
        "own_headers_seen": sorted(n for n in request.headers if n.startswith("x-kernelsmith")),
        "status": answer.status,
        "trouble": answer.trouble,
        "written_whole": whole,
    }
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _refused(request: Request) -> Fault | None:
    """What the API asks of headers."""
    if request.method != "POST":
        return Fault(status=405, kind="invalid_request_error", message="Method Not Allowed")
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    if WRONG_KEY in (bearer, request.headers.get("x-api-key")):
        return Fault(status=401, kind="authentication_error", message="invalid x-api-key")
    if "anthropic-version" not in request.headers:
        message = "anthropic-version: header is required"
        return Fault(status=400, kind="invalid_request_error", message=message)
    return None


def _error(fault: Fault, key: str, tried: int, retry_after_s: int | None) -> Answer:
    request_id = f"req_{key[:20]}{tried}"
    body = replies.error_document(fault.kind, fault.message, request_id)
    headers = _headers(f"{key[:20]}{tried}", "application/json", zipped=False)
    if retry_after_s is not None:
        headers.append((b"retry-after", str(retry_after_s).encode()))
    return Answer(status=fault.status, headers=headers, parts=[body])


def _headers(request_key: str, content: str, zipped: bool) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"content-type", content.encode()),
        (b"request-id", f"req_{request_key}".encode()),
        (SCRIPTED_HEADER.encode(), LABEL.encode()),
    ]
    if zipped:
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
    return headers


async def _count_tokens(request: Request) -> JSONResponse:
    body = await request.body()
    return JSONResponse({"input_tokens": len(body) // replies.BYTES_A_TOKEN})


_ABOUT = {
    "type": "model",
    "id": MODEL,
    "display_name": LABEL,
    "created_at": "2026-01-01T00:00:00Z",
}


async def _models(request: Request) -> JSONResponse:
    return JSONResponse({"data": [_ABOUT], "has_more": False, "first_id": MODEL, "last_id": MODEL})


async def _model(request: Request) -> JSONResponse:
    return JSONResponse({**_ABOUT, "id": request.path_params["model_id"]})
