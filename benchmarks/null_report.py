"""What the null sessions show: spread by case, false accepts, power."""

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

from kernelsmith.gate.latency_rule import LatencyRule, latency_rule
from kernelsmith.numerics import statistics

Session = dict[str, Any]
Trial = dict[str, Any]

RESAMPLED_NULL = 1200
RESAMPLED_POWER = 400
SESSIONS_MAX = 60
GIVE_UP_LEAD = 8


def report(
    trials: Sequence[Trial],
    rule: dict[str, float],
    *,
    resampled_null: int = RESAMPLED_NULL,
    resampled_power: int = RESAMPLED_POWER,
) -> dict[str, Any]:
    """The document of ``null_sessions.json``.

    Args:
        trials: real trials, each with its sessions.
        rule: ``min_gain``, ``max_regress`` and ``alpha`` they were decided by.
        resampled_null, resampled_power: trials to draw from the null sessions.
    """
    null = [trial for trial in trials if trial["planted_percent"] == 0]
    by_task: dict[str, list[Session]] = {}
    for trial in null:
        by_task.setdefault(trial["task"], []).extend(trial["sessions"])
    count = sum(map(len, by_task.values()))
    return {
        "schema": "kernelsmith.null_sessions/1",
        "rule": {**rule, "sessions_max": SESSIONS_MAX, "give_up_lead": GIVE_UP_LEAD},
        "null_sessions": count,
        "session_seconds": _quantiles(s["seconds"] for t in trials for s in t["sessions"]),
        "session_seconds_with_host": _quantiles(
            t["seconds"] / len(t["sessions"]) for t in trials if t["sessions"]
        ),
        "processor_share": _quantiles(
            s["processor_share"]
            for trial in null
            for s in trial["sessions"]
            if s["processor_share"] is not None
        ),
        "session_sd_percent": {task: spread(sessions) for task, sessions in by_task.items()},
        "end_to_end": _accepts(
            [bool(trial["accepted"]) for trial in null],
            [len(trial["sessions"]) for trial in null],
        ),
        "end_to_end_by_task": {
            task: _accepts(
                [bool(t["accepted"]) for t in null if t["task"] == task],
                [len(t["sessions"]) for t in null if t["task"] == task],
            )
            for task in by_task
        },
        "end_to_end_planted": _planted(trials),
        "resampled": {
            "what": "trials whose sessions are drawn with replacement from the real null sessions "
            "of their task, tasks by turns; power: the true log gain is added to every score. It "
            "shows no more than the sessions that it draws from",
            **{
                name: _resampled(by_task, rule, percent, number)
                for name, percent, number in (
                    ("null", 0.0, resampled_null),
                    ("gain 2 %", 2.0, resampled_power),
                    ("gain 5 %", 5.0, resampled_power),
                    ("gain exactly min_gain", 100 * rule["min_gain"], resampled_power),
                )
            },
        },
    }


def spread(sessions: Sequence[Session]) -> dict[str, Any]:
    """Standard deviation, a robust one (1.4826 median absolute deviation) and the median of
    session scores, in percent, overall and by case."""
    cases = sorted(sessions[0]["cases"])
    columns = {
        "overall warm": [s["warm"] for s in sessions],
        "overall cold": [s["cold"] for s in sessions],
        **{case: [s["cases"][case] for s in sessions] for case in cases},
    }
    return {name: _spread(values) for name, values in columns.items()}


def _spread(values: Sequence[float]) -> dict[str, float]:
    mean = sum(values) / len(values)
    middle = statistics.median(values)
    sd = math.sqrt(sum((v - mean) ** 2 for v in values) / max(1, len(values) - 1))
    robust = 1.4826 * statistics.median([abs(v - middle) for v in values])
    found = {"sd": sd, "robust_sd": robust, "median": middle, "largest": max(map(abs, values))}
    return {name: round(100 * value, 3) for name, value in found.items()}


def _accepts(accepted: Sequence[bool], lengths: Sequence[int]) -> dict[str, Any]:
    if not accepted:
        return {"trials": 0}
    low, high = statistics.clopper_pearson(sum(accepted), len(accepted))
    return {
        "trials": len(accepted),
        "accepted": sum(accepted),
        "rate": sum(accepted) / len(accepted),
        "clopper_pearson_95": [low, high],
        "sessions_median": statistics.median(lengths),
        "sessions_total": sum(lengths),
    }


def _planted(trials: Sequence[Trial]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for percent in sorted({t["planted_percent"] for t in trials} - {0}):
        chosen = [t for t in trials if t["planted_percent"] == percent]
        gains = [s["warm"] for t in chosen for s in t["sessions"]]
        found[f"about {percent:g} % of the programs run twice"] = {
            **_accepts([bool(t["accepted"]) for t in chosen], [len(t["sessions"]) for t in chosen]),
            "programs_repeated": chosen[0]["planted"],
            "gain_median": math.exp(statistics.median(gains)) if gains else None,
        }
    return found


def _resampled(
    by_task: dict[str, list[Session]], rule: dict[str, float], percent: float, number: int
) -> dict[str, Any]:
    rng = random.Random(f"resampled {percent}")
    shift = math.log1p(percent / 100)
    tasks = sorted(by_task)
    accepted, lengths = [], []
    for trial in range(number):
        sessions = by_task[tasks[trial % len(tasks)]]
        won, length = _play(sessions, rule, shift, rng)
        accepted.append(won)
        lengths.append(length)
    return {"shift_percent": percent, **_accepts(accepted, lengths)}


def _play(
    sessions: Sequence[Session], rule: dict[str, float], shift: float, rng: random.Random
) -> tuple[bool, int]:
    """One trial under the rule with its early stop: (accepted, sessions used)."""
    played: LatencyRule = latency_rule(list(sessions[0]["cases"]), **rule)
    length = 0
    while length < SESSIONS_MAX:
        length += 1
        one = rng.choice(sessions)
        cases = {case: score + shift for case, score in one["cases"].items()}
        played.see(one["warm"] + shift, one["cold"] + shift, cases)
        if not played.open or played.lost(GIVE_UP_LEAD):
            break
    return not played.open, length


def _quantiles(values: Iterable[float]) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {
        name: round(ordered[round(last * share)], 4)
        for name, share in (("min", 0.0), ("median", 0.5), ("p95", 0.95), ("max", 1.0))
    }
