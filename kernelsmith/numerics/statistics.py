"""The statistics of the latency rule, exact where the numbers allow it.

The unit is a session (one process); a session gives one log gain a case. Whether a median log gain
exceeds a threshold is decided by a sign test that may be looked at after every session: an
e-process. See :func:`e_value` for its closed form.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

NIGHT_ALPHA = 0.05
"""Probability of any false accept in one run, over all its candidates and however long it is."""


def e_value(successes: int, failures: int) -> Fraction:
    """E-value of the one-sided sign test of "the median is at or below the threshold".

    The mixture over p uniform on (1/2, 1) of likelihood ratios against p = 1/2, with s successes,
    f failures and n = s + f::

        E = integral from 1/2 to 1 of 2 (2p)^s (2(1-p))^f dp
          = 2^(n+1) B(s+1, f+1) P(Bin(n+1, 1/2) <= s)
          = s! f! / (n+1)! * sum over i <= s of C(n+1, i)

    Under the null hypothesis this is a supermartingale that starts at 1, so that it ever reaches
    1/alpha has probability at most alpha (Ville), whatever rule stops the sessions.

    Returns:
        The exact value.
    """
    if successes < 0 or failures < 0:
        raise ValueError(f"negative counts: {successes} successes, {failures} failures")
    n = successes + failures
    lower = sum(math.comb(n + 1, i) for i in range(successes + 1))
    return Fraction(
        math.factorial(successes) * math.factorial(failures) * lower, math.factorial(n + 1)
    )


def alpha_k(k: int) -> float:
    """Error allowed to the k-th candidate that reaches confirm in a run, k = 1, 2, …; and to the
    k-th timing against the seed of one task at a run's end, a series of its own.

    0.05 * 6 / (pi^2 k^2): the allowances of all candidates sum to 0.05.
    """
    if k < 1:
        raise ValueError(f"k counts from 1, got {k}")
    return NIGHT_ALPHA * 6.0 / (math.pi**2 * k**2)


def shown(successes: int, failures: int, alpha: float) -> bool:
    """Whether the e-value has reached 1/alpha; compared without rounding."""
    return e_value(successes, failures) * Fraction(alpha) >= 1


def sessions_needed(alpha: float) -> int:
    """The fewest sessions, all successes, that reach 1/alpha."""
    n = 1
    while not shown(n, 0, alpha):
        n += 1
    return n


def median(values: Sequence[float]) -> float:
    """The median; the mean of the two middle values of an even count."""
    if not values:
        raise ValueError("median of nothing")
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return 0.5 * (ordered[middle - 1] + ordered[middle])


def median_interval(values: Sequence[float], coverage: float = 0.96) -> tuple[float, float]:
    """Distribution-free interval for the median from order statistics.

    The narrowest symmetric pair (x_(r), x_(n+1-r)) with coverage of at least ``coverage``:
    1 - 2 P(Bin(n, 1/2) <= r - 1). Two-sided, whatever the distribution of independent values.

    Raises:
        ValueError: so few values that even (min, max) covers less (fewer than 6 at 96 %).
    """
    n = len(values)
    tail = Fraction(0)
    rank = 0
    while rank < n:
        tail += Fraction(math.comb(n, rank), 2**n)
        if 1 - 2 * tail < Fraction(coverage):
            break
        rank += 1
    if rank == 0:
        raise ValueError(f"{n} values cannot bound a median with coverage {coverage}")
    ordered = sorted(values)
    return ordered[rank - 1], ordered[n - rank]


def clopper_pearson(events: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact two-sided interval for a probability after ``events`` in ``trials``."""
    if not 0 <= events <= trials or trials == 0:
        raise ValueError(f"{events} events in {trials} trials")
    from scipy.special import betaincinv  # only reports need it; the command line starts without

    half = (1.0 - confidence) / 2.0
    low = 0.0 if events == 0 else float(betaincinv(events, trials - events + 1, half))
    high = 1.0 if events == trials else float(betaincinv(events + 1, trials - events, 1.0 - half))
    return low, high


def session_gain(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Weighted mean of a session's log gains: the log of the weighted geometric mean gain.

    Args:
        scores: log(time of the reference / time of the candidate) by case.
        weights: the task's fixed weights by case, in any positive unit.

    Raises:
        ValueError: a weighted case without a score: a gain is never made up.
    """
    total = sum(weights.values())
    missing = sorted(set(weights) - set(scores))
    if missing or total <= 0.0:
        raise ValueError(f"no score for {missing}" if missing else "no case has a weight")
    return sum(weights[case] * scores[case] for case in weights) / total
