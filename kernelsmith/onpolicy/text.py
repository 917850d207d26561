"""An audit in words: lines for a terminal. ≈ 1 is never printed as 1."""

import math

from kernelsmith.onpolicy.audit import Audit, Verdict
from kernelsmith.onpolicy.distribution import bars
from kernelsmith.onpolicy.evidence import FirstDifference
from kernelsmith.onpolicy.hints import hints
from kernelsmith.onpolicy.metrics import Figures, exp_less_one
from kernelsmith.onpolicy.model import Layer
from kernelsmith.onpolicy.report import line_of

_TURNS = 12
_CLOSE = 1e-3


def headline(found: Audit) -> str:
    """The verdict in one line."""
    if found.verdict == "on-policy":
        tokens = f"{found.figures.tokens:,}"
        return f"on-policy: {tokens} of {tokens} ratios are exactly 1"
    return verdict_line(found.verdict, found.broken_layer)


def verdict_line(verdict: Verdict, broken_layer: Layer | None) -> str:
    """The verdict and what broke."""
    if verdict == "on-policy":
        return "on-policy: every layer that was looked at is equal"
    if verdict == "undecidable":
        return "undecidable: no difference was seen, and not everything was seen"
    if broken_layer is None:
        return "off-policy: the sides name different weights, so no layer can be blamed"
    return f"off-policy: the {broken_layer} layer is broken"


def of_runs(rows: list[str], name: str) -> list[str]:
    """Lines of a comparison of two runs, ``A beside B``, with the runs' names for the sides'."""
    ours, _, theirs = name.partition(" beside ")
    for side, run in (("sampler", f"run {ours}"), ("trainer", f"run {theirs}")):
        rows = [row.replace(f"the {side}", run).replace(f"({side})", f"({run})") for row in rows]
    return rows


def lines(found: Audit) -> list[str]:
    """What stands below the headline."""
    figures = found.figures
    rows = [f"  {layer:<8} {status}" for layer, status in found.layers]
    if figures.tokens:
        rows += ["", *ratio_lines(figures)]
        if found.evidence.first is not None:
            rows.append(f"first      {first_line(found.evidence.first)}")
        if figures.not_one:
            rows += ["", *mismatch_lines(figures), "", *_by_turn(figures)]
            rows += ["", *bars(found.bins)]
    if found.unseen:
        rows += ["", f"{found.unseen:,} trained tokens were not compared (see the faults)"]
    if found.faults:
        rows += ["", "faults", *(f"  {line_of(fault)}" for fault in found.faults)]
    told = hints(found)
    if told:
        rows += ["", "where it may come from (each with its evidence; none is a verdict)"]
        for hint in told:
            rows += [
                f"  {hint.explanation}",
                f"      evidence: {hint.evidence}",
                f"      look at: {hint.look_at}",
            ]
    return rows


def ratio_lines(figures: Figures) -> list[str]:
    """How many ratios are 1, and where the others lie."""
    equal = figures.tokens - figures.not_one
    rows = [f"ratio      {equal:,} of {figures.tokens:,} tokens are exactly 1"]
    if not figures.not_one:
        return rows
    rows[0] += f", {figures.not_one:,} are not"
    if figures.zero_signs:
        rows.append(f"           {figures.zero_signs:,} of these only in the sign of a zero")
    if figures.infinite:
        rows.append(f"           {figures.infinite:,} of these 0 or infinite, in no mean below")
    rows.append(
        f"           mean {near_one(figures.ratio_mean_less_one)}; "
        f"min {_ratio(figures.log_ratio_min)}; max {_ratio(figures.log_ratio_max)}"
    )
    return rows


def near_one(less_one: float | None) -> str:
    """A mean ratio, given as its distance from 1. Never ``1`` for what is not."""
    if less_one is None:
        return "–"
    if less_one == 0.0:
        return "1 (as a mean; not each is)"
    shown = f"{1.0 + less_one:.12g}"
    if shown == "1":
        shown = f"1 {'+' if less_one > 0 else '−'} {abs(less_one):.3g}"
    return f"{shown} (close, not equal)" if abs(less_one) < _CLOSE else shown


def _ratio(log_ratio: float | None) -> str:
    if log_ratio == 0.0:
        return "1"
    return near_one(None if log_ratio is None else exp_less_one(log_ratio))


def first_line(first: FirstDifference) -> str:
    """The first difference, with bits, values, distance and place."""
    place = first.place
    both = f"; {place.sampler_place} beside {place.trainer_place}"
    records = both if place.sampler_place or place.trainer_place else ""
    ulps = "" if first.ulps is None else f", {first.ulps:,} ulp of {first.ulp_dtype}"
    return (
        f"token {place.index} (sequence {place.sequence}, turn {place.turn}, token {place.token}"
        f"{records}): {first.sampler_bits} beside "
        f"{first.trainer_bits}, {first.sampler!r} beside {first.trainer!r}{ulps}"
    )


def mismatch_lines(figures: Figures) -> list[str]:
    """The figures that frameworks log, by their usual names."""
    return [
        f"mismatch   KL k1 {_plain(figures.k1)}, k3 {_plain(figures.k3)}; "
        f"χ² token {_plain(figures.chi2_token)}, sequence {_plain(figures.chi2_seq)}",
        f"           ppl ratio {near_one(_less_one(figures.ppl_ratio))}, log ppl diff "
        f"{_plain(figures.log_ppl_diff)}",
        f"log-probs  diff mean {_plain(figures.diff_mean)}, |diff| mean "
        f"{_plain(figures.abs_diff)}, max {_plain(figures.diff_max)}",
        f"           {_share(figures.share_different)} of the tokens differ, "
        f"{_share(figures.share_over_1e6)} by more than 1e-6",
    ]


def _less_one(value: float | None) -> float | None:
    return None if value is None else value - 1.0


def _by_turn(figures: Figures) -> list[str]:
    shown = figures.by_turn
    rows = ["by turn    tokens, ratios that are not 1, mean and largest |log ratio|"]
    first = next((i for i, turn in enumerate(shown) if turn.not_one), 0)
    start = max(0, min(first - 1, len(shown) - _TURNS))
    for turn in shown[start : start + _TURNS]:
        rows.append(
            f"  turn {turn.turn:<4} {turn.tokens:>12,} {turn.not_one:>12,}   "
            f"{_plain(turn.mean_log_ratio)}, {_plain(turn.max_abs_log_ratio)}"
        )
    left = len(shown) - min(len(shown), _TURNS)
    return [*rows, f"  … and {left:,} more turns (--json has all)"] if left else rows


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}" if math.isfinite(value) else f"{value}"


def _share(value: float | None) -> str:
    if value is None:
        return "–"
    shown = f"{100 * value:.3g} %"
    return f"< 100 % ({shown})" if shown == "100 %" and value < 1 else shown
