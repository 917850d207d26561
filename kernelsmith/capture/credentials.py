"""What a credential is, and how a record is kept free of it.

Credentials go to the upstream and stay out of the record: of headers the values, of paths, errors
and bodies of errors whatever repeats them. The bodies of requests and of answers are never
changed: a client that writes its key into a message has made it part of the conversation.
"""

import re
from collections.abc import Iterable, Sequence

from kernelsmith import wire
from kernelsmith.errors import InputError

LEFT_OUT = "(left out)"
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
_COOKIE = re.compile(r"=([^;,\s]+)")
_SHORTEST_SECRET = 6


def scrubbed(text: str, secrets: Sequence[str]) -> str:
    """``text`` without these secrets, and without anything that is shaped like a key."""
    for secret in secrets:
        text = text.replace(secret, LEFT_OUT)
    return _KEY_SHAPED.sub(LEFT_OUT, text)


def scrubbed_target(target: str, secrets: Sequence[str]) -> str:
    """A path with its query, credentials in the query left out."""
    path, mark, query = target.partition("?")
    return scrubbed(path + mark + _QUERY_CREDENTIAL.sub(rf"\g<name>{LEFT_OUT}", query), secrets)


def is_credential(name: bytes, value: bytes) -> bool:
    """Whether a header is one, by its name or by what it begins with."""
    return bool(_CREDENTIAL.search(name.decode("latin-1")) or _CREDENTIAL_VALUE.match(value))


def secrets_in(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """Values of credentials: whole, the token after ``Bearer``, each cookie's; the longest first,
    so that none is cut in two by a shorter one."""
    found: set[str] = set()
    for name, value in headers:
        text = value.decode("latin-1")
        if is_credential(name, value):
            parts = _COOKIE.findall(text) if b"cookie" in name else text.split()[-1:]
            found.update((text, *parts))
    return tuple(
        sorted((each for each in found if len(each) >= _SHORTEST_SECRET), key=len, reverse=True)
    )


def kept_body(
    status: int | None,
    headers: tuple[tuple[str, str], ...],
    body: bytes,
    secrets: Sequence[str],
) -> tuple[bytes, str]:
    """The body to keep, and a note if it is not the one that came: an error may repeat the
    request's credentials. They are masked in place; of an encoded body nothing is kept."""
    if status is None or status < 400 or not secrets:
        return body, ""
    try:
        plain = wire.decode_body(body, wire.header(headers, "content-encoding"))
    except InputError:
        plain = body
    words = [secret.encode("latin-1") for secret in secrets]
    if not any(word in plain for word in words):
        return body, ""
    if plain is not body:
        return b"", "the body repeats a credential; nothing of it is kept"
    for word in words:
        body = body.replace(word, b"*" * len(word))
    return body, "the body repeats a credential; it is masked"
