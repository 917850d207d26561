"""How long to wait before a call is tried again."""

import email.utils
import hashlib

from kernelsmith.wire import header

BACKOFF_MAX_S = 60.0
RETRY_AFTER_MAX_S = 900.0


def wait_s(
    name: str, failures: int, headers: tuple[tuple[str, str], ...] = (), now_s: float = 0.0
) -> float:
    """Seconds to wait after ``failures`` tries in a row that failed, the last with these response
    headers: what the server asks for, up to 15 minutes, else 1, 2, 4 … 60 s. Both with a jitter
    that ``name`` decides, so that sessions do not come back all at once. ``now_s``: Unix time."""
    spread = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32
    asked_s = retry_after_s(headers, now_s)
    if asked_s is not None:
        return min(asked_s, RETRY_AFTER_MAX_S) + spread
    return min(BACKOFF_MAX_S, 2.0 ** min(max(failures, 1) - 1, 16) * (0.75 + 0.5 * spread))


def retry_after_s(headers: tuple[tuple[str, str], ...], now_s: float) -> float | None:
    """What the server asks for: ``retry-after-ms``, or ``retry-after`` in seconds or as a date;
    None where it says nothing that can be read."""
    milliseconds = _number(header(headers, "retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = header(headers, "retry-after").strip()
    seconds = _number(asked)
    if seconds is not None or not asked:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(asked).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
