"""How null sessions scatter, and what of it sessions of one trial share."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from null_resample import Trial, gains_of

Values = list[float]


def spread(trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """By condition and task: spread of null sessions and its parts, in percent."""
    found: dict[str, dict[str, Any]] = {}
    groups: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        if not trial["planted_percent"]:
            groups[trial["condition"], trial["task"]].append(trial)
    for (condition, task), chosen in sorted(groups.items()):
        gains = gains_of(chosen)
        names = ["overall warm", "overall cold", *chosen[0]["cases"]]
        seconds = sorted(session[-3] for trial in chosen for session in trial["sessions"])
        found.setdefault(condition, {})[task] = {
            "sessions": len(gains),
            "columns": {name: _spread(gains[:, at]) for at, name in enumerate(names)},
            "parts": parts(chosen),
            "session_seconds_median": seconds[len(seconds) // 2],
        }
    return found


def _spread(values: Any) -> dict[str, float]:
    middle = float(np.median(values))
    robust = 1.4826 * float(np.median(np.abs(values - middle)))
    found = {
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
        "robust_sd": robust,
        "median": middle,
        "largest": float(np.max(np.abs(values))),
    }
    return {name: round(100 * value, 3) for name, value in found.items()}


def parts(trials: Sequence[Trial]) -> dict[str, float | None]:
    """Standard deviations, in percent of overall warm gain, that a pair of binaries keeps (its true
    gain, and lasting luck), that a trial keeps, and that is each session's own; and the correlation
    of a session with the next of its trial. By the method of moments on unequal groups; a part
    that comes out negative is 0. None: too few groups.
    """
    by_pair: dict[tuple[str, str], list[Values]] = defaultdict(list)
    for trial in trials:
        sign = 1.0 if trial["a"] < trial["b"] else -1.0
        first, second = sorted((trial["a"], trial["b"]))
        by_pair[first, second].append([sign * session[0] for session in trial["sessions"]])
    every = [values for groups in by_pair.values() for values in groups]
    own = _within(every)
    trial_part = _between([groups for groups in by_pair.values() if len(groups) > 1], own)
    pair_part = None
    if len(by_pair) > 2:
        means = [float(np.mean([np.mean(v) for v in groups])) for groups in by_pair.values()]
        noise = np.mean(
            [
                (trial_part or 0.0) / len(groups) + own / sum(map(len, groups))
                for groups in by_pair.values()
            ]
        )
        # A pair's sign is its names' order, so that pairs scatter around nothing.
        pair_part = max(0.0, float(np.mean(np.square(means))) - float(noise))
    return {
        "own_sd": _percent(own),
        "trial_sd": None if trial_part is None else _percent(trial_part),
        "pair_sd": None if pair_part is None else _percent(pair_part),
        "next_correlation": _next_correlation(every),
    }


def _within(groups: list[Values]) -> float:
    squares = sum(float(np.sum(np.square(np.array(v) - np.mean(v)))) for v in groups)
    return squares / max(1, sum(len(v) - 1 for v in groups))


def _between(pairs: list[list[Values]], own: float) -> float | None:
    """Variance of trial means of one pair beyond what their sessions' own explains."""
    free = sum(len(groups) - 1 for groups in pairs)
    if free == 0:
        return None
    squares = noise = 0.0
    for groups in pairs:
        means = np.array([np.mean(v) for v in groups])
        squares += float(np.sum(np.square(means - means.mean())))
        noise += float(np.mean([own / len(v) for v in groups])) * (len(groups) - 1)
    return max(0.0, (squares - noise) / free)


def _next_correlation(groups: list[Values]) -> float | None:
    """Within trials, around the trial's mean; a trial of n pulls it down by about 1/n, which is
    added back."""
    over = under = pull = 0.0
    for values in groups:
        apart = np.array(values) - np.mean(values)
        over += float(np.sum(apart[1:] * apart[:-1]))
        under += float(np.sum(apart * apart))
        pull += float(np.sum(apart * apart)) / len(values)
    return None if under == 0.0 else round((over + pull) / under, 3)


def _percent(variance: float) -> float:
    return round(100 * math.sqrt(variance), 3)
