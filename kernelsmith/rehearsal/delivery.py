"""How an answer's bytes go out: at once or in odd pieces, compressed or not, whole or cut."""

import random
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ODD_PIECE_MAX_BYTES = 700
GZIP_WINDOW = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """``latency_s``: before the first byte. ``gzip``: for clients that accept it. ``odd_chunks``:
    seed of pieces that respect no boundary, None for one piece an event. ``log``: one JSON line a
    request."""

    latency_s: float = 0.0
    gzip: bool = False
    odd_chunks: int | None = None
    log: Path | None = None


def pieces(delivery: Delivery, events: Iterable[bytes], zipped: bool, key: str) -> Iterator[bytes]:
    """The bytes of a body, in the pieces that are sent."""
    stream = _zipped(events) if zipped else iter(events)
    if delivery.odd_chunks is None:
        yield from stream
        return
    rng = random.Random(f"{delivery.odd_chunks}{key}")
    whole = b"".join(stream)
    at = 0
    while at < len(whole):
        size = rng.choice((1, 2, 3, rng.randint(4, ODD_PIECE_MAX_BYTES)))
        yield whole[at : at + size]
        at += size


def cut(parts: Iterable[bytes], share: float) -> Iterator[bytes]:
    """The first ``share`` of the bytes."""
    whole = list(parts)
    left = int(share * sum(map(len, whole)))
    for part in whole:
        if left <= 0:
            return
        yield part[:left]
        left -= len(part)


def _zipped(events: Iterable[bytes]) -> Iterator[bytes]:
    """One gzip stream, flushed after each event so that a client sees it at once."""
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP_WINDOW)
    for event in events:
        yield packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()
