"""The tables of ``docs/statistics.md``, from ``benchmarks/results/statistics.json``."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import null_store

RESULT = null_store.ROOT / "benchmarks" / "results" / "statistics.json"
MEANT = {
    "quiet": "nothing else ran",
    "shared": "others were at work",
    "load": "load injected, coming and going",
    "drift": "load injected, rising and falling over minutes",
}


def _read() -> Any:
    return json.loads(RESULT.read_text())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def percent(share: float) -> str:
    """A share that is never rounded to nothing or all."""
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    if share < 1e-4:
        mantissa, exponent = f"{share:.0e}".split("e")
        return f"{mantissa}·10^{int(exponent)}"
    if share < 0.1:
        return f"{100 * share:.2f} %"
    return f"{min(100 * share, 99.9):.1f} %"


def rate(counts: Any) -> str:
    """Events of trials, with the exact 95 % interval."""
    if not counts["trials"]:
        return "none yet"
    low, high = counts["clopper_pearson_95"]
    return f"{counts['accepted']} of {counts['trials']} (95 %: {percent(low)} to {percent(high)})"


def sessions() -> str:
    """What was timed, where and when; how it scatters."""
    document = _read()
    origin = document["from"]
    codes = ", ".join(f"`{name}` {count} trials" for name, count in origin["timing_code"].items())
    text = (
        f"CPU sessions, {origin['first_at'][:16].replace('T', ' ')} to "
        f"{origin['last_at'][:16].replace('T', ' ')} UTC, on {origin['machine']} "
        f"({origin['device']['cpu']}, {origin['device']['level']}), sandbox "
        f"{origin['sandbox']}; {origin['null_sessions']:,} null sessions in "
        f"{origin['null_trials']} trials of {origin['variants']} variants a task; "
        f"{origin['broken_off']} trials broken off by the machine. Timing code: {codes}.\n\n"
    )
    counted = [
        [kind, str(counts["trials"]), f"{counts['sessions']:,}"]
        for kind, counts in origin["counts"].items()
    ]
    text += table(["trials", "trials", "sessions"], counted)
    meant = "; ".join(f"*{name}*: {MEANT[name]}" for name in MEANT)
    text += f"\n{meant}.\n\n"
    rows = []
    for condition in MEANT:
        for task, found in document["spread"].get(condition, {}).items():
            warm, cold = found["columns"]["overall warm"], found["columns"]["overall cold"]
            parts = found["parts"]
            rows.append(
                [
                    condition,
                    f"`{task}`",
                    str(found["sessions"]),
                    f"{warm['robust_sd']:.2f}, {warm['sd']:.2f}",
                    f"{cold['robust_sd']:.2f}, {cold['sd']:.2f}",
                    f"{warm['median']:+.2f}",
                    *(_number(parts[name]) for name in ("own_sd", "trial_sd", "pair_sd")),
                    _number(parts["next_correlation"]),
                ]
            )
    head = ["condition", "task", "sessions", "warm: robust SD, SD", "cold: robust SD, SD"]
    head += ["median", "a session's own SD", "a trial keeps", "a pair keeps", "next session"]
    return text + table(head, rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def errors() -> str:
    """False accepts: real, then resampled."""
    document = _read()
    real = document["real"]
    rows = [["all", rate(real["null"]), *_sides(real["null"])]]
    for kind in ("null_by_condition", "null_by_task"):
        rows += [[name, rate(found), *_sides(found)] for name, found in real[kind].items()]
    retimed = real["null_retimed"]
    rows.append(["as at a run's end, 20 sessions", rate(retimed), *_sides(retimed)])
    text = table(["real trials", "accepted", "warm alone, cold alone", "sessions"], rows)
    undone = real["undone"]
    text += (
        f"\nPlayed again by the gate's own rule on their recorded sessions, {undone} of all real "
        "trials come out otherwise.\n\n"
    )
    rows = []
    for condition, found in document["resampled"].items():
        pool = f"{condition} ({found['from_sessions']:,} sessions)"
        rows.append([f"{pool}: identical", *(rate(found["null"][k]) for k in found["null"])])
        rows.append([f"{pool}: at the edge", *(rate(found["edge"][k]) for k in found["edge"])])
    ks = next(iter(document["resampled"].values()), {"null": {}})["null"]
    text += table(["resampled trials", *(f"k = {k}" for k in ks)], rows)
    rows = [
        [
            condition,
            rate(found["edge_by_clock"]["warm"]),
            rate(found["edge_by_clock"]["cold"]),
            f"{found['equal_cases_beside_a_gain']['regresses']} of "
            f"{found['equal_cases_beside_a_gain']['trials']}",
            rate(found["case_slower_by_max_regress"]),
        ]
        for condition, found in document["resampled"].items()
    ]
    head = ["resampled, k = 1", "edge, warm process alone", "edge, cold process alone"]
    head += ["+5 %, equal cases: `REGRESSES`", "+5 %, a case slower by 3 %: accepted"]
    return text + "\n" + table(head, rows)


def _sides(found: Any) -> list[str]:
    if not found["trials"]:
        return ["–", "–"]
    return [f"{found['warm_alone']}, {found['cold_alone']}", f"{found['sessions_total']:,}"]


def power() -> str:
    """How often a true gain is shown, and in how many sessions."""
    document = _read()
    rows = [
        [
            f"+{found['percent']:g} %",
            found["condition"],
            f"{found['gain_percent_median']:+.2f} %",
            rate(found),
            _sessions(found["sessions_to_accept"]),
        ]
        for found in document["real"]["planted"]
    ]
    head = ["real: planted", "condition", "median measured", "accepted", "sessions: median, 90 %"]
    text = table(head, rows) + "\n"
    rows = []
    for condition, found in document["resampled"].items():
        for gain, by_k in found["power"].items():
            cells = [
                f"{rate(counts)}, {_sessions(counts['sessions_to_accept'])}"
                for counts in by_k.values()
            ]
            rows.append([f"+{gain} %", condition, *cells])
    ks = ["k = 1", "k = 10"]
    head = ["resampled: shifted", "condition", *(f"{k}: accepted, sessions" for k in ks)]
    return text + table(head, rows)


def _sessions(found: Any) -> str:
    return f"{found['median']:.0f}, {found['p90']:.0f}" if found else "–"


def exact() -> str:
    """The chance of one e-process to be won, by the chance of a session."""
    document = _read()["exact"]["crossing"]
    chances = next(iter(document.values()))["by_success_chance"]
    head = ["chance of a session"]
    head += [f"k = {k}, α = {percent(found['alpha'])}" for k, found in document.items()]
    rows = []
    for p in chances:
        cells = []
        for found in document.values():
            one = found["by_success_chance"][p]
            cells.append(f"{percent(one['accepted'])} ({one['median']}, {one['p90']})")
        rows.append([f"**{p}**" if p == "0.5" else p, *cells])
    return table(head, rows)


def night() -> str:
    """A night of 1,000 nulls, with alpha_k and with the same for all."""
    document = _read()
    exactly = document["exact"]
    rows = [
        [f"{one['true_gain_percent']:+.1f} %", percent(one["alpha_k"]), percent(one["flat"])]
        for one in exactly["nights"]
    ]
    head = ["true gain of all 1,000", "any false accept, α_k", "any false accept, 5 % each"]
    text = table(head, rows) + "\n"
    rows = []
    for drawn in document["nights_drawn"]:
        what = "identical" if drawn["shift_percent"] == 0 else "moved to the edge, +1 %"
        rows.append([f"drawn from real sessions, {what}", str(drawn["nights"]), *_nights(drawn)])
    chain = exactly["chain"]
    rows.append(
        [
            "normal, a false accept becomes the incumbent",
            str(chain["flat"]["nights"]),
            *_nights(chain),
        ]
    )
    head = ["simulated", "nights", "α_k: nights with any, accepts a night", "5 % each: the same"]
    return text + table(head, rows)


def _nights(found: Any) -> list[str]:
    cells = []
    for name in ("alpha_k", "flat"):
        low, high = found[name]["clopper_pearson_95"]
        cells.append(
            f"{found[name]['nights_with_any']} ({percent(low)} to {percent(high)}), "
            f"{found[name]['false_accepts_a_night']:.3g}"
        )
    return cells


def compounding() -> str:
    """What a case stands at after twenty accepts that each cost it a little."""
    document = _read()["exact"]
    rows = [
        [
            f"−{one['loss_each_percent']:g} %",
            percent(one["cleared_in_one_confirm"]),
            f"{one['case_without_retiming']:.3f}",
            f"{one['case_with_retiming_mean']:.3f}",
            str(one["accepts_that_stand"]),
            percent(one["slower_than_allowed_stands"]),
        ]
        for one in document["compounding"]
    ]
    head = ["a case loses, each time", "one confirm clears it", "after 20: case / seed, no timing"]
    head += ["with it, mean", "accepts that stand, most likely", "stands slower than allowed"]
    edge = document["ancestors_at_the_edge"]
    return table(head, rows) + (
        "\nTwenty ancestors, each with a case slower than the seed by exactly 3 %: that one of "
        f"them is passed has a chance of {percent(edge['shared'])}, as the timings share one "
        f"allowance; were each allowed what the first is, {percent(edge['each'])}.\n"
    )


def dependence() -> str:
    """What breaks the bound, and what a reported gain is worth."""
    document = _read()["exact"]
    rows = [[ratio, percent(found)] for ratio, found in document["shared_offset"].items()]
    head = ["shared offset's SD / a session's own", "false accept at the edge, k = 1"]
    text = table(head, rows) + "\n"
    rows = [
        [
            f"+{one['true_gain_percent']:g} %",
            percent(one["accepted"]),
            *(
                f"{one[form]['gain_percent_mean']:+.2f} %, {percent(one[form]['interval_holds'])}"
                for form in ("confirm", "retiming")
            ),
        ]
        for one in document["reported"]
    ]
    head = ["true gain", "accepted", "confirm: mean reported, interval holds"]
    text += table([*head, "at a run's end: the same"], rows)
    skewed = document["skewed"]
    return text + (
        f"\nA candidate {skewed['what']}, has a mean gain of "
        f"{skewed['mean_gain_percent']:.1f} % and a median above the threshold: it is accepted "
        f"with a chance of {percent(skewed['accepted'])} at k = 1, and that is no false accept by "
        "what is claimed.\n"
    )


BLOCKS = {
    "null-sessions": sessions,
    "null-errors": errors,
    "null-power": power,
    "null-exact": exact,
    "null-night": night,
    "null-compounding": compounding,
    "null-dependence": dependence,
}
