"""The latency rule on sessions that are drawn, not timed."""

import math

import numpy as np
import pytest

from kernelsmith.gate.latency_rule import LatencyRule, latency_rule
from kernelsmith.numerics.statistics import alpha_k, clopper_pearson


def play(rule: LatencyRule, draw: np.random.Generator, gain: float, case_gain: float) -> bool:
    """Sessions of SD 0.6 % until the rule is won, lost or has had 60."""
    for _ in range(60):
        overall = math.log(gain) + draw.normal(0, 0.006)
        rule.see(overall, overall, {"case": math.log(case_gain) + draw.normal(0, 0.006)})
        if not rule.open:
            return True
        if rule.lost(8):
            return False
    return False


def fresh() -> LatencyRule:
    return latency_rule(["case"], min_gain=0.01, max_regress=0.03, alpha=alpha_k(1))


@pytest.mark.parametrize(
    ("gain", "case_gain", "least", "most"),
    [
        (1.05, 1.05, 0.999, 1.0),
        (1.03, 1.0, 0.99, 1.0),
        (1.00, 1.0, 0.0, 0.0),
        (1.01, 1.0, 0.0, 0.031),  # the edge of the null: at most alpha
        (1.05, 0.95, 0.0, 0.0),  # one case 5 % slower
        (1.05, 1 / 1.03, 0.0, 0.031),  # one case at the edge of what is allowed
    ],
)
def test_power_and_error(gain: float, case_gain: float, least: float, most: float) -> None:
    draw = np.random.default_rng(11)
    trials = 400
    won = sum(play(fresh(), draw, gain, case_gain) for _ in range(trials))
    low, high = clopper_pearson(won, trials, 0.99)
    assert high >= least
    assert low <= most


def test_a_won_process_stays_won() -> None:
    rule = fresh()
    for _ in range(8):
        rule.see(0.05, 0.05, {"case": 0.05})
    assert not rule.open
    for _ in range(20):
        rule.see(-0.05, 0.05, {"case": 0.05})
    assert not rule.open
    assert rule.overall[0].shown_after == 8


def test_a_tie_with_the_threshold_is_a_failure() -> None:
    rule = fresh()
    rule.see(math.log1p(0.01), math.log1p(0.01), {"case": -math.log1p(0.03)})
    assert [p.failures for p in (*rule.overall, *rule.cases)] == [1, 1, 1]


def test_gives_up_when_failures_lead_by_eight() -> None:
    rule = fresh()
    for _ in range(7):
        rule.see(0.0, 0.05, {"case": 0.0})
    assert not rule.lost(8)
    rule.see(0.0, 0.05, {"case": 0.0})
    assert [p.name for p in rule.lost(8)] == ["warm"]


def test_gain_is_medians_over_sessions_with_equal_cases_at_one() -> None:
    rule = fresh()
    for value in (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07):
        rule.see(value, value, {"case": value / 2})
    gain = rule.gain(same=["same"], paths={"same": "infer", "case": "train"}, against="seed")
    assert gain.geomean == pytest.approx(math.exp(0.04))
    assert (gain.low, gain.high) == (pytest.approx(math.exp(0.01)), pytest.approx(math.exp(0.07)))
    assert [(c.case, c.path) for c in gain.cases] == [("same", "infer"), ("case", "train")]
    assert gain.cases[0].gain == 1.0
    assert gain.cases[1].gain == pytest.approx(math.exp(0.02))
