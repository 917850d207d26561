"""The three remedies against their published formulas, written again here in plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsmith.onpolicy import remedies
from kernelsmith.onpolicy.audit import audit
from kernelsmith.onpolicy.model import HeldDump, Turn
from kernelsmith.onpolicy.remedies import Remedies, Remedy, masked, truncated
from kernelsmith.onpolicy.storage import from_array


def dump(*turns: list[float], tokens: list[int] | None = None) -> HeldDump:
    ids = None if tokens is None else np.array(tokens)
    held = [
        Turn(sequence=str(number), tokens=ids, logprobs=from_array(np.array(values)))
        for number, values in enumerate(turns)
    ]
    return HeldDump(held=tuple(held))


def weighed(sampler: list[float], trainer: list[float]) -> dict[str, Remedy]:
    return {one.name: one for one in remedies.weighed(dump(sampler), dump(trainer))}


def test_tokens_are_those_that_the_audit_compares() -> None:
    """Behind an id that differs there is no ratio; several sequences add up."""
    sampler = dump([-1.0, -1.0, -1.0], [-1.0, -1.0, -1.0], tokens=[1, 2, 3])
    other = dump([-2.0, -2.0, -2.0], [-2.0, -2.0, -2.0], tokens=[1, 2, 4])
    found = remedies.weighed(sampler, other)
    assert {remedy.tokens for remedy in found} == {4} == {audit(sampler, other).figures.tokens}
    assert {remedy.not_one for remedy in found} == {audit(sampler, other).figures.not_one}


def test_what_follows_other_ids_is_not_weighed() -> None:
    turns = [
        tuple(
            Turn(
                sequence="a",
                index=index,
                tokens=np.array([first, 2][index : index + 1]),
                logprobs=from_array(np.array([-1.0 - index])),
            )
            for index in range(2)
        )
        for first in (1, 9)
    ]
    dumps = [HeldDump(held=held) for held in turns]
    assert {remedy.tokens for remedy in remedies.weighed(*dumps)} == {0}
    assert audit(*dumps).figures.tokens == 0


def test_records_of_one_name_are_sequences_of_their_own() -> None:
    """An id that differs in the first says nothing of the second: they are draws of one prompt."""
    dumps = [
        HeldDump(
            held=tuple(
                Turn(
                    sequence="p", tokens=np.array(ids), logprobs=from_array(np.array([-1.0, -1.0]))
                )
                for ids in ([first, 2], [1, 2])
            )
        )
        for first in (1, 9)
    ]
    assert audit(*dumps).figures.tokens == 2
    assert {remedy.tokens for remedy in remedies.weighed(*dumps)} == {2}


def test_a_worked_example() -> None:
    ratios = [1.0, 1.5, 4.0, 8.0, 0.25]
    found = weighed([-5.0] * 5, [-5.0 + math.log(ratio) for ratio in ratios])
    assert {remedy.not_one for remedy in found.values()} == {4}
    recompute, truncate, mask = found["recompute"], found["truncate"], found["mask"]
    assert recompute.clipped == 0
    assert recompute.sum_abs_weight_less_one == 0
    assert recompute.sum_abs_ratio_less_weight == pytest.approx(0.5 + 3 + 7 + 0.75)
    # min(r, 2): 1, 1.5, 2, 2, 0.25
    assert (truncate.clipped, truncate.clipped_fraction) == (2, 0.4)
    assert truncate.sum_abs_weight_less_one == pytest.approx(0.5 + 1 + 1 + 0.75)
    assert truncate.sum_abs_ratio_less_weight == pytest.approx(2 + 6)
    # r within [0.5, 5], else 0: 1, 1.5, 4, 0, 0
    assert mask.clipped == 2
    assert mask.sum_abs_weight_less_one == pytest.approx(0.5 + 3 + 1 + 1)
    assert mask.sum_abs_ratio_less_weight == pytest.approx(8 + 0.25)
    assert mask.effective == pytest.approx(6.5**2 / (5 * (1 + 2.25 + 16)))


def test_thresholds_are_within_and_an_impossible_token_leaves_numbers() -> None:
    assert masked(np.array([0.5, 5.0, 0.4999, 5.0001])).tolist() == [0.5, 5.0, 0.0, 0.0]
    assert truncated(np.array([2.0, 2.0001, 0.1])).tolist() == [2.0, 2.0, 0.1]
    found = weighed([-math.inf, -1.0], [-1.0, -1.0])
    assert found["truncate"].weight_max == 2.0
    assert found["recompute"].sum_abs_ratio_less_weight == pytest.approx(math.exp(20) - 1)


def test_equal_dumps_leave_and_hide_exactly_nothing() -> None:
    for remedy in weighed([-0.5, -3.0], [-0.5, -3.0]).values():
        assert (remedy.not_one, remedy.clipped) == (0, 0)
        assert remedy.sum_abs_weight_less_one == remedy.sum_abs_ratio_less_weight == 0.0
        assert remedy.weight_min == remedy.weight_max == remedy.effective == 1.0


def test_nothing_compared_is_said_as_nothing() -> None:
    for remedy in Remedies().found():
        assert remedy.tokens == 0
        assert remedy.weight_mean is remedy.clipped_fraction is remedy.effective is None


LOGPROBS = st.floats(min_value=-40, max_value=0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(LOGPROBS, LOGPROBS), min_size=1, max_size=50))
def test_sums_equal_an_independent_computation(values: list[tuple[float, float]]) -> None:
    found = weighed([s for s, _ in values], [t for _, t in values])
    ratios = [math.exp(max(-20.0, min(20.0, t - s))) for s, t in values]
    weights = {
        "recompute": [1.0 for _ in ratios],
        "truncate": [min(r, 2.0) for r in ratios],
        "mask": [r if 0.5 <= r <= 5.0 else 0.0 for r in ratios],
    }
    for name, expected in weights.items():
        remedy = found[name]
        assert remedy.sum_abs_weight_less_one == pytest.approx(
            math.fsum(abs(w - 1) for w in expected), rel=1e-12
        )
        assert remedy.sum_abs_ratio_less_weight == pytest.approx(
            math.fsum(abs(r - w) for r, w in zip(ratios, expected, strict=True)), rel=1e-12
        )
        assert remedy.weight_mean == pytest.approx(math.fsum(expected) / len(expected))
