"""The way to the server that answers: one pool of connections, requests as the client made them.

The transport is used without a client around it: nothing is followed, retried, remembered or
added, and no proxy of the environment is asked.
"""

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2

IDLE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one proxy takes on. ``drain_bytes`` and ``drain_s``: how much more of an answer is read
    after its client has left. ``silence_s``: the upstream may say nothing for this long."""

    request_bytes: int = 64 << 20
    answer_bytes: int = 256 << 20
    drain_bytes: int = 4 << 20
    drain_s: float = 30.0
    connect_s: float = 15.0
    silence_s: float = 600.0
    connections: int = 256


def connect(url: str, limits: Limits) -> httpx2.AsyncHTTPTransport:
    """The pool of connections to an upstream."""
    plain = url.startswith("http:")
    return httpx2.AsyncHTTPTransport(
        # Reading the machine's certificates takes a while and http has no use for them.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True,
        limits=httpx2.Limits(
            max_connections=limits.connections,
            max_keepalive_connections=limits.connections,
            keepalive_expiry=IDLE_S,
        ),
        retries=0,
    )


def request(
    url: str,
    method: str,
    target: bytes,
    headers: tuple[tuple[bytes, bytes], ...],
    body: bytes,
    limits: Limits,
) -> httpx2.Request:
    """A request to ``url`` with exactly these headers, but for the host and the framing.
    ``target``: path and query, byte for byte as the client wrote them."""
    prefix = urlsplit(url).path.encode("ascii")
    timeout = {"connect": limits.connect_s, "read": limits.silence_s, "write": limits.silence_s}
    return httpx2.Request(
        method,
        url,
        headers=list(headers),
        content=body,
        extensions={"timeout": timeout, "target": prefix + target},
    )


def words(error: Exception) -> str:
    """What went wrong on the way, for people: ``ConnectError: All connection attempts failed``."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
