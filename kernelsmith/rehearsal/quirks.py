"""What goes wrong on the wire before an answer comes through: a plan, and which try it is.

The plan is by session and turn of a task. Each request, known by the hash of its bytes, meets its
troubles once, one a try, and is answered then: a run that was killed and sends the same bytes again
goes on where the troubles were.
"""

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """``status``: an error answer. ``cut``: the stream ends after this share of its bytes without
    a clean end; "error": ends with an error event instead. ``kept``: it comes at every try."""

    kind: Literal["status", "cut", "error"]
    status: int = 0
    retry_after_s: int | None = None
    share: float = 0.0
    kept: bool = False


RATE_LIMITED = Trouble(kind="status", status=429, retry_after_s=1)
OVERLOADED = Trouble(kind="status", status=529)
BROKEN = Trouble(kind="status", status=500)
TOO_LONG = Trouble(kind="status", status=400, kept=True)
CUT_EARLY = Trouble(kind="cut", share=0.0)
CUT_LATE = Trouble(kind="cut", share=0.7)
CUT_AT_THE_END = Trouble(kind="cut", share=1.0)  # every byte is there, the end is not
OVERLOADED_INSIDE = Trouble(kind="error", share=0.5)

Plan = dict[tuple[int, int], tuple[Trouble, ...]]

# (session, turn): what happens to its tries before it is answered.
NIGHT: Plan = {
    (0, 0): (OVERLOADED,),
    (0, 2): (RATE_LIMITED,),
    (0, 3): (CUT_LATE,),
    (0, 4): (OVERLOADED, OVERLOADED),
    (0, 6): (CUT_AT_THE_END,),
    (1, 0): (BROKEN,),
    (1, 1): (CUT_EARLY,),
    (1, 2): (OVERLOADED_INSIDE,),
    (1, 4): (CUT_LATE, RATE_LIMITED),
    (2, 1): (OVERLOADED_INSIDE, CUT_LATE),
    (5, 2): (TOO_LONG,),
}
KINDS = {
    400: ("invalid_request_error", "prompt is too long: 216213 tokens > 200000 maximum"),
    429: ("rate_limit_error", "This request would exceed your rate limit"),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


@dataclass(slots=True)
class Tries:
    """Counts the tries of each request. Not frozen: it counts; any thread may."""

    _seen: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, key: str) -> int:
        """Which try of this request this is, from 0."""
        with self._lock:
            self._seen[key] += 1
            return self._seen[key] - 1


def trouble(plan: Plan, session: int, turn: int, tried: int) -> Trouble | None:
    """What this try meets; None: it is answered."""
    planned = plan.get((session, turn), ())
    if planned and planned[-1].kept:
        return planned[min(tried, len(planned) - 1)]
    return planned[tried] if tried < len(planned) else None
