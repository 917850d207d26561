"""Tokens of a call, from the usage objects that a server sends."""

from collections.abc import Mapping
from typing import Any

from kernelsmith.model import Usage

# No answer takes so many; the record's columns and sums hold them, and any limit is spent by them.
TOKENS_MAX = 10**12
_DIGITS_MAX = 30


def read_usage(*objects: Any) -> Usage:
    """The usage that one or more usage objects of one answer tell. Counts are cumulative over an
    answer, so the largest holds; missing fields, and what is no count, are 0; none is over
    ``TOKENS_MAX``. Cache writes that are not split by lifetime count as those of 5 minutes."""
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


def whole_number(digits: str) -> int:
    """For ``json.loads(parse_int=…)``: an integer of any length; of an absurd one the beginning,
    which is absurd enough. Python refuses to read thousands of digits."""
    return int(digits[:_DIGITS_MAX])


def _largest(maps: list[Any], key: str) -> int:
    return max((_count(one.get(key)) for one in maps), default=0)


def _count(value: Any) -> int:
    """0 for what is no count; a whole number may be written as ``12.0``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    if isinstance(value, float) and not value.is_integer():  # infinite ones and NaN, too
        return 0
    return int(min(max(value, 0), TOKENS_MAX))
