"""Whether a quantity of a long run is flat: a line through its levels, block by block.

Samples after the warm-up are put into blocks; a block's level is the median of its samples, or the
least where jobs come and go, or the most where workers are killed and come back. A line is fitted
to the levels (least squares, the interval of its slope by Student's t). A quantity is **flat** if
the upper end of the 95 % interval, over the whole measured span, is at most what it may grow by:
8 MiB of the loop's memory and of the spool's, 16 MiB of the workers', 4 of what is counted. A leak
of one descriptor, folder or process in a round of the stream's candidates is several times that.
Too few samples, or too much noise, make "not flat".
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy import stats

CONFIDENCE = 0.95
BLOCKS_MIN = 6
NIGHT_S = 8 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """``level``: median of the blocks; ``grew``, ``low``, ``high``: by the fitted line and the ends
    of its interval, over ``span_s``; ``may_grow``: by how much a flat quantity may."""

    level: float
    grew: float
    low: float
    high: float
    may_grow: float
    span_s: float
    blocks: int

    @property
    def flat(self) -> bool:
        return bool(self.high <= self.may_grow)

    @property
    def night_high(self) -> float:
        """What the upper end would add in a night of eight hours."""
        return self.high / self.span_s * NIGHT_S


def trend(
    times_s: Sequence[float],
    values: Sequence[float],
    *,
    warm_up_s: float,
    block_s: float,
    may_grow: float,
    level_of: Callable[[Sequence[float]], float] = statistics.median,
) -> Trend:
    """The trend after the warm-up.

    Raises:
        ValueError: fewer than six whole blocks are left.
    """
    blocks: dict[int, list[float]] = {}
    for at_s, value in zip(times_s, values, strict=True):
        if at_s >= warm_up_s:
            blocks.setdefault(int((at_s - warm_up_s) // block_s), []).append(value)
    if blocks:
        del blocks[max(blocks)]  # it may be cut short
    if len(blocks) < BLOCKS_MIN:
        raise ValueError(f"{len(blocks)} whole blocks; at least {BLOCKS_MIN} are needed")
    levels = [float(level_of(found)) for found in blocks.values()]
    middles = [(block + 0.5) * block_s for block in blocks]
    fitted = stats.linregress(middles, levels)
    error = 0.0 if math.isnan(fitted.stderr) else float(fitted.stderr)  # all levels are equal
    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(levels) - 2)) * error
    span_s = len(levels) * block_s
    return Trend(
        level=statistics.median(levels),
        grew=float(fitted.slope) * span_s,
        low=(float(fitted.slope) - reach) * span_s,
        high=(float(fitted.slope) + reach) * span_s,
        may_grow=may_grow,
        span_s=span_s,
        blocks=len(levels),
    )
