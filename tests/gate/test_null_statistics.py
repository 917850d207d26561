"""The arithmetic behind docs/statistics.md: exact chances, resampled trials, what is recomputed."""

import importlib
import itertools
import json
import math
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from kernelsmith.gate.latency_rule import latency_rule
from kernelsmith.numerics import statistics as st

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RULE = {"min_gain": 0.01, "max_regress": 0.03, "alpha": st.alpha_k(1)}


@pytest.fixture(scope="module")
def null() -> Iterator[Any]:
    """The benchmark's modules by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        names = ("exact", "resample", "night", "report", "spread", "store", "sessions", "load")
        yield type("Null", (), {name: importlib.import_module(f"null_{name}") for name in names})


# ------------------------------------------------------------------------------------------ exact


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(3, 4)])
def test_the_walk_is_what_all_paths_sum_to(null: Any, p: Fraction) -> None:
    """Every sequence of 12 sessions, one by one, by the gate's own stops."""
    alpha = st.alpha_k(1)
    won = Fraction(0)
    for path in itertools.product((0, 1), repeat=12):
        s = f = 0
        for success in path:
            s, f = s + success, f + 1 - success
            if st.shown(s, f, alpha):
                won += p ** sum(path) * (1 - p) ** (12 - sum(path))
                break
            if f - s >= 8:
                break
    assert null.exact.walk(p, alpha, sessions_max=12).accepted == won > 0


@pytest.mark.parametrize("k", [1, 10, 1000])
def test_at_the_edge_of_the_null_the_chance_is_below_alpha_and_the_bet_is_fair(
    null: Any, k: int
) -> None:
    alpha = st.alpha_k(k)
    stopped = null.exact.walk(Fraction(1, 2), alpha)
    assert 0 < stopped.accepted < Fraction(alpha)
    assert stopped.stopped_value == 1  # exactly: optional stopping of a martingale
    endless = null.exact.walk(Fraction(1, 2), alpha, lead=None)
    assert stopped.accepted <= endless.accepted < Fraction(alpha)


def test_the_chance_grows_with_that_of_a_session(null: Any) -> None:
    alpha = st.alpha_k(1)
    grid = np.linspace(0, 1, 21)
    found = null.exact.accept_chances(grid, alpha)
    assert (np.diff(found) >= 0).all()
    assert (found[0], found[-1]) == (0.0, 1.0)
    assert (found[:11] <= alpha).all()  # p <= 1/2: the null
    for p, chance in zip(grid[8::4], found[8::4], strict=True):
        assert float(null.exact.walk(float(p), alpha).accepted) == pytest.approx(chance, rel=1e-9)


def test_needed_agrees_with_the_rule_and_with_scipy(null: Any) -> None:
    for k in (1, 50):
        alpha = st.alpha_k(k)
        for n, least in enumerate(null.exact.needed(alpha), 1):
            for s in range(max(0, least - 1), min(n, least) + 1):
                log_beta = math.lgamma(s + 1) + math.lgamma(n - s + 1) - math.lgamma(n + 2)
                value = 2.0 ** (n + 1) * math.exp(log_beta) * binom.cdf(s, n + 1, 0.5)
                assert (value >= 1 / alpha) == (s >= least)


def test_an_offset_that_all_sessions_share_breaks_the_bound(null: Any) -> None:
    """What the page says of dependent sessions: without one the bound holds, with one it need
    not."""
    alpha = st.alpha_k(1)
    found = [null.exact.shared_offset(ratio, alpha) for ratio in (0.0, 0.25, 1.0)]
    assert found[0] < alpha < found[1] < found[2] < 0.5


# -------------------------------------------------------------------------------------- resampled


def test_the_sweep_decides_what_the_gates_rule_decides(null: Any) -> None:
    rng = np.random.default_rng(3)
    gains = rng.normal(0.012, 0.01, (200, 60, 4))
    found = null.resample.decide(null.resample.above(gains, RULE), RULE["alpha"])
    for trial in range(200):
        rule = latency_rule(["a", "b"], **RULE)
        for number in range(60):
            warm, cold, a, b = gains[trial, number].tolist()
            rule.see(warm, cold, {"a": a, "b": b})
            if not rule.open or rule.lost(8):
                break
        assert found.accepted[trial] == (not rule.open)
        assert found.sessions[trial] == len(rule.warm_gains)
        names = [p.name for p in (*rule.overall, *rule.cases)]
        still = {p.name for p in rule.open}
        assert found.open[trial].tolist() == [name in still for name in names]
    assert 0 < found.accepted.sum() < 200


def made_trial(number: int, *, gain: float = 0.0, planted: float = 0.0, **more: Any) -> Any:
    rng = random.Random(number)
    sessions = []
    for _ in range(8):
        a, b = (round(gain + rng.gauss(0, 0.004), 6) for _ in range(2))
        sessions.append([(a + b) / 2, gain + rng.gauss(0, 0.005), a, b, 1.0, 0.99, 2])
    return {
        "trial": number,
        "task": ("linear", "rms_norm")[number % 2],
        "a": "v1",
        "b": f"v{2 + number % 3}",
        "form": "confirm",
        "planted_percent": planted,
        "condition": "quiet",
        "at": f"2026-11-30T00:{number % 60:02d}:00+00:00",
        "status": "NOT_FASTER",
        "seconds": 9.0,
        "cases": ["one", "two"],
        "sessions": sessions,
        "code": "c",
        **more,
    }


def test_blocks_are_sessions_that_followed_each_other(null: Any) -> None:
    trials = [made_trial(n) for n in range(12)]
    for trial in trials:
        for at, session in enumerate(trial["sessions"]):
            session[0] = 1000.0 * trial["trial"] + at
    rows = null.resample.drawn(trials, 10, np.random.default_rng(0))
    assert rows.shape == (10, 60, 4)
    order = [1000.0 * n + at for n in range(0, 12, 2) for at in range(8)]  # of one task, in time
    for row in rows[::2, :, 0].tolist():
        for first, second in itertools.pairwise(row[: null.resample.BLOCK]):
            assert second == order[(order.index(first) + 1) % len(order)]


def test_centred_sessions_lie_around_nothing(null: Any) -> None:
    still = null.resample.centred([made_trial(n, gain=0.003) for n in range(10)])
    for task in ("linear", "rms_norm"):
        own = null.resample.gains_of([trial for trial in still if trial["task"] == task])
        assert np.abs(np.median(own, axis=0)).max() < 1e-12


# --------------------------------------------------------------------------- nights and compounding


def test_a_night_at_the_edge_keeps_its_five_percent_only_with_alpha_k(null: Any) -> None:
    row = null.night.exact_nights([1.0], 0.5, candidates=100)[0]
    assert row["alpha_k"] < 0.05
    assert row["flat"] > 0.9


def test_ancestors_at_the_edge_are_held_by_one_allowance(null: Any) -> None:
    found = null.night.ancestors_at_the_edge()
    assert found["shared"] < 0.05 < found["each"]


def test_twenty_accepts_that_cost_a_case_are_undone_to_where_it_is_allowed(null: Any) -> None:
    found = null.night.compounding(1.0, 0.5)
    assert found["case_without_retiming"] == pytest.approx(1.01**-20)
    assert found["cleared_in_one_confirm"] > 0.99
    assert found["case_with_retiming_mean"] > 1 / 1.03
    assert found["slower_than_allowed_stands"] < 0.05
    assert sum(null.night._stands(-0.01, 0.5).values()) == pytest.approx(1.0)


# ------------------------------------------------------------------------------ what is on record


def test_a_report_counts_real_trials_apart_from_drawn_ones(null: Any) -> None:
    trials = [made_trial(n) for n in range(20)]
    trials += [
        made_trial(30 + n, gain=0.05, planted=5.0, status="ACCEPTED", task="rms_norm")
        for n in range(3)
    ]
    facts = {"machine": "m", "device": {}, "sandbox": "s", "variants": 5, "rule": RULE}
    broken = {"trial": 99, "broken": "the template died"}
    found = null.report.report(null.store.document([*trials, broken], facts), resampled=60)
    assert (found["from"]["null_trials"], found["from"]["null_sessions"]) == (20, 160)
    assert found["from"]["broken_off"] == 1
    real = found["real"]
    assert (real["undone"], real["null"]["trials"], real["null"]["accepted"]) == (0, 20, 0)
    low, high = real["null"]["clopper_pearson_95"]
    assert (low, high) == (0.0, pytest.approx(0.1684, abs=1e-4))
    assert [(p["percent"], p["accepted"]) for p in real["planted"]] == [(5.0, 3)]
    assert real["planted"][0]["gain_percent_median"] == pytest.approx(5.1, abs=0.5)
    drawn = found["resampled"]["quiet"]
    assert (drawn["from_sessions"], drawn["null"]["1"]["trials"]) == (160, 60)
    assert drawn["power"]["5"]["1"]["accepted"] == 60


def test_a_trial_that_its_own_sessions_decide_otherwise_is_noticed(null: Any) -> None:
    assert null.report.replayed(made_trial(1, gain=0.05), RULE) == "ACCEPTED"
    trial = made_trial(1, status="ACCEPTED")
    assert null.report.real([trial], RULE)["undone"] == 1


def test_the_parts_of_a_spread_are_told_apart(null: Any) -> None:
    rng = np.random.default_rng(1)
    trials = []
    offsets = {name: rng.normal(0, 0.01) for name in ("v2", "v3", "v4")}
    for number in range(90):
        trial = made_trial(number, task="linear")
        shared = offsets[trial["b"]] + rng.normal(0, 0.004)
        for session in trial["sessions"]:
            session[0] = shared + rng.normal(0, 0.002)
        trials.append(trial)
    parts = null.spread.parts(trials)
    assert parts["own_sd"] == pytest.approx(0.2, abs=0.02)
    assert parts["trial_sd"] == pytest.approx(0.4, abs=0.08)
    spread = 100 * math.sqrt(sum(v * v for v in offsets.values()) / 3)
    assert parts["pair_sd"] == pytest.approx(spread, abs=0.1)
    assert abs(parts["next_correlation"]) < 0.1


def test_the_state_outlives_a_kill_in_the_middle_of_a_line(null: Any, tmp_path: Path) -> None:
    state = tmp_path / "build" / "state.jsonl"
    null.store.append(state, made_trial(0))
    with state.open("a") as lines:
        lines.write('{"trial": 1, "ta')
    null.store.append(state, made_trial(2))
    assert [trial["trial"] for trial in null.store.read_state(state)] == [0, 2]
    null.store.write(tmp_path / "d.json", {"trials": [made_trial(0)], "schema": "s"})
    assert json.loads((tmp_path / "d.json").read_text())["trials"][0] == made_trial(0)


def test_kinds_take_turns_by_their_share_of_sessions(null: Any) -> None:
    taken: dict[Any, int] = {}
    for _ in range(3000):
        kind = null.sessions.next_kind(taken, ("none", "load", "drift"))
        taken[kind] = taken.get(kind, 0) + 8
    assert sum(null.sessions.SHARES.values()) == pytest.approx(1.0)
    for kind, share in null.sessions.SHARES.items():
        assert taken[kind] / 24000 == pytest.approx(share, abs=0.005)
    only = {null.sessions.next_kind({}, ("none",), planted=False) for _ in range(3)}
    assert all(kind[1:] == (0.0, "none") for kind in only)


def test_drift_rises_and_falls_between_none_and_all(null: Any) -> None:
    period = null.load.DRIFT_PERIOD_S
    shares = [null.load.share(period * part) for part in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert shares == [0.0, 0.5, 1.0, 0.5, 0.0]


def test_the_committed_figures_are_those_of_the_committed_sessions(null: Any) -> None:
    """What no machine needs to be asked for: real trials, counted and played again."""
    sessions = json.loads(null.store.DOCUMENT.read_text())
    committed = json.loads(null.report.RESULT.read_text())
    found = json.loads(json.dumps(null.report.real(sessions["trials"], sessions["rule"])))
    assert found == committed["real"]
    assert found["undone"] == 0
    assert json.loads(json.dumps(null.spread.spread(sessions["trials"]))) == committed["spread"]
