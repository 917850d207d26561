"""A planted break in each layer is put down to the right one; what is behind it stays open."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelsmith.onpolicy.audit import audit
from kernelsmith.onpolicy.hints import hints
from kernelsmith.onpolicy.model import HeldDump, Turn
from kernelsmith.onpolicy.three import Three, three
from tests.onpolicy.building import changed, draw, held, kinds, next_up, turn

TURNS, LENGTH = 5, 40
PROMPT = 10


def rollouts(sequences: int = 6, seed: int = 0) -> list[Turn]:
    """Sequences of five turns, each ten masked tokens and thirty of the model's, with digests."""
    rng = np.random.default_rng(seed)
    mask = np.arange(LENGTH) >= PROMPT
    return [
        turn(
            draw(LENGTH, seed + 100 * s + t),
            sequence=f"p{s}",
            index=t,
            tokens=rng.integers(0, 50_000, LENGTH),
            mask=mask,
            state=f"state-{s}-{t}",
            payloads=(f"call-{s}-{t}",),
            results=(f"result-{s}-{t}",),
        )
        for s in range(sequences)
        for t in range(TURNS)
    ]


def with_turn(turns: list[Turn], sequence: str, index: int, **change: Any) -> list[Turn]:
    return [
        replace(one, **change) if (one.sequence, one.index) == (sequence, index) else one
        for one in turns
    ]


def the(turns: list[Turn], sequence: str, index: int) -> Turn:
    return next(one for one in turns if (one.sequence, one.index) == (sequence, index))


def trainers(turns: list[Turn]) -> list[Turn]:
    """What a trainer has of them: ids, masks and log-probs."""
    return [replace(one, state=None, payloads=None, results=None) for one in turns]


def numeric(turns: list[Turn], sequence: str, index: int, at: int = 20) -> list[Turn]:
    one = the(turns, sequence, index)
    assert one.logprobs is not None
    values = one.logprobs.words.view(np.float32)
    other = turn(changed(values, at, next_up)).logprobs
    return with_turn(turns, sequence, index, logprobs=other)


def other_id(turns: list[Turn], sequence: str, index: int, at: int = 20) -> list[Turn]:
    tokens = the(turns, sequence, index).tokens
    assert tokens is not None
    return with_turn(turns, sequence, index, tokens=changed(tokens, at, lambda id_: id_ + 1))


def audited(a: list[Turn], b: list[Turn], c: list[Turn] | None) -> Three:
    def opened(turns: list[Turn]) -> Any:
        dump: HeldDump = held(*turns)
        return lambda: dump

    return three(opened(a), opened(b), None if c is None else opened(c))


def test_three_equal_runs_are_on_policy() -> None:
    turns = rollouts()
    found = audited(turns, turns, trainers(turns))
    assert (found.verdict, found.broken_layer) == ("on-policy", None)
    assert dict(found.layers) == {"state": "equal", "token": "equal", "numeric": "equal"}


def test_two_rollouts_without_a_trainer_are_never_on_policy() -> None:
    found = audited(rollouts(), rollouts(), None)
    assert found.verdict == "undecidable"
    assert dict(found.layers)["numeric"] == "not recorded"
    assert "there is no third run: the trainer was not asked" in found.notes


def test_a_trainer_without_ids_is_told_and_its_bits_decide() -> None:
    turns = rollouts()
    found = audited(turns, turns, [replace(one, tokens=None) for one in trainers(turns)])
    assert found.verdict == "on-policy"
    assert any("run C has no token ids" in note for note in found.notes)


@pytest.mark.parametrize("what", ["state", "results"])
def test_a_broken_state_stops_the_audit_there(what: str) -> None:
    turns = rollouts()
    value = "other" if what == "state" else ("other",)
    other = numeric(with_turn(turns, "p2", 3, **{what: value}), "p2", 4)
    found = audited(turns, other, trainers(turns))
    assert (found.verdict, found.broken_layer, found.broken_in) == (
        "off-policy",
        "state",
        "A beside B",
    )
    assert dict(found.layers) == {
        "state": "broken",
        "token": "undecidable",
        "numeric": "undecidable",
    }
    place = found.broken_place
    assert place is not None
    assert (place.sequence, place.turn) == ("p2", 3)


def test_a_state_that_other_tokens_led_to_is_a_consequence() -> None:
    turns = rollouts()
    other = other_id(turns, "p2", 1)
    for later in (2, 3, 4):
        other = with_turn(other, "p2", later, state="elsewhere", results=("else",))
    other = with_turn(other, "p2", 1, results=("else",))
    found = audited(turns, other, trainers(turns))
    assert (found.broken_layer, found.broken_in) == ("token", "A beside B")
    assert found.layers[0] == ("state", "equal")


def test_other_bytes_of_a_tool_call_are_the_token_layers() -> None:
    turns = rollouts()
    other = with_turn(turns, "p1", 2, payloads=('{"a": 1}',))
    found = audited(turns, other, trainers(turns))
    assert found.broken_layer == "token"
    assert [hint.kind for hint in hints(found.rollouts)] == ["reformatted"]


def test_other_ids_of_the_rollouts_or_at_the_trainer_are_the_token_layers() -> None:
    turns = rollouts()
    apart = audited(turns, other_id(turns, "p4", 0), trainers(turns))
    assert (apart.broken_layer, apart.broken_in) == ("token", "A beside B")
    given = audited(turns, turns, trainers(other_id(turns, "p4", 0)))
    assert (given.broken_layer, given.broken_in) == ("token", "A beside C")
    assert dict(given.layers)["numeric"] == "undecidable"


def test_a_rollout_with_other_turns_is_the_token_layers() -> None:
    turns = rollouts()
    found = audited(turns, [one for one in turns if one.index != 4], trainers(turns))
    assert found.broken_layer == "token"


def test_log_probs_of_the_second_rollout_or_of_the_trainer_are_the_numeric_layers() -> None:
    turns = rollouts()
    sampler = audited(turns, numeric(turns, "p3", 2), trainers(turns))
    assert (sampler.broken_layer, sampler.broken_in) == ("numeric", "A beside B")
    trainer = audited(turns, turns, trainers(numeric(turns, "p3", 2)))
    assert (trainer.broken_layer, trainer.broken_in) == ("numeric", "A beside C")
    assert trainer.forward is not None
    assert trainer.forward.figures.not_one == 1


def test_log_probs_that_differ_before_the_tokens_part_are_told() -> None:
    turns = rollouts()
    found = audited(turns, other_id(numeric(turns, "p3", 1), "p3", 2), trainers(turns))
    assert found.broken_layer == "token"
    assert any("before the tokens of A and B part" in note for note in found.notes)


def test_a_provider_without_ids_and_log_probs_leaves_state_and_bytes() -> None:
    bare = [replace(one, tokens=None, logprobs=None, mask=None) for one in rollouts()]
    found = audited(bare, bare, None)
    assert found.verdict == "undecidable"
    assert dict(found.layers)["state"] == "equal"
    assert dict(found.layers)["numeric"] == "not applicable"
    assert any("no log-probs" in note for note in found.notes)
    broken = audited(bare, with_turn(bare, "p0", 1, state="other"), None)
    assert (broken.verdict, broken.broken_layer) == ("off-policy", "state")
    drifted = audited(bare, with_turn(bare, "p0", 1, payloads=("other",)), None)
    assert (drifted.verdict, drifted.broken_layer) == ("off-policy", "token")


def test_behind_an_other_id_nothing_is_compared_and_nothing_is_lost() -> None:
    turns = rollouts()
    found = audit(held(*turns), held(*trainers(other_id(turns, "p2", 1, at=25))))
    assert (found.verdict, found.broken_layer) == ("off-policy", "token")
    trained = len(turns) * (LENGTH - PROMPT)
    lost = (LENGTH - 25) + 3 * (LENGTH - PROMPT)
    assert found.unseen == lost
    assert found.figures.tokens == trained - lost
    assert kinds(found) == {"other_ids"}
    assert found.ids is not None
    place = found.ids.place
    assert (place.sequence, place.turn, place.token) == ("p2", 1, LENGTH + 25)
    assert place.index == (2 * TURNS + 1) * LENGTH + 25


def test_masks_that_disagree_are_the_token_layers() -> None:
    turns = rollouts()
    shifted = [replace(one, mask=np.arange(LENGTH) >= PROMPT + 1) for one in trainers(turns)]
    found = audit(held(*turns), held(*shifted))
    assert (found.verdict, found.broken_layer) == ("off-policy", "token")
    assert found.masks is not None
    assert (found.masks.only_sampler, found.masks.shifted) == (1, 1)
    (hint,) = hints(found)
    assert hint.kind == "masks"
    assert "1 token later" in hint.evidence


def test_other_weights_leave_no_layer_to_blame() -> None:
    turns = [replace(one, weights="step 7") for one in rollouts()]
    later = [replace(one, weights="step 8") for one in trainers(numeric(rollouts(), "p0", 0))]
    found = audit(held(*turns), held(*later))
    assert (found.verdict, found.broken_layer) == ("off-policy", None)
    assert "weights" in {hint.kind for hint in hints(found)}
    same = audit(held(*turns), held(*(replace(one, weights="step 8") for one in turns)))
    assert same.verdict == "undecidable", "equal bits of other weights show no policy to be one"
