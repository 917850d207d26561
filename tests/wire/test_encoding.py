"""Bodies without their content encoding."""

import gzip
import zlib

import pytest
import zstandard

from kernelsmith.errors import InputError
from kernelsmith.wire import decode_body

PLAIN = b'data: {"type":"ping"}\n\n' * 200


def bare(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


ENCODED = {
    "": PLAIN,
    "identity": PLAIN,
    "gzip": gzip.compress(PLAIN),
    "GZip": gzip.compress(PLAIN[:100]) + gzip.compress(PLAIN[100:]),
    "x-gzip": gzip.compress(PLAIN) + b"\0\0\0",
    "deflate": zlib.compress(PLAIN),
    "deflate ": bare(PLAIN),
    "zstd": zstandard.compress(PLAIN[:100]) + zstandard.compress(PLAIN[100:]),
    "gzip, zstd": zstandard.compress(gzip.compress(PLAIN)),
}


@pytest.mark.parametrize("name", ENCODED)
def test_a_body_is_decoded(name: str) -> None:
    assert decode_body(ENCODED[name], name) == PLAIN


@pytest.mark.parametrize("name", ["gzip", "deflate", "deflate ", "zstd"])
def test_a_body_that_was_cut_gives_what_can_be_read(name: str) -> None:
    body = ENCODED[name]
    for nbytes in range(0, len(body), 7):
        assert PLAIN.startswith(decode_body(body[:nbytes], name))
    assert decode_body(body[:-2], name)


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "br", "gzip, br"])
def test_bytes_of_no_known_encoding_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        decode_body(b"\xffplain text", name)


@pytest.mark.parametrize("pack", [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_a_body_that_grows_without_end_is_refused(pack) -> None:
    name, compress = pack
    assert len(decode_body(compress(bytes(999)), name, max_bytes=1000)) == 999
    with pytest.raises(InputError, match="once decoded"):
        decode_body(compress(bytes(2000)), name, max_bytes=1000)
