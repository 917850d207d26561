"""Tokens of a call, from the usage objects that a server sends."""

from collections.abc import Mapping
from typing import Any

from kernelsmith.model import Usage


def read_usage(*objects: Any) -> Usage:
    """The usage that one or more usage objects of one answer tell. Counts are cumulative over an
    answer, so the largest holds; missing fields, and what is no count, are 0. Cache writes that
    are not split by lifetime count as those of 5 minutes."""
    maps = [one for one in objects if isinstance(one, Mapping)]
    splits = [one["cache_creation"] for one in maps if isinstance(one.get("cache_creation"), dict)]
    short = _largest(splits, "ephemeral_5m_input_tokens")
    long = _largest(splits, "ephemeral_1h_input_tokens")
    unsplit = max(0, _largest(maps, "cache_creation_input_tokens") - short - long)
    return Usage(
        input=_largest(maps, "input_tokens"),
        output=_largest(maps, "output_tokens"),
        cache_read=_largest(maps, "cache_read_input_tokens"),
        cache_write_5m=short + unsplit,
        cache_write_1h=long,
    )


def _largest(maps: list[Any], key: str) -> int:
    counts = [one.get(key) for one in maps]
    return max(0, 0, *(n for n in counts if isinstance(n, int) and not isinstance(n, bool)))
