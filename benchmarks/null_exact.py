"""The latency rule's chances, exactly: every path of successes and failures, nothing drawn.

One e-process is a walk over (successes, failures); a session succeeds with chance ``p``, whatever
came before. ``walk`` sums over all paths up to the last session. A candidate is accepted only if
all its e-processes are won, so that the chance of the one whose claim is false bounds the chance of
a false accept.
"""

import functools
import math
import statistics as stdlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kernelsmith.gate.subject import Limits
from kernelsmith.numerics import statistics

SESSIONS_MAX = Limits().sessions_max
GIVE_UP_LEAD = Limits().give_up_lead
# What the shipped tasks ask for.
MIN_GAIN = 0.01
MAX_REGRESS = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """``crossed[n - 1]``, ``lost[n - 1]``: chance to reach 1/alpha, or to be given up, at session
    n and not before. ``stopped_value``: mean of the e-value where it stopped; 1 at p = 1/2."""

    crossed: tuple[Fraction | float, ...]
    lost: tuple[Fraction | float, ...]
    stopped_value: Fraction | float

    @property
    def accepted(self) -> Fraction | float:
        """The chance to reach 1/alpha at all."""
        return sum(self.crossed)

    def sessions(self, share: float) -> int | None:
        """Sessions by which this share of those that cross have crossed."""
        reached: Fraction | float = 0
        for number, chance in enumerate(self.crossed, 1):
            reached += chance
            if self.accepted and reached >= share * self.accepted:
                return number
        return None


@functools.cache
def needed(alpha: float, sessions_max: int = SESSIONS_MAX) -> tuple[int, ...]:
    """Fewest successes in n sessions that reach 1/alpha, for n = 1, 2, ...; n + 1: none do."""
    found = []
    successes = 0
    for n in range(1, sessions_max + 1):
        # It never falls: what n - 1 sessions with fewer successes could not, one failure more
        # cannot either.
        while successes <= n and not statistics.shown(successes, n - successes, alpha):
            successes += 1
        found.append(successes)
        successes = min(successes, n)
    return tuple(found)


def walk(
    p: Fraction | float,
    alpha: float,
    *,
    sessions_max: int = SESSIONS_MAX,
    lead: int | None = GIVE_UP_LEAD,
) -> Walk:
    """All paths of one e-process; exact where ``p`` is a fraction.

    Args:
        lead: failures ahead of successes at which it is given up; None: never.
    """
    least = needed(alpha, sessions_max)
    one: Fraction | float = Fraction(1) if isinstance(p, Fraction) else 1.0
    alive = {0: one}
    crossed, lost = [], []
    stopped: Fraction | float = 0 * one
    for n in range(1, sessions_max + 1):
        after: dict[int, Fraction | float] = {}
        for s, chance in alive.items():
            after[s] = after.get(s, 0) + chance * (1 - p)
            after[s + 1] = after.get(s + 1, 0) + chance * p
        won = {s for s in after if s >= least[n - 1]}
        gone = {s for s in after if lead is not None and n - 2 * s >= lead} - won
        crossed.append(sum((after[s] for s in won), 0 * one))
        lost.append(sum((after[s] for s in gone), 0 * one))
        ends = after.keys() if n == sessions_max else won | gone
        stopped += sum((after[s] * value(s, n - s, one) for s in ends), 0 * one)
        alive = {s: chance for s, chance in after.items() if s not in won | gone}
    return Walk(crossed=tuple(crossed), lost=tuple(lost), stopped_value=stopped)


def value(successes: int, failures: int, one: Fraction | float) -> Fraction | float:
    """The e-value, in the arithmetic of ``one``."""
    found = _value(successes, failures)
    return found if isinstance(one, Fraction) else float(found)


@functools.cache
def _value(successes: int, failures: int) -> Fraction:
    return statistics.e_value(successes, failures)


def accept_chances(chances: npt.ArrayLike, alpha: float) -> npt.NDArray[np.float64]:
    """As ``walk(p, alpha).accepted`` for many p at once, in floating point."""
    p = np.asarray(chances, float)
    alive = np.zeros((SESSIONS_MAX + 2, p.size))
    alive[0] = 1.0
    accepted = np.zeros(p.size)
    for n, least in enumerate(needed(alpha), 1):
        alive[1:] = alive[1:] * (1.0 - p) + alive[:-1] * p
        alive[0] *= 1.0 - p
        accepted += alive[least:].sum(axis=0)
        alive[least:] = 0.0
        alive[: max(0, (n - GIVE_UP_LEAD) // 2 + 1)] = 0.0
    return accepted


def accept_chance(p: float, alpha: float) -> float:
    """Chance of one e-process to be won under the rule's stops."""
    return float(accept_chances([p], alpha)[0])


def win_chance(gain_percent: float, threshold_percent: float, sd_percent: float) -> float:
    """Chance of a session above the threshold, if log gains are normal around the true one."""
    apart = math.log1p(gain_percent / 100) - math.log1p(threshold_percent / 100)
    return 0.5 * (1.0 + math.erf(apart / (sd_percent / 100) / math.sqrt(2.0)))


def any_of(chances: Sequence[float]) -> float:
    """Chance of at least one of independent events."""
    return -math.expm1(sum(math.log1p(-chance) for chance in chances))


def shared_offset(ratio: float, alpha: float, steps: int = 400) -> float:
    """Chance of a false accept at the edge of the null if all sessions of a confirm share one
    offset: normal, its standard deviation ``ratio`` times a session's own. Integrated by the
    midpoints of equal shares."""
    if ratio == 0.0:
        return accept_chance(0.5, alpha)
    normal = stdlib.NormalDist()
    points = [normal.inv_cdf((step + 0.5) / steps) for step in range(steps)]
    return float(accept_chances([normal.cdf(ratio * z) for z in points], alpha).mean())
