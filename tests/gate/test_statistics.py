"""The e-process and the intervals against exact values."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from kernelsmith.numerics import statistics as st


@pytest.mark.parametrize(("k", "sessions"), [(1, 8), (10, 15), (100, 22), (1000, 29)])
def test_all_successes_need_the_sessions_of_the_rule(k: int, sessions: int) -> None:
    alpha = st.alpha_k(k)
    assert st.sessions_needed(alpha) == sessions
    assert not st.shown(sessions - 1, 0, alpha)


def test_nothing_seen_is_worth_one() -> None:
    assert st.e_value(0, 0) == 1


@pytest.mark.parametrize(("s", "f"), [(1, 0), (0, 1), (5, 2), (2, 5), (30, 11), (12, 12)])
def test_closed_form_is_the_integral(s: int, f: int) -> None:
    integral, _ = quad(lambda p: 2 * (2 * p) ** s * (2 * (1 - p)) ** f, 0.5, 1.0)
    assert float(st.e_value(s, f)) == pytest.approx(integral, rel=1e-9)
    n = s + f
    beta = math.gamma(s + 1) * math.gamma(f + 1) / math.gamma(n + 2)
    form = 2.0 ** (n + 1) * beta * binom.cdf(s, n + 1, 0.5)
    assert float(st.e_value(s, f)) == pytest.approx(form, rel=1e-12)


@pytest.mark.parametrize(("s", "f"), [(0, 0), (3, 1), (7, 9)])
def test_e_process_is_a_martingale_at_one_half(s: int, f: int) -> None:
    after = (st.e_value(s + 1, f) + st.e_value(s, f + 1)) / 2
    assert after == st.e_value(s, f)


def test_false_accepts_of_a_night_stay_below_the_allowance() -> None:
    """Every path of 60 fair sessions, exactly: the chance to ever reach 1/alpha."""
    alpha = st.alpha_k(1)
    alive = {0: Fraction(1)}
    crossed = Fraction(0)
    for n in range(1, 61):
        after: dict[int, Fraction] = {}
        for s, chance in alive.items():
            for won in (s, s + 1):
                after[won] = after.get(won, Fraction(0)) + chance / 2
        crossed += sum((c for s, c in after.items() if st.shown(s, n - s, alpha)), Fraction(0))
        alive = {s: c for s, c in after.items() if not st.shown(s, n - s, alpha)}
    assert 0 < crossed <= Fraction(alpha)


def test_allowances_of_all_candidates_sum_to_the_night() -> None:
    assert sum(st.alpha_k(k) for k in range(1, 200_000)) == pytest.approx(0.05, rel=1e-5)


def test_order_statistics_cover_the_median() -> None:
    low, high = st.median_interval([float(v) for v in range(20)])
    assert (low, high) == (4.0, 15.0)  # 1 - 2 P(Bin(20, 1/2) <= 4) = 0.988; one further in: 0.959
    assert st.median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)
    with pytest.raises(ValueError, match="5 values"):
        st.median_interval([1.0, 2.0, 3.0, 4.0, 5.0])


def test_median_interval_holds_its_coverage() -> None:
    rng = np.random.default_rng(5)
    draws = rng.standard_cauchy((4000, 9))
    held = sum(1 for row in draws if (b := st.median_interval(row.tolist()))[0] <= 0 <= b[1])
    assert held / 4000 >= 0.955


def test_clopper_pearson_known_values() -> None:
    assert st.clopper_pearson(0, 60)[1] == pytest.approx(0.0596295, abs=1e-6)
    assert st.clopper_pearson(0, 60)[0] == 0.0
    low, high = st.clopper_pearson(3, 20)
    assert (low, high) == (pytest.approx(0.0320709, abs=1e-6), pytest.approx(0.3789268, abs=1e-6))
    assert st.clopper_pearson(20, 20)[1] == 1.0


def test_session_gain_is_the_weighted_mean_and_never_invented() -> None:
    assert st.session_gain({"a": 0.1, "b": 0.4}, {"a": 3.0, "b": 1.0}) == pytest.approx(0.175)
    with pytest.raises(ValueError, match="no score for"):
        st.session_gain({"a": 0.1}, {"a": 1.0, "b": 1.0})


def test_median_of_even_and_odd_counts() -> None:
    assert st.median([3.0, 1.0, 2.0]) == 2.0
    assert st.median([4.0, 1.0, 2.0, 3.0]) == 2.5
