"""Figures against computations of their own: plain float64 sums, and the published formulas."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsmith.onpolicy.audit import audit
from kernelsmith.onpolicy.metrics import Figures, k3_terms
from tests.onpolicy.building import held, turn

Pairs = list[tuple[float, float, bool]]


def figures(sequences: Sequence[Pairs], dtype: str = "float32") -> Figures:
    """The figures of sequences of (sampler, trainer, trained on)."""
    sides = [
        held(
            *(
                turn(
                    [pair[side] for pair in pairs],
                    dtype=dtype,
                    sequence=str(number),
                    mask=[pair[2] for pair in pairs],
                )
                for number, pairs in enumerate(sequences)
            )
        )
        for side in (0, 1)
    ]
    return audit(*sides).figures


def same_bits(s: float, t: float) -> bool:
    return s == t and math.copysign(1.0, s) == math.copysign(1.0, t)


def expected(sequences: Sequence[Pairs], dtype: str = "float32") -> dict[str, float]:
    """The same by the book: no streaming, exact sums of math.fsum, formulas written out."""
    kept = [
        [
            (float(np.dtype(dtype).type(s)), float(np.dtype(dtype).type(t)))
            for s, t, on in pairs
            if on
        ]
        for pairs in sequences
    ]
    kept = [pairs for pairs in kept if pairs]
    tokens = [pair for pairs in kept for pair in pairs]
    n, q = len(tokens), len(kept)
    ratio = [math.exp(t - s) for s, t in tokens]

    def mean(terms: list[float]) -> float:
        return math.fsum(terms) / len(terms)

    mean_s = [mean([s for s, _ in pairs]) for pairs in kept]
    mean_t = [mean([t for _, t in pairs]) for pairs in kept]
    sums = [math.fsum(t - s for s, t in pairs) for pairs in kept]
    clip = [min(20.0, max(-20.0, one)) for one in sums]
    return {
        "tokens": n,
        "sequences": q,
        "not_one": sum(not same_bits(s, t) for s, t in tokens),
        "ratio_mean": mean(ratio),
        "ratio_min": min(ratio),
        "ratio_max": max(ratio),
        "k1": mean([s - t for s, t in tokens]),
        "k3": mean([r - (t - s) - 1.0 for r, (s, t) in zip(ratio, tokens, strict=True)]),
        "chi2_token": mean([math.exp(2.0 * min(20.0, max(-20.0, t - s))) for s, t in tokens]) - 1.0,
        "chi2_seq": mean([math.exp(2.0 * one) for one in clip]) - 1.0,
        "sampler_ppl": mean([math.exp(-one) for one in mean_s]),
        "trainer_ppl": mean([math.exp(-one) for one in mean_t]),
        "ppl_ratio": mean([math.exp(a - b) for a, b in zip(mean_s, mean_t, strict=True)]),
        "log_ppl_diff": mean([a - b for a, b in zip(mean_s, mean_t, strict=True)]),
        "log_ppl_abs_diff": mean([abs(a - b) for a, b in zip(mean_s, mean_t, strict=True)]),
        "diff_mean": mean([t - s for s, t in tokens]),
        "diff_max": max(abs(t - s) for s, t in tokens),
        "abs_diff": mean([abs(t - s) for s, t in tokens]),
        "abs_diff_by_sequence": mean([mean([abs(t - s) for s, t in pairs]) for pairs in kept]),
        "share_different": sum(not same_bits(s, t) for s, t in tokens) / n,
        "share_over_1e6": sum(abs(t - s) > 1e-6 for s, t in tokens) / n,
    }


def same(found: Figures, wanted: dict[str, float]) -> None:
    for name, value in wanted.items():
        # Terms of size 1 and above are subtracted in the book's k3 and χ²: their rounding is there.
        size = max(1.0, wanted["ratio_max"] ** 2) if name in ("k3", "chi2_token") else 1.0
        assert getattr(found, name) == pytest.approx(value, rel=1e-11, abs=1e-13 * size), name


LOGPROB = st.floats(-30.0, 0.0, width=32)
DRIFT = st.one_of(st.just(0.0), st.floats(-1e-5, 1e-5), st.floats(-0.5, 0.5), st.floats(-6.0, 6.0))
TOKEN = st.tuples(LOGPROB, DRIFT, st.booleans()).map(lambda t: (t[0], t[0] + t[1], t[2]))


@settings(max_examples=60, deadline=None)
@given(
    sequences=st.lists(st.lists(TOKEN, min_size=1, max_size=12), min_size=1, max_size=5),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_figures_are_those_of_an_independent_computation(
    sequences: list[Pairs], dtype: str
) -> None:
    if not any(on for pairs in sequences for *_, on in pairs):
        sequences[0][0] = (*sequences[0][0][:2], True)
    same(figures(sequences, dtype), expected(sequences, dtype))


SMALL = st.floats(-1e-2, 1e-2).filter(lambda d: d == 0 or abs(d) > 1e-150)


@settings(max_examples=60, deadline=None)
@given(d=st.lists(SMALL, min_size=1, max_size=20))
def test_k3_keeps_its_digits_where_the_difference_is_small(d: list[float]) -> None:
    import mpmath

    mpmath.mp.prec = 2400
    for value, found in zip(d, k3_terms(np.array(d)), strict=True):
        exact = mpmath.exp(mpmath.mpf(value)) - mpmath.mpf(value) - 1
        assert float(found) == pytest.approx(float(exact), rel=1e-11, abs=0.0)


def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rollout and training log-probs and a mask, [4, 9], as a batch of verl has them."""
    generator = torch.Generator().manual_seed(3)
    rollout = -torch.rand(4, 9, generator=generator) * 3.0
    training = rollout + 0.05 * torch.randn(4, 9, generator=generator)
    mask = torch.ones(4, 9)
    mask[1, 5:] = 0
    mask[2, :3] = 0
    return rollout, training, mask


def of_batch(rollout: torch.Tensor, training: torch.Tensor, mask: torch.Tensor) -> Figures:
    rows = [
        [
            (float(s), float(t), bool(on))
            for s, t, on in zip(rollout[i], training[i], mask[i], strict=True)
        ]
        for i in range(len(mask))
    ]
    return figures(rows)


def masked(values: torch.Tensor, mask: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    total = (values * mask).sum() if axis is None else (values * mask).sum(axis)
    return total / (mask.sum() if axis is None else mask.sum(axis))


def test_a_worked_example_by_verls_published_formulas() -> None:
    """``docs/algo/rollout_corr_math.md``, "Off-policy metrics", in verl's own float32."""
    rollout, training, mask = drawn()
    ratio = training - rollout
    mean_training, mean_rollout = masked(training, mask, -1), masked(rollout, mask, -1)
    published: dict[str, Any] = {
        "trainer_ppl": torch.exp(-mean_training).mean(),
        "sampler_ppl": torch.exp(-mean_rollout).mean(),
        "k1": masked(rollout - training, mask),
        "k3": masked(torch.exp(ratio) - ratio - 1, mask),
        "log_ppl_diff": (mean_rollout - mean_training).mean(),
        "log_ppl_abs_diff": (mean_rollout - mean_training).abs().mean(),
        "ppl_ratio": torch.exp(mean_rollout - mean_training).mean(),
        "chi2_token": masked(torch.exp(ratio.clamp(-20, 20)).square(), mask) - 1,
        "chi2_seq": torch.exp(2 * (ratio * mask).sum(-1).clamp(-20, 20)).mean() - 1,
    }
    found = of_batch(rollout, training, mask)
    for name, value in published.items():
        assert getattr(found, name) == pytest.approx(float(value), rel=2e-5, abs=2e-6), name


def test_a_worked_example_by_prime_rls_torchtitans_and_slimes_formulas() -> None:
    rollout, training, mask = drawn()
    on = mask.bool()
    ratio = training - rollout
    found = of_batch(rollout, training, mask)
    prime = (torch.exp(ratio) - ratio - 1)[on].mean()
    assert found.k3 == pytest.approx(float(prime), rel=2e-5, abs=2e-6)
    titan = ratio[on]
    assert found.diff_mean == pytest.approx(float(titan.mean()), rel=2e-5)
    assert found.diff_max == pytest.approx(float(titan.abs().max()), rel=1e-6)
    assert found.share_over_1e6 == float((titan.abs() > 1e-6).float().mean())
    slime = torch.stack([row[keep].abs().mean() for row, keep in zip(ratio, on, strict=True)])
    assert found.abs_diff_by_sequence == pytest.approx(float(slime.mean()), rel=2e-5)


def test_a_worked_example_by_hand() -> None:
    """Two tokens: ratios 2 and 1/2. k1 = 0, k3 = (2 + ½)/2 − 1, χ² = (4 + ¼)/2 − 1."""
    ln2 = math.log(2.0)
    found = figures([[(-1.0, -1.0 + ln2, True), (-1.0, -1.0 - ln2, True)]], "float64")
    assert found.ratio_mean == pytest.approx(1.25)
    assert found.k1 == pytest.approx(0.0, abs=1e-16)
    assert found.k3 == pytest.approx(0.25)
    assert found.chi2_token == pytest.approx(1.125)
    assert found.chi2_seq == pytest.approx(0.0, abs=1e-15)
    assert found.ppl_ratio == pytest.approx(1.0)


def test_a_ratio_beyond_float64_is_infinite_and_never_nan() -> None:
    found = figures([[(-1000.0, -1.0, True), (-1.0, -1.0, True), (-1000.0, -1.0, True)]])
    assert found.ratio_mean == found.ratio_max == found.k3 == math.inf
    assert found.ratio_min == 1.0
    assert found.k1 == pytest.approx(-666.0)
    assert math.isfinite(found.chi2_token or math.nan), "verl's clamp"


def test_figures_do_not_depend_on_where_a_sequence_is_cut_into_turns() -> None:
    rng = np.random.default_rng(1)
    s = -rng.exponential(1.0, 300).astype(np.float32)
    t = s + rng.normal(0.0, 1e-3, 300).astype(np.float32)
    whole = audit(held(turn(s)), held(turn(t)))
    bounds = [0, 7, 8, 120, 300]
    pieces = [
        held(
            *(
                turn(v[a:b], index=i, tokens=np.arange(a, b))
                for i, (a, b) in enumerate(pairwise(bounds))
            )
        )
        for v in (s, t)
    ]
    for other in (audit(*pieces), audit(pieces[0], held(turn(t))), audit(held(turn(s)), pieces[1])):
        assert other.figures.sequences == 1
        for name in ("tokens", "not_one", "k1", "k3", "chi2_seq", "ppl_ratio", "ratio_max"):
            assert getattr(other.figures, name) == pytest.approx(
                getattr(whole.figures, name), rel=1e-12
            ), name
    by_turn = audit(*pieces).figures.by_turn
    assert [one.tokens for one in by_turn] == [7, 1, 112, 180]
    assert sum(one.not_one for one in by_turn) == whole.figures.not_one
