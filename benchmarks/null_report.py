"""What the null sessions show of the latency rule: ``benchmarks/results/statistics.json``.

    python benchmarks/null_report.py [--sessions FILE] [--result FILE]

Reads the committed sessions (``null_sessions.json``) and times nothing: anyone can run it, and gets
the same document from the same sessions. Three kinds of figures, kept apart: *real* trials, decided
while their sessions were timed; *resampled* ones, whose sessions are drawn from the real ones;
*exact* ones, which are the rule's own arithmetic and need no session.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import null_night
import null_spread
import null_store
import numpy as np
from null_exact import GIVE_UP_LEAD, accept_chance, shared_offset, walk
from null_resample import OVERALL, Gains, Trial, above, centred, decide, drawn

from kernelsmith.gate.latency_rule import latency_rule
from kernelsmith.loop import RETIMING_SESSIONS
from kernelsmith.numerics import statistics

RESULT = null_store.ROOT / "benchmarks" / "results" / "statistics.json"
CONDITIONS = ("quiet", "shared", "load", "drift")
RESAMPLED = 4000
KS = (1, 10, 100, 1000)
GAINS_PERCENT = (1.5, 2.0, 5.0)
# Of a session in the computed tables, which take it as normal: about what a shared machine shows.
SD_PERCENT = 0.5
CHANCES = (0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
RATIOS = (0.0, 0.1, 0.25, 0.5, 1.0)


def report(sessions: dict[str, Any], *, resampled: int = RESAMPLED) -> dict[str, Any]:
    """What the sessions show: all of the document but :func:`exact` and the nights.

    Args:
        sessions: as ``null_sessions.json``.
        resampled: trials to draw, for each condition and each question.
    """
    trials, rule = sessions["trials"], sessions["rule"]
    return {
        "schema": "kernelsmith.statistics/1",
        "from": _origin(sessions),
        "rule": rule,
        "spread": null_spread.spread(trials),
        "real": real(trials, rule),
        "resampled": {
            condition: _resampled(chosen, rule, resampled)
            for condition, chosen in (("all", _null(trials)), *_null_by_condition(trials))
        },
    }


def _origin(sessions: dict[str, Any]) -> dict[str, Any]:
    times = sorted(trial["at"] for trial in sessions["trials"])
    kept = ("machine", "device", "sandbox", "variants", "timing_code", "broken_off", "counts")
    null = _null(sessions["trials"])
    return {
        **{name: sessions[name] for name in kept},
        "first_at": times[0],
        "last_at": times[-1],
        "null_trials": len(null),
        "null_sessions": sum(len(trial["sessions"]) for trial in null),
        "null_sessions_by_task": Counter(
            {
                task: sum(len(t["sessions"]) for t in null if t["task"] == task)
                for task in sorted({t["task"] for t in null})
            }
        ),
    }


def _null(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if not trial["planted_percent"]]


def _null_by_condition(trials: Sequence[Trial]) -> Iterator[tuple[str, list[Trial]]]:
    for condition in CONDITIONS:
        chosen = [trial for trial in _null(trials) if trial["condition"] == condition]
        if chosen:
            yield condition, chosen


# ------------------------------------------------------------------------------------ real trials


def real(trials: Sequence[Trial], rule: dict[str, float]) -> dict[str, Any]:
    """Trials as they were decided; ``undone``: those that the rule, played again on their recorded
    sessions, decides otherwise (none)."""
    confirms = [trial for trial in trials if trial["form"] == "confirm"]
    null = [trial for trial in confirms if not trial["planted_percent"]]
    retimed = [trial for trial in trials if trial["form"] == "retime"]
    planted = sorted({t["planted_percent"] for t in confirms} - {0.0})
    return {
        "undone": sum(replayed(trial, rule) != trial["status"] for trial in trials),
        "null": _counted(null, rule),
        "null_by_condition": {
            condition: _counted([t for t in null if t["condition"] == condition], rule)
            for condition, _ in _null_by_condition(null)
        },
        "null_by_task": {
            task: _counted([t for t in null if t["task"] == task], rule)
            for task in sorted({t["task"] for t in null})
        },
        "null_retimed": _counted(retimed, rule),
        "planted": [
            {"percent": percent, "condition": condition, **_counted(chosen, rule)}
            for percent in planted
            for condition in CONDITIONS
            if (
                chosen := [
                    t
                    for t in confirms
                    if t["planted_percent"] == percent and t["condition"] == condition
                ]
            )
        ],
    }


def replayed(trial: Trial, rule: dict[str, float]) -> str:
    """The status that the gate's own rule gives to a trial's recorded sessions."""
    played = latency_rule(
        trial["cases"],
        min_gain=rule["min_gain"],
        max_regress=rule["max_regress"],
        alpha=rule["alpha"],
    )
    for number, session in enumerate(trial["sessions"], 1):
        warm, cold, *rest = session
        played.see(warm, cold, dict(zip(trial["cases"], rest, strict=False)))
        goes_on = trial["form"] == "retime" and number < RETIMING_SESSIONS
        if not goes_on and (not played.open or played.lost(GIVE_UP_LEAD)):
            break
    if not played.open:
        return "ACCEPTED"
    overall = {process.name for process in played.overall}
    return "NOT_FASTER" if overall & {p.name for p in played.open} else "REGRESSES"


def _counted(trials: Sequence[Trial], rule: dict[str, float]) -> dict[str, Any]:
    if not trials:
        return {"trials": 0}
    lengths = sorted(len(trial["sessions"]) for trial in trials)
    gains = [session[0] for trial in trials for session in trial["sessions"]]
    accepted = [trial for trial in trials if trial["status"] == "ACCEPTED"]
    won = sorted(len(trial["sessions"]) for trial in accepted)
    return {
        **_rate(len(accepted), len(trials)),
        "statuses": Counter(trial["status"] for trial in trials),
        "warm_alone": sum(_won(trial, 0, rule) for trial in trials),
        "cold_alone": sum(_won(trial, 1, rule) for trial in trials),
        "sessions_total": sum(lengths),
        "sessions_median": statistics.median(lengths),
        "sessions_to_accept": _quantiles(won),
        "gain_percent_median": 100 * math.expm1(statistics.median(gains)),
        "seconds_a_session": round(sum(t["seconds"] for t in trials) / sum(lengths), 2),
    }


def _won(trial: Trial, column: int, rule: dict[str, float]) -> bool:
    gains = np.array([session[column] for session in trial["sessions"]])
    won = (gains > math.log1p(rule["min_gain"]))[None, :, None]
    return bool(decide(won, rule["alpha"]).accepted[0])


def _rate(events: int, trials: int) -> dict[str, Any]:
    low, high = statistics.clopper_pearson(events, trials)
    return {"trials": trials, "accepted": events, "clopper_pearson_95": [low, high]}


def _quantiles(ordered: Sequence[float]) -> dict[str, float]:
    if not len(ordered):
        return {}
    return {
        "median": statistics.median(list(ordered)),
        "p90": float(ordered[math.ceil(0.9 * len(ordered)) - 1]),
    }


# ------------------------------------------------------------------------------- resampled trials


def _resampled(trials: list[Trial], rule: dict[str, float], number: int) -> dict[str, Any]:
    """All questions that resampled trials of one condition answer. Each has draws of its own."""
    still = centred(trials)
    edge = math.log1p(rule["min_gain"])
    slower = -math.log1p(rule["max_regress"])

    def drawn_of(pool: list[Trial], seed: int) -> Gains:
        return drawn(pool, number, np.random.default_rng(seed))

    null = above(drawn_of(trials, 1), rule)
    at_edge = above(drawn_of(still, 2) + edge, rule)
    overall_alone = drawn_of(still, 3)
    overall_alone[..., :OVERALL] += math.log1p(0.05)
    one_slower = overall_alone.copy()
    one_slower[..., OVERALL] += slower
    cleared = decide(above(one_slower, rule), rule["alpha"])
    unchanged = decide(above(overall_alone, rule), rule["alpha"])
    return {
        "from_trials": len(trials),
        "from_sessions": sum(len(trial["sessions"]) for trial in trials),
        "null": {str(k): _drawn_rate(null, k) for k in KS},
        "edge": {str(k): _drawn_rate(at_edge, k) for k in KS},
        "edge_by_clock": {
            name: _drawn_rate(at_edge[..., [column]], 1)
            for column, name in ((0, "warm"), (1, "cold"))
        },
        "power": {
            f"{gain:g}": {
                str(k): _drawn_rate(above(drawn_of(still, 4) + math.log1p(gain / 100), rule), k)
                for k in (1, 10)
            }
            for gain in GAINS_PERCENT
        },
        "equal_cases_beside_a_gain": {
            **_rate(int(unchanged.accepted.sum()), number),
            "regresses": int(unchanged.regresses.sum()),
        },
        "case_slower_by_max_regress": {
            **_rate(int(cleared.accepted.sum()), number),
            "regresses": int(cleared.regresses.sum()),
        },
    }


def _drawn_rate(won: Any, k: int) -> dict[str, Any]:
    found = decide(won, statistics.alpha_k(k))
    lengths = np.sort(found.sessions[found.accepted])
    return {
        **_rate(int(found.accepted.sum()), len(found.accepted)),
        "sessions_to_accept": _quantiles(lengths.tolist()),
        "sessions_mean": round(float(found.sessions.mean()), 2),
    }


# ------------------------------------------------------------------------------------------ exact


def exact() -> dict[str, Any]:
    """The rule's own arithmetic; where it speaks of gains, sessions are normal."""
    alpha = statistics.alpha_k(1)
    return {
        "sd_percent": SD_PERCENT,
        "crossing": {
            str(k): {
                "alpha": statistics.alpha_k(k),
                "by_success_chance": {
                    f"{p:g}": _crossing(p, statistics.alpha_k(k)) for p in CHANCES
                },
            }
            for k in KS
        },
        "shared_offset": {f"{ratio:g}": shared_offset(ratio, alpha) for ratio in RATIOS},
        "nights": null_night.exact_nights([0.0, 0.5, 0.8, 0.9, 1.0], SD_PERCENT),
        "chain": {
            "alpha_k": null_night.chain(SD_PERCENT, spent=True),
            "flat": null_night.chain(SD_PERCENT, spent=False),
        },
        "compounding": [
            null_night.compounding(loss, SD_PERCENT) for loss in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
        ],
        "ancestors_at_the_edge": null_night.ancestors_at_the_edge(),
        "reported": [null_night.reported(gain, SD_PERCENT) for gain in (1.2, 1.5, 2.0, 5.0)],
        "skewed": {
            "what": "above min_gain in 6 of 10 sessions, 20 % slower in the rest",
            "mean_gain_percent": 100 * math.expm1(0.6 * math.log(1.02) + 0.4 * math.log(0.8)),
            "accepted": accept_chance(0.6, alpha),
        },
    }


def _crossing(p: float, alpha: float) -> dict[str, Any]:
    found = walk(p, alpha)
    return {
        "accepted": float(found.accepted),
        "median": found.sessions(0.5),
        "p90": found.sessions(0.9),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=Path, default=null_store.DOCUMENT)
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    sessions = json.loads(options.sessions.read_text())
    content = {**report(sessions), "exact": exact()}
    content["nights_drawn"] = [
        null_night.drawn_nights(trials, sessions["rule"], shift)
        for _, trials in list(_null_by_condition(sessions["trials"]))[:1]
        for shift, trials in ((0.0, trials), (1.0, centred(trials)))
    ]
    null_store.write(options.result, content)
    counts = content["real"]["null"]
    print(f"{counts['trials']} real null trials, accepted {counts['accepted']}; {options.result}")


if __name__ == "__main__":
    main()
