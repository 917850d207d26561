"""Which headers go on and which are recorded.

Hop-by-hop headers end here (RFC 9110, 7.6.1), as does the framing of the body: both sides have
their own. Credentials go on, and only their names are recorded (:mod:`.credentials`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelsmith.capture.credentials import LEFT_OUT, is_credential, scrubbed, secrets_in
from kernelsmith.errors import InputError

RawHeaders = Iterable[tuple[bytes, bytes]]
OWN_PREFIX = b"x-kernelsmith-"
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)
_NOT_SENT_ON = _HOP_BY_HOP | {b"host", b"expect"}  # the body is here whole: nothing to expect


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


def token(raw: RawHeaders) -> bytes:
    """What a request says to be one of a run's own; b"" if it says nothing."""
    return next((value for name, value in raw if name.lower() == OWN_PREFIX + b"token"), b"")


def incoming(raw: RawHeaders, *, own: bool) -> Incoming:
    """Sorts a request's headers. ``own``: it is one of a run's own; what others say of turns is
    left out.

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
    secrets = secrets_in(everything)
    return Incoming(
        onward=onward,
        recorded=_recorded(((n, v) for n, v in onward if not is_credential(n, v)), secrets),
        dropped=tuple(sorted({n.decode("latin-1") for n, v in everything if is_credential(n, v)})),
        secrets=secrets,
        turn=_number(everything, b"turn") if own else None,
        attempt=_number(everything, b"attempt") if own else None,
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
    return onward, _recorded(onward, (*secrets, *secrets_in(onward)))


def content_length(headers: RawHeaders) -> int | None:
    """The length that a message declares, in bytes."""
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


def _named_by_connection(headers: RawHeaders) -> frozenset[bytes]:
    words = b",".join(value for name, value in headers if name == b"connection").split(b",")
    return frozenset(word.strip().lower() for word in words)


def _recorded(headers: RawHeaders, secrets: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (
            name.decode("latin-1"),
            LEFT_OUT if is_credential(name, value) else scrubbed(value.decode("latin-1"), secrets),
        )
        for name, value in headers
    )


def _number(headers: RawHeaders, word: bytes) -> int | None:
    for name, value in headers:
        if name == OWN_PREFIX + word:
            if not (value.isdigit() and len(value) < 10):
                text = value.decode("latin-1")
                raise InputError(f"{name.decode()} is {text!r}; a count from 0 is needed")
            return int(value)
    return None
