"""Whether a quantity of a long run is flat: its floor, block by block, and the slope of that.

A block's *floor* is the least of its samples: jobs come and go, and what is never given back lifts
the least. After the warm-up a line is fitted to the floors (least squares; the interval of its
slope by Student's t). A quantity is **flat** if what the upper end of the 95 % interval would add
in a night of eight hours is at most what that night may add: for memory 256 MiB or a tenth of the
level, whichever is more; for what is counted 16, or a tenth of the level. So too few samples, or
too much noise, make "not flat", never "flat".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

NIGHT_S = 8 * 3600.0
CONFIDENCE = 0.95
SHARE = 0.1
BLOCKS_MIN = 6
MEMORY_MAY_ADD = 256 << 20
COUNT_MAY_ADD = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """``level``: median of the floors; ``per_night``, ``low``, ``high``: what the fitted slope, and
    the ends of its interval, add in a night; ``may_add``: what a flat quantity may."""

    level: float
    per_night: float
    low: float
    high: float
    may_add: float
    blocks: int

    @property
    def flat(self) -> bool:
        return bool(self.high <= self.may_add)


def trend(
    times_s: Sequence[float],
    values: Sequence[float],
    *,
    warm_up_s: float,
    block_s: float,
    may_add: float,
) -> Trend:
    """The trend after the warm-up.

    Raises:
        ValueError: fewer than six whole blocks are left.
    """
    floors: dict[int, float] = {}
    for at_s, value in zip(times_s, values, strict=True):
        if at_s >= warm_up_s:
            block = int((at_s - warm_up_s) // block_s)
            floors[block] = min(value, floors.get(block, math.inf))
    if len(floors) < BLOCKS_MIN + 1:
        raise ValueError(f"{len(floors)} blocks; at least {BLOCKS_MIN + 1} are needed")
    del floors[max(floors)]  # it may be cut short
    middles = [(block + 0.5) * block_s for block in floors]
    fitted = stats.linregress(middles, list(floors.values()))
    reach = stats.t.ppf(0.5 + CONFIDENCE / 2, len(floors) - 2) * fitted.stderr
    level = sorted(floors.values())[len(floors) // 2]
    return Trend(
        level=level,
        per_night=float(fitted.slope * NIGHT_S),
        low=float((fitted.slope - reach) * NIGHT_S),
        high=float((fitted.slope + reach) * NIGHT_S),
        may_add=max(may_add, SHARE * level),
        blocks=len(floors),
    )
