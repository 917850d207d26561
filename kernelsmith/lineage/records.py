"""Canonical JSON, hashes, identifiers and times of lineage records: pure functions, no database."""

import dataclasses
import hashlib
import json
import math
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import zstandard

from kernelsmith.errors import DatabaseError, EvidenceError

ZSTD_LEVEL = 6
MAX_BLOB_BYTES = 1 << 30


def utc_now() -> str:
    """The time now, as in ``2026-11-29T18:30:00.123456Z``: sorts as text."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def uuid7(after: str = "", now_ns: int | None = None) -> str:
    """A UUIDv7 (RFC 9562): 48 bits of milliseconds, then random bits; sorts by time.

    Args:
        after: an id that the new one follows, whatever the wall clock says by now: while that is
            not ahead of it, milliseconds are counted on from there.
        now_ns: the wall clock; by default the system's.
    """
    stamp = (time.time_ns() if now_ns is None else now_ns) // 1_000_000
    if after:
        stamp = max(stamp, int(after.replace("-", "")[:12], 16) + 1)
    stamp &= (1 << 48) - 1
    value = stamp << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def plain(value: Any) -> Any:
    """``value`` as JSON types: dataclasses become objects, tuples arrays, bytes hex, numbers that
    JSON cannot hold the strings "nan", "inf" and "-inf", decimals their digits.

    Raises:
        EvidenceError: for a type that has no such form.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if hasattr(value, "item"):  # a numpy scalar
        return plain(value.item())
    raise EvidenceError(f"a value of type {type(value).__name__} cannot be kept in the lineage")


def canonical(value: Any) -> str:
    """One text for equal values: sorted keys, no spaces, ASCII."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(data: bytes | str) -> str:
    """Hex SHA-256 of bytes, or of a text's UTF-8."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def row_hash(values: Mapping[str, Any]) -> str:
    """Hash of a row: its columns by name; blobs count by their own hash."""
    shown = {k: sha256(v) if isinstance(v, bytes) else v for k, v in values.items()}
    try:  # columns are plain already, but for a NaN
        text = json.dumps(shown, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = canonical(shown)
    return sha256(text)[:32]


def chain_hash(previous: str, seq: int, at: str, kind: str, run_id: str, manifest: str) -> str:
    """Digest of a step: what it wrote and the digest of the step before."""
    return sha256(canonical([previous, seq, at, kind, run_id, manifest]))


def compress(data: bytes) -> bytes:
    """zstd with a checksum and the content size in the frame."""
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).compress(data)


def decompress(data: bytes) -> bytes:
    """Inverse of :func:`compress`.

    Raises:
        DatabaseError: when the frame is damaged.
    """
    try:
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_BLOB_BYTES)
    except (zstandard.ZstdError, TypeError) as error:
        raise DatabaseError(
            f"a blob of the database is damaged: {error}", hint="`kernelsmith lineage verify`"
        ) from error
