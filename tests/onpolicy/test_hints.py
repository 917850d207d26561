"""Where it comes from: each planted cause is among the hints, with what it is read from."""

from dataclasses import replace

import numpy as np
import pytest

from kernelsmith.onpolicy.audit import Audit, audit
from kernelsmith.onpolicy.hints import Hint, hints
from kernelsmith.onpolicy.model import Turn
from tests.onpolicy.building import changed, draw, held, next_up, turn

SEQUENCES, TURNS, LENGTH = 40, 4, 50


def batch() -> list[Turn]:
    """Forty sequences of four turns."""
    rng = np.random.default_rng(5)
    mask = np.arange(LENGTH) >= 10
    return [
        turn(
            draw(LENGTH, 1000 * s + t),
            sequence=f"s{s}",
            index=t,
            mask=mask,
            tokens=rng.integers(0, 50_000, LENGTH),
        )
        for s in range(SEQUENCES)
        for t in range(TURNS)
    ]


def noisy(one: Turn, size: float, seed: int = 0) -> Turn:
    assert one.logprobs is not None
    values = one.logprobs.words.view(np.float32)
    noise = np.random.default_rng(seed).normal(0.0, size, len(values)).astype(np.float32)
    return replace(one, logprobs=turn(values + noise).logprobs)


def told(other: list[Turn]) -> tuple[Audit, dict[str, Hint]]:
    found = audit(held(*batch()), held(*other))
    return found, {hint.kind: hint for hint in hints(found)}


def test_nothing_is_said_of_equal_dumps() -> None:
    assert told(batch())[1] == {}


def test_all_tokens_off_by_a_little_are_kernels() -> None:
    _, kinds = told([noisy(one, 1e-5, i) for i, one in enumerate(batch())])
    assert set(kinds) == {"kernels"}
    assert "in 40 of 40 sequences" in kinds["kernels"].evidence


def test_all_tokens_off_by_a_lot_are_not_kernels() -> None:
    _, kinds = told([noisy(one, 0.5, i) for i, one in enumerate(batch())])
    assert set(kinds) == {"another distribution"}


def test_tokens_after_a_turn_are_a_cache_or_a_resumed_state() -> None:
    other = [noisy(one, 1e-5, i) if (one.index or 0) >= 2 else one for i, one in enumerate(batch())]
    _, kinds = told(other)
    assert "later turns" in kinds
    evidence = kinds["later turns"].evidence
    assert f"all {SEQUENCES * 2 * 40:,} tokens of turns before turn 2 are bit-equal" in evidence
    assert "few sequences" not in kinds


def test_one_sequence_is_padding_or_its_company() -> None:
    other = [noisy(one, 1e-5, i) if one.sequence == "s17" else one for i, one in enumerate(batch())]
    _, kinds = told(other)
    assert "few sequences" in kinds
    assert "s17 (" in kinds["few sequences"].evidence
    assert "the others are bit-equal" in kinds["few sequences"].evidence
    assert "later turns" not in kinds


def test_a_single_token_is_a_single_token() -> None:
    turns = batch()
    at = next(i for i, one in enumerate(turns) if (one.sequence, one.index) == ("s3", 1))
    values = turns[at].logprobs.words.view(np.float32)  # type: ignore[union-attr]
    turns[at] = replace(turns[at], logprobs=turn(changed(values, 33, next_up)).logprobs)
    found, kinds = told(turns)
    assert {"single tokens", "few sequences"} <= set(kinds)
    assert found.evidence.first is not None
    assert str(found.evidence.first.place.index) in kinds["single tokens"].evidence


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        ([7, 8, 9], [70, 80], "retokenised"),
        ([7, 8], [70, 80], "replaced"),
        ([7], [70, 80, 90], "retokenised"),
        ([], [70], "put in"),
        ([7, 8], [], "left out"),
    ],
)
def test_ids_that_differ_are_told_by_how_they_go_on(
    ours: list[int], theirs: list[int], kind: str
) -> None:
    front, back = list(range(100, 120)), list(range(200, 230))
    sides = [[*front, *middle, *back] for middle in (ours, theirs)]
    size = min(len(side) for side in sides)
    a, b = (held(turn(draw(size), tokens=side[:size])) for side in sides)
    found = audit(a, b)
    (hint,) = hints(found)
    assert hint.kind == kind
    assert "token 20" in hint.evidence
    assert found.ids is not None
    assert found.ids.rejoin == (len(ours), len(theirs))


def test_ids_that_never_come_together_are_another_sequence() -> None:
    a = held(turn(draw(60), tokens=np.arange(60)))
    b = held(turn(draw(60), tokens=[*range(30), *range(900, 930)]))
    (hint,) = hints(audit(a, b))
    assert hint.kind == "other tokens"


def test_log_probs_one_token_late_are_told_as_shifted() -> None:
    values = draw(200)
    found = audit(held(turn(values[:-1])), held(turn(values[1:])))
    kinds = {hint.kind for hint in hints(found)}
    assert "shifted" in kinds


def test_signs_of_zero_alone_are_told_as_such() -> None:
    found = audit(held(turn([-0.0, -1.0])), held(turn([0.0, -1.0])))
    assert [hint.kind for hint in hints(found)] == ["sign of zero"]


def test_rounding_in_storage_is_told_when_it_explains_all() -> None:
    values = draw(300)
    found = audit(held(turn(values)), held(turn(values.astype(np.float16).astype(np.float32))))
    kinds = {hint.kind: hint for hint in hints(found)}
    assert "float16" in kinds["storage"].explanation
    assert found.verdict == "off-policy", "a hint changes no verdict"
