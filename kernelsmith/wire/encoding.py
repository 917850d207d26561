"""Content encodings of HTTP bodies."""

import zlib

from kernelsmith.errors import InputError

ACCEPTED = "gzip, deflate, zstd"
DECODED_MAX_BYTES = 256 << 20


def decode_body(body: bytes, encoding: str, *, max_bytes: int = DECODED_MAX_BYTES) -> bytes:
    """The body without its content encoding ("", identity, gzip, deflate, zstd, or a list of
    these in the order they were put on). A body that was cut gives what can be read of it:
    whether an answer is whole is told by its content.

    Raises:
        InputError: another encoding; bytes that are not of this encoding; ``max_bytes`` or more.
    """
    for name in reversed([one.strip().lower() for one in encoding.split(",")]):
        if name in ("", "identity"):
            continue
        if name in ("gzip", "x-gzip"):
            body = _inflate(body, zlib.MAX_WBITS | 16, name, max_bytes)
        elif name == "deflate":
            body = _deflated(body, max_bytes)
        elif name == "zstd":
            body = _zstd(body, max_bytes)
        else:
            raise InputError(
                f"content encoding {name!r} is not known", hint=f"known are {ACCEPTED}"
            )
    return body


def _inflate(body: bytes, wbits: int, name: str, left: int) -> bytes:
    parts: list[bytes] = []
    while body:
        inflater = zlib.decompressobj(wbits)
        try:
            part = inflater.decompress(body, left)
        except zlib.error as error:
            if parts:
                break  # padding after the last member
            raise InputError(f"a {name} body that cannot be read: {error}") from error
        parts.append(part)
        left -= len(part)
        if left <= 0:
            raise _too_long(name)
        body = inflater.unused_data if inflater.eof else b""  # a body may have several members
    return b"".join(parts)


def _deflated(body: bytes, left: int) -> bytes:
    """RFC 9110 says zlib's format; some servers send the bare stream."""
    try:
        return _inflate(body, zlib.MAX_WBITS, "deflate", left)
    except InputError:
        return _inflate(body, -zlib.MAX_WBITS, "deflate", left)


def _zstd(body: bytes, left: int) -> bytes:
    import zstandard

    parts: list[bytes] = []
    try:
        reader = zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True)
        while part := reader.read(min(left, 1 << 20)):
            parts.append(part)
            left -= len(part)
            if left <= 0:
                raise _too_long("zstd")
    except zstandard.ZstdError as error:
        raise InputError(f"a zstd body that cannot be read: {error}") from error
    return b"".join(parts)


def _too_long(name: str) -> InputError:
    return InputError(f"a {name} body is too long once decoded")
