"""Nights and chains of accepts, simulated from the rule's exact chances: what alpha_k is for, and
what is left of a case after twenty accepts that each may cost it a little."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from null_exact import (
    MAX_REGRESS,
    MIN_GAIN,
    accept_chance,
    accept_chances,
    any_of,
    walk,
    win_chance,
)
from null_resample import Gains, Trial, above, decide, drawn

from kernelsmith.loop import RETIMING_SESSIONS
from kernelsmith.numerics import statistics

CANDIDATES = 1000
FLAT_ALPHA = statistics.NIGHT_ALPHA
# How often a chain of nulls is played, and a night on drawn sessions.
CHAIN_NIGHTS = 2000
DRAWN_NIGHTS = 200
ACCEPTS = 20
# What a case may lose: see max_regress.
LIMIT = -math.log1p(MAX_REGRESS)
# Chances of a success are rounded to this, so that each is computed once.
GRID = 200


def alphas(*, spent: bool, number: int = CANDIDATES) -> list[float]:
    """What each candidate of a night is allowed: alpha_k, or the same for all."""
    return [statistics.alpha_k(k) if spent else FLAT_ALPHA for k in range(1, number + 1)]


def exact_nights(
    gains_percent: list[float], sd_percent: float, candidates: int = CANDIDATES
) -> list[dict[str, Any]]:
    """Chance of any false accept in a night of candidates that all have one true gain, at most
    what is asked for: exact for independent normal sessions."""
    ps = [win_chance(gain, 100 * MIN_GAIN, sd_percent) for gain in gains_percent]
    found = {}
    for name, spent in (("alpha_k", True), ("flat", False)):
        allowed = alphas(spent=spent, number=candidates)
        chances = np.array([accept_chances(ps, alpha) for alpha in allowed])
        found[name] = [any_of(column) for column in chances.T.tolist()]
    return [
        {
            "true_gain_percent": gain,
            "success_chance": p,
            **{name: found[name][at] for name in found},
        }
        for at, (gain, p) in enumerate(zip(gains_percent, ps, strict=True))
    ]


def drawn_nights(
    trials: list[Trial], rule: dict[str, float], shift_percent: float, nights: int = DRAWN_NIGHTS
) -> dict[str, Any]:
    """Nights whose candidates' sessions are drawn from real null sessions."""
    rng = np.random.default_rng([2026, round(100 * shift_percent)])
    false = {"alpha_k": [], "flat": []}  # type: dict[str, list[int]]
    for _ in range(nights):
        sessions = drawn(trials, CANDIDATES, rng) + math.log1p(shift_percent / 100)
        won = above(sessions, rule)
        false["flat"].append(int(decide(won, FLAT_ALPHA).accepted.sum()))
        false["alpha_k"].append(_spent(won))
    return {
        "nights": nights,
        "shift_percent": shift_percent,
        **{
            name: {
                "nights_with_any": sum(count > 0 for count in counts),
                "false_accepts_a_night": sum(counts) / nights,
                "clopper_pearson_95": statistics.clopper_pearson(
                    sum(count > 0 for count in counts), nights
                ),
            }
            for name, counts in false.items()
        },
    }


def _spent(won: npt.NDArray[np.bool_]) -> int:
    """Accepts of one night under alpha_k. What is not accepted at alpha_1 is at no later one, so
    that only those few are decided again at their own."""
    candidates = np.flatnonzero(decide(won, statistics.alpha_k(1)).accepted)
    return sum(
        bool(decide(won[[at]], statistics.alpha_k(int(at) + 1)).accepted[0]) for at in candidates
    )


def chain(sd_percent: float, *, spent: bool, nights: int = CHAIN_NIGHTS) -> dict[str, Any]:
    """Nights in which a false accept becomes the incumbent: candidates' true gains over the seed
    are uniform from -1 % to +1 %, and each is judged against whoever stands. An accept is false
    where the truth is not more than 1 % above the incumbent's."""
    rng = np.random.default_rng(7)
    grid = np.arange(GRID + 1) / GRID
    chances = np.array([accept_chances(grid, alpha) for alpha in alphas(spent=spent)])
    counts, ends = [], []
    for _ in range(nights):
        truths, luck = rng.uniform(-1.0, 1.0, CANDIDATES), rng.random(CANDIDATES)
        stands, false, at = 0.0, 0, 0
        while at < CANDIDATES:
            wins = [
                win_chance(truth, 100 * MIN_GAIN + stands, sd_percent)
                for truth in truths[at:].tolist()
            ]
            cell = np.ceil(np.array(wins) * GRID).astype(int)  # upwards: not to its favour
            taken = np.flatnonzero(luck[at:] < chances[np.arange(at, CANDIDATES), cell])
            if not taken.size:
                break
            at += int(taken[0])
            false += bool(truths[at] - stands <= 100 * MIN_GAIN)
            stands = float(truths[at])
            at += 1
        counts.append(false)
        ends.append(stands)
    any_false = sum(count > 0 for count in counts)
    return {
        "nights": nights,
        "nights_with_any": any_false,
        "clopper_pearson_95": statistics.clopper_pearson(any_false, nights),
        "false_accepts_a_night": sum(counts) / nights,
        "incumbent_truth_percent_mean": sum(ends) / nights,
    }


# ------------------------------------------------------------------------------------- compounding


def retime_chance(p: float, k: int) -> float:
    """Chance that the k-th timing at a run's end shows a case is not slower than allowed."""
    shown = walk(p, statistics.alpha_k(k), sessions_max=RETIMING_SESSIONS, lead=None)
    return float(shown.accepted)


def compounding(loss_percent: float, sd_percent: float) -> dict[str, Any]:
    """Twenty accepts that each truly cost one case ``loss_percent``: what the case stands at
    against the seed, without the timing at the run's end, and with it.

    The overall gain is taken as shown each time. Timings go back from the last incumbent to the
    first; the first that passes stands, and where none does the seed.
    """
    step = -math.log1p(loss_percent / 100)
    chances = _stands(step, sd_percent)
    return {
        "loss_each_percent": loss_percent,
        "cleared_in_one_confirm": accept_chance(
            _above(step, LIMIT, sd_percent), statistics.alpha_k(1)
        ),
        "case_without_retiming": math.exp(ACCEPTS * step),
        "case_with_retiming_mean": sum(
            chance * math.exp(depth * step) for depth, chance in chances.items()
        ),
        "slower_than_allowed_stands": sum(
            chance for depth, chance in chances.items() if depth * step < LIMIT - 1e-12
        ),
        "accepts_that_stand": max(chances, key=chances.__getitem__),
    }


def _stands(step: float, sd_percent: float) -> dict[int, float]:
    """Chance that the incumbent after so many accepts stands; 0 is the seed."""
    left, chances = 1.0, {}
    for timing, depth in enumerate(range(ACCEPTS, 0, -1), 1):
        passes = retime_chance(_above(depth * step, LIMIT, sd_percent), timing)
        chances[depth] = left * passes
        left *= 1.0 - passes
    return {**chances, 0: left}


def _above(gain: float, threshold: float, sd_percent: float) -> float:
    return 0.5 * (1.0 + math.erf((gain - threshold) / (sd_percent / 100) / math.sqrt(2.0)))


def ancestors_at_the_edge() -> dict[str, float]:
    """Twenty ancestors with a case slower by exactly what is allowed: chance that one passes,
    each with its own part of one allowance, and each with the first's."""
    return {
        "shared": any_of([retime_chance(0.5, k) for k in range(1, ACCEPTS + 1)]),
        "each": any_of([retime_chance(0.5, 1)] * ACCEPTS),
    }


def reported(gain_percent: float, sd_percent: float, trials: int = 4000) -> dict[str, Any]:
    """What an accepted candidate's reported gain is worth: it is the median over sessions that
    stopped when they looked well. Normal sessions; beside it 20 sessions that stop for nothing."""
    rng = np.random.default_rng(round(1000 * gain_percent))
    true = math.log1p(gain_percent / 100)
    gains: Gains = rng.normal(true, sd_percent / 100, (trials, 60, 1))
    found = decide(np.repeat(gains > math.log1p(MIN_GAIN), 2, axis=2), statistics.alpha_k(1))
    stopped = [gains[t, : found.sessions[t], 0] for t in np.flatnonzero(found.accepted)]
    fixed = list(gains[:, :RETIMING_SESSIONS, 0])
    return {
        "true_gain_percent": gain_percent,
        "accepted": len(stopped) / trials,
        "confirm": _worth(stopped, true),
        "retiming": _worth(fixed, true),
    }


def _worth(values: list[npt.NDArray[np.float64]], true: float) -> dict[str, float]:
    medians = [statistics.median(each.tolist()) for each in values]
    intervals = [statistics.median_interval(each.tolist()) for each in values]
    held = sum(low <= true <= high for low, high in intervals)
    if not values:
        return {}
    return {
        "gain_percent_mean": 100 * math.expm1(sum(medians) / len(medians)),
        "interval_holds": held / len(values),
    }
