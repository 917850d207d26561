"""One try of a call over HTTP: exactly these bytes out, a whole response back.

The SDK makes the connection and sends the request; its own retries are off, so that each try
passes the capture proxy as a call of its own. An answer counts as received at a clean end of its
stream and no sooner: the proxy gives that end only when the answer is on record.
"""

from dataclasses import dataclass

import anthropic
import httpx2

from kernelsmith.errors import InfrastructureError, KernelsmithError
from kernelsmith.wire import Answer, ApiError, read_response
from kernelsmith.wire.encoding import ACCEPTED
from kernelsmith.wire.problems import UNREADABLE

CONNECT_TIMEOUT_S = 10.0
KEEPALIVE_S = 2.0  # shorter than servers keep a connection, so none is used as it closes

# What a request may carry. The SDK adds facts on this machine, and what it finds in the
# environment; none of that belongs to a conversation.
_OWN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "anthropic-version", "authorization", "connection"),
        *("content-length", "content-type", "host", "user-agent"),
        *("x-kernelsmith-attempt", "x-kernelsmith-token", "x-kernelsmith-turn"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One call as it went. ``answer`` may be a part of one if ``dropped`` says what broke;
    ``silent``: nothing broke, but nothing came for too long."""

    answer: Answer
    headers: tuple[tuple[str, str], ...] = ()
    dropped: str = ""
    silent: bool = False


class Connection:
    """The way to one server; belongs to one event loop."""

    def __init__(self, base_url: str, api_key: str, proxy_token: str = "") -> None:
        """``base_url``: what session ids are appended to; ``api_key``: "" if there is none;
        ``proxy_token``: by which a run's proxy knows its own calls, "" before another server."""
        self._api_key = api_key
        self._proxy_token = proxy_token
        http = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=KEEPALIVE_S),
            trust_env=False,
            verify=base_url.startswith("https:"),  # certificates take long to load
            event_hooks={"request": [_keep_own_headers]},
        )
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key or "none",
            base_url=base_url,
            webhook_key="",
            max_retries=0,
            http_client=http,
            open_telemetry=False,
        )
        # ANTHROPIC_CUSTOM_HEADERS goes over the arguments, the host's name included.
        self._client._custom_headers = {}

    async def close(self) -> None:
        """Closes all connections; calls in flight should be cancelled before."""
        await self._client.close()

    async def send(
        self, session_id: str, turn: int, attempt: int, body: bytes, read_timeout_s: float
    ) -> Try:
        """One try; ``read_timeout_s``: between bytes.

        Raises:
            InfrastructureError: no request can be sent, for another reason than the connection.
        """
        timeout = httpx2.Timeout(read_timeout_s, connect=CONNECT_TIMEOUT_S, pool=None)
        try:
            response = await self._client.post(
                f"/{session_id}/v1/messages",
                cast_to=httpx2.Response,
                content=body,
                options={"headers": self._headers(turn, attempt), "timeout": timeout},
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
        if self._proxy_token:
            headers["x-kernelsmith-token"] = self._proxy_token
        if not self._api_key:
            headers["Authorization"] = anthropic.Omit()
        return headers


async def _read(response: httpx2.Response) -> Try:
    """The whole response, to a clean end; still encoded as the record has it, and decoded by the
    same function."""
    headers = _headers_of(response)
    chunks: list[bytes] = []
    dropped, silent = "", False
    try:
        async for chunk in response.aiter_raw():
            chunks.append(chunk)
    except httpx2.TransportError as error:
        dropped, silent = _described(error), isinstance(error, httpx2.ReadTimeout)
    finally:
        await response.aclose()
    answer = read_response(response.status_code, headers, b"".join(chunks))
    return Try(answer=answer, headers=headers, dropped=dropped, silent=silent)


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
    silent = isinstance(error, httpx2.ReadTimeout)
    return Try(answer=Answer(), dropped=_described(error), silent=silent)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
