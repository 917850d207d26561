"""Which headers go on, which are recorded, and what of them is a credential.

Hop-by-hop headers end here (RFC 9110, 7.6.1), as does the framing of the body: both sides have
their own. Credentials go on and leave no trace but their names.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelsmith.errors import InputError

RawHeaders = Iterable[tuple[bytes, bytes]]
LEFT_OUT = "(left out)"
OWN_PREFIX = b"x-kernelsmith-"
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)
_NOT_SENT_ON = _HOP_BY_HOP | {b"host", b"expect"}  # the body is here whole: nothing to expect
_CREDENTIAL = re.compile(
    r"auth|cookie|api[-_]?key|secret|passw|credential|signature|jwt|^proxy-"
    r"|(^|access-|security-|session-|csrf-|id-)token$|^key$",
    re.IGNORECASE,
)
_QUERY_CREDENTIAL = re.compile(
    r"(?P<name>(?:^|[?&])(?:[^=&]*(?:api[-_]?key|secret|auth|passw|signature|access[-_]token)[^=&]*"
    r"|key|token)=)[^&]*",
    re.IGNORECASE,
)
_CREDENTIAL_VALUE = re.compile(rb"\s*(bearer|basic)\s", re.IGNORECASE)
_KEY_SHAPED = re.compile(r"\bsk-[a-z0-9_-]{12,}", re.IGNORECASE)
_SHORTEST_SECRET = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A request's headers, sorted out. ``onward``: what the upstream gets; ``recorded``: the same
    without credentials, whose names are ``dropped`` and whose values are ``secrets``."""

    onward: tuple[tuple[bytes, bytes], ...]
    recorded: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    secrets: tuple[str, ...]
    turn: int | None
    attempt: int | None


def incoming(raw: RawHeaders) -> Incoming:
    """Sorts a request's headers.

    Raises:
        InputError: ``x-kernelsmith-turn`` or ``-attempt`` is no number.
    """
    everything = [(name.lower(), value) for name, value in raw]
    gone = _NOT_SENT_ON | _named_by_connection(everything)
    onward = tuple(
        (name, value)
        for name, value in everything
        if name not in gone and not name.startswith(OWN_PREFIX)
    )
    secrets = _secrets(everything)
    return Incoming(
        onward=onward,
        recorded=_recorded(((n, v) for n, v in onward if not _is_credential(n, v)), secrets),
        dropped=tuple(sorted({n.decode("latin-1") for n, v in everything if _is_credential(n, v)})),
        secrets=secrets,
        turn=_number(everything, b"turn"),
        attempt=_number(everything, b"attempt"),
    )


def outgoing(
    raw: RawHeaders, secrets: Sequence[str]
) -> tuple[list[tuple[bytes, bytes]], tuple[tuple[str, str], ...]]:
    """A response's headers: (what the client gets, what is recorded)."""
    everything = [(name.lower(), value) for name, value in raw]
    gone = _HOP_BY_HOP | _named_by_connection(everything)
    if any(name == b"transfer-encoding" for name, _ in everything):
        gone |= {b"content-length"}  # RFC 9112, 6.3: it does not count beside the other
    onward = [(name, value) for name, value in everything if name not in gone]
    return onward, _recorded(onward, (*secrets, *_secrets(onward)))


def content_length(headers: RawHeaders) -> int | None:
    """The length that a message declares, in bytes."""
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


def scrubbed(text: str, secrets: Sequence[str]) -> str:
    """``text`` without these secrets, and without anything that is shaped like a key."""
    for secret in secrets:
        text = text.replace(secret, LEFT_OUT)
    return _KEY_SHAPED.sub(LEFT_OUT, text)


def scrubbed_target(target: str, secrets: Sequence[str]) -> str:
    """A path with its query, credentials in the query left out."""
    path, mark, query = target.partition("?")
    return scrubbed(path + mark + _QUERY_CREDENTIAL.sub(rf"\g<name>{LEFT_OUT}", query), secrets)


def _is_credential(name: bytes, value: bytes) -> bool:
    return bool(_CREDENTIAL.search(name.decode("latin-1")) or _CREDENTIAL_VALUE.match(value))


def _named_by_connection(headers: RawHeaders) -> frozenset[bytes]:
    words = b",".join(value for name, value in headers if name == b"connection").split(b",")
    return frozenset(word.strip().lower() for word in words)


def _secrets(headers: RawHeaders) -> tuple[str, ...]:
    """Values of credentials: whole, the token after ``Bearer``, each cookie's; the longest first,
    so that none is cut in two by a shorter one."""
    found: set[str] = set()
    for name, value in headers:
        text = value.decode("latin-1")
        if _is_credential(name, value):
            cookies = re.findall(r"=([^;,\s]+)", text) if b"cookie" in name else []
            found.update((text, *text.split()[-1:], *cookies))
    return tuple(
        sorted((each for each in found if len(each) >= _SHORTEST_SECRET), key=len, reverse=True)
    )


def _recorded(headers: RawHeaders, secrets: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (
            name.decode("latin-1"),
            LEFT_OUT if _is_credential(name, value) else scrubbed(value.decode("latin-1"), secrets),
        )
        for name, value in headers
    )


def _number(headers: RawHeaders, word: bytes) -> int | None:
    for name, value in headers:
        if name == OWN_PREFIX + word:
            if not value.isdigit():
                text = value.decode("latin-1")
                raise InputError(f"{name.decode()} is {text!r}; a count from 0 is needed")
            return int(value)
    return None
