"""Turns find each other whatever the order and the cut, and what waits can wait on disk."""

import random

import numpy as np
import pytest

from kernelsmith.onpolicy.audit import audit
from kernelsmith.onpolicy.faults import Faults
from kernelsmith.onpolicy.model import Turn
from kernelsmith.onpolicy.pairing import Alone, Pair, pairs
from tests.onpolicy.building import changed, draw, held, kinds, next_up, turn


def numbered(sequences: int = 7, turns: int = 4) -> list[Turn]:
    return [
        turn(draw(9, 50 * s + t), sequence=f"s{s}", index=t, tokens=np.arange(9) + 10 * t)
        for t in range(turns)  # as rollouts that run side by side are written
        for s in range(sequences)
    ]


def float32(one: Turn) -> np.ndarray:
    assert one.logprobs is not None
    return one.logprobs.words.view(np.float32)


def whole(turns: list[Turn]) -> list[Turn]:
    found = []
    for name in dict.fromkeys(one.sequence for one in turns):
        mine = [one for one in turns if one.sequence == name]
        values = np.concatenate([float32(one) for one in mine])
        ids = np.concatenate([one.tokens for one in mine if one.tokens is not None])
        found.append(turn(values, sequence=name, tokens=ids))
    return found


@pytest.mark.parametrize("waiting_tokens", [0, 20, 10**6])
def test_dumps_in_other_orders_pair_completely_even_when_all_waits_on_disk(
    waiting_tokens: int,
) -> None:
    turns = numbered()
    other = sorted(turns, key=lambda one: (one.sequence[::-1], one.index))
    met = list(pairs(held(*turns), held(*other), Faults(), waiting_tokens=waiting_tokens))
    assert len(met) == len(turns)
    for pair in met:
        assert isinstance(pair, Pair)
        a, b = pair.sampler.turn, pair.trainer.turn
        assert (a.sequence, a.index) == (b.sequence, b.index)
        assert a.logprobs is not None
        assert b.logprobs is not None
        assert np.array_equal(a.logprobs.words, b.logprobs.words)


def test_the_index_is_of_the_samplers_dump_whatever_the_trainers_order() -> None:
    sequences = [turn(draw(10, s), sequence=f"s{s}") for s in range(20)]
    shuffled = list(sequences)
    random.Random(1).shuffle(shuffled)
    at = next(i for i, one in enumerate(shuffled) if one.sequence == "s13")
    shuffled[at] = turn(changed(draw(10, 13), 7, next_up), sequence="s13")
    late = next(i for i, one in enumerate(shuffled) if one.sequence == "s17")
    shuffled[late] = turn(changed(draw(10, 17), 0, next_up), sequence="s17")
    found = audit(held(*sequences), held(*shuffled))
    assert found.figures.not_one == 2
    assert found.evidence.first is not None
    assert found.evidence.first.place.index == 137


def test_a_trainer_with_whole_sequences_meets_a_harness_with_turns() -> None:
    turns = numbered()
    same = audit(held(*turns), held(*whole(turns)))
    assert (same.verdict, same.figures.tokens, same.figures.sequences) == ("on-policy", 252, 7)
    assert [one.tokens for one in same.figures.by_turn] == [63] * 4
    other = whole(turns)
    values = float32(other[3])
    other[3] = turn(changed(values, 22, next_up), sequence="s3", tokens=other[3].tokens)
    found = audit(held(*turns), held(*other))
    assert found.evidence.first is not None
    place = found.evidence.first.place
    assert (place.sequence, place.turn, place.token) == ("s3", 2, 22)
    back = audit(held(*other), held(*turns))
    assert back.evidence.first is not None
    assert (back.evidence.first.place.sequence, back.evidence.first.place.token) == ("s3", 22)


def test_a_tail_that_only_one_side_has_is_named() -> None:
    turns = numbered(sequences=2)
    found = audit(held(*turns), held(*whole(turns[:-1])))
    assert found.verdict == "undecidable"
    assert kinds(found) == {"missing_sequence"}
    assert found.unseen == 9
    fault = found.faults[0]
    assert (fault.side, "turn 3" in fault.place) == ("sampler", True)


def test_a_turn_whose_length_differs_spoils_no_other_turn() -> None:
    turns = numbered(sequences=1)
    short = list(turns)
    short[1] = turn(draw(8, 1), sequence="s0", index=1, tokens=np.arange(8) + 10)
    found = audit(held(*turns), held(*short))
    assert (found.verdict, found.broken_layer) == ("off-policy", "token")
    assert kinds(found) == {"length"}


def test_what_only_the_sampler_has_is_not_missed_of_a_subset() -> None:
    turns = numbered()
    some = [one for one in turns if one.sequence != "s2"]
    assert audit(held(*turns), held(*some)).verdict == "undecidable"
    found = audit(held(*turns), held(*some), subset=True)
    assert found.verdict == "on-policy"
    assert kinds(found) == {"missing_sequence"}, "it is told all the same"
    assert audit(held(*some), held(*turns), subset=True).verdict == "undecidable"


def test_records_of_one_name_pair_in_their_order() -> None:
    four = [turn(draw(5, s), sequence="one prompt") for s in range(4)]
    found = audit(held(*four), held(*four))
    assert (found.verdict, found.figures.sequences) == ("on-policy", 4)
    met = list(pairs(held(*four), held(*four[:3]), Faults()))
    assert [isinstance(one, Alone) for one in met] == [False, False, False, True]
