"""Requests of a conversation repeat their beginning: each is kept as pieces of earlier ones and
one new blob for what is new. Pure functions over bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelsmith.errors import DatabaseError
from kernelsmith.lineage import records

Segment = tuple[str, int, int]  # blob, start, stop

MIN_SHARED_BYTES = 256  # a shorter common beginning costs more as a piece than as bytes
MAX_SEGMENTS = 64  # then the whole body is kept anew: lists must not grow with the square of turns


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRequest:
    """A request that is on record, as bytes and as the pieces that hold them."""

    body: bytes
    segments: tuple[Segment, ...]


def plan(previous: KeptRequest | None, body: bytes) -> tuple[tuple[Segment, ...], bytes]:
    """How to keep ``body``: pieces that are on record already, then bytes that are not."""
    if previous is None:
        return (), body
    shared = common_prefix(previous.body, body)
    if shared < MIN_SHARED_BYTES:
        return (), body
    pieces = head(previous.segments, shared)
    tail = body[shared:]
    if tail and len(pieces) >= MAX_SEGMENTS:
        return (), body
    return pieces, tail


def common_prefix(first: bytes, second: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(first), len(second))
    while low < high:  # equal below ``low``; halving compares each byte about once, in C
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def head(segments: Sequence[Segment], nbytes: int) -> tuple[Segment, ...]:
    """The pieces of the first ``nbytes`` bytes."""
    found: list[Segment] = []
    for blob, start, stop in segments:
        if nbytes <= 0:
            break
        taken = min(stop - start, nbytes)
        found.append((blob, start, start + taken))
        nbytes -= taken
    return tuple(found)


def reassemble(
    segments: Sequence[Segment], sha256: str, call_id: str, blob: Callable[[str], bytes]
) -> bytes:
    """A request's bytes.

    Raises:
        DatabaseError: they are not those that were recorded.
    """
    body = b"".join(blob(name)[start:stop] for name, start, stop in segments)
    if records.sha256(body) != sha256:
        raise DatabaseError(
            f"the request of call {call_id} does not have its hash: {records.sha256(body)}, "
            f"recorded {sha256}",
            hint="`kernelsmith lineage verify` names what was changed",
        )
    return body
