"""Requests kept as pieces: every byte once, and the whole back exactly."""

import random

import pytest

from kernelsmith.errors import DatabaseError
from kernelsmith.lineage import manifests, records


def kept(bodies: list[bytes]) -> tuple[dict[str, bytes], list[tuple[manifests.Segment, ...]]]:
    """Blobs and pieces of these requests, one after the other."""
    blobs: dict[str, bytes] = {}
    lists = []
    previous = None
    for body in bodies:
        segments, tail = manifests.plan(previous, body)
        if tail:
            name = records.sha256(tail)
            blobs[name] = tail
            segments = (*segments, (name, 0, len(tail)))
        previous = manifests.KeptRequest(body=body, segments=segments)
        lists.append(segments)
    return blobs, lists


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [
        (b"", b"abc", 0),
        (b"abc", b"abc", 3),
        (b"abx", b"aby", 2),
        (b"x", b"y", 0),
        (b"a" * 9, b"a", 1),
    ],
)
def test_the_common_beginning_is_found(first: bytes, second: bytes, length: int) -> None:
    assert manifests.common_prefix(first, second) == length
    assert manifests.common_prefix(second, first) == length


def test_any_run_of_requests_comes_back_whole() -> None:
    rng = random.Random(5)
    for _ in range(30):
        bodies = [rng.randbytes(2000)]
        for _ in range(rng.randrange(1, 90)):
            cut = rng.choice((len(bodies[-1]), rng.randrange(len(bodies[-1]) + 1)))
            bodies.append(bodies[-1][:cut] + rng.randbytes(rng.choice((0, 1, 300))))
        blobs, lists = kept(bodies)
        for body, segments in zip(bodies, lists, strict=True):
            whole = manifests.reassemble(segments, records.sha256(body), "c", blobs.__getitem__)
            assert whole == body
            assert len(segments) <= 64


def test_a_repeated_request_needs_no_new_bytes_and_a_foreign_one_no_pieces() -> None:
    first = manifests.KeptRequest(body=b"a" * 1000, segments=(("one", 0, 1000),))
    assert manifests.plan(first, b"a" * 1000) == ((("one", 0, 1000),), b"")
    assert manifests.plan(first, b"a" * 100 + b"b") == ((), b"a" * 100 + b"b")
    assert manifests.plan(None, b"") == ((), b"")


def test_a_wrong_piece_is_told() -> None:
    with pytest.raises(DatabaseError, match="request of call c does not have its hash"):
        manifests.reassemble((("one", 0, 2),), records.sha256(b"ab"), "c", lambda name: b"ax")
