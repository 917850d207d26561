"""Where token ids or masks differ: the first place, what stands around it, and how it goes on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelsmith.onpolicy.comparing import Compared, turn_numbers
from kernelsmith.onpolicy.evidence import Place, place_of
from kernelsmith.onpolicy.model import Mask, TokenIds

_AROUND = 4
_LONGEST = 32
_AGREE = 6
"""So many equal ids in a row count as being together again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherIds:
    """Where ids first differ and what stands around it, ``before`` tokens of it in front.

    ``rejoin``: after how many tokens of the sampler's and of the trainer's the two agree again;
    None if they do not within sight. Unequal numbers mean that one text was cut into tokens in two
    ways, or that something was put in or left out. ``trained``: the place is trained on.
    """

    place: Place
    sampler: tuple[int, ...]
    trainer: tuple[int, ...]
    rejoin: tuple[int, int] | None
    trained: bool
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherMasks:
    """Where masks first differ. ``only_sampler``, ``only_trainer``: tokens of that turn only this
    side trains on. ``shifted``: by how many tokens the trainer's mask is the sampler's, moved; None
    if it is not."""

    place: Place
    only_sampler: int
    only_trainer: int
    shifted: int | None


def other_ids(compared: Compared) -> OtherIds:
    """What is known of a pair whose ids differ."""
    a, b = compared.pair.sampler.turn, compared.pair.trainer.turn
    at = compared.first_id
    assert at is not None
    before = max(0, at - _AROUND)
    masks = [mask for mask in (a.mask, b.mask) if mask is not None]
    return OtherIds(
        place=_place(compared, at),
        sampler=_window(a.tokens, before, at),
        trainer=_window(b.tokens, before, at),
        rejoin=_rejoin(a.tokens, b.tokens, at),
        before=at - before,
        trained=all(bool(mask[at]) for mask in masks if at < len(mask)),
    )


def end_of(compared: Compared) -> Place:
    """Where the shorter of two stretches ends."""
    at = min(len(compared.pair.sampler.turn), len(compared.pair.trainer.turn))
    return _place(compared, at)


def other_masks(compared: Compared) -> OtherMasks:
    """What is known of a pair whose masks differ."""
    a, b = compared.pair.sampler.turn, compared.pair.trainer.turn
    assert a.mask is not None
    assert b.mask is not None
    assert compared.first_mask is not None
    size = min(len(a.mask), len(b.mask))
    mine, theirs = a.mask[:size], b.mask[:size]
    return OtherMasks(
        place=_place(compared, compared.first_mask),
        only_sampler=int(np.count_nonzero(mine & ~theirs)),
        only_trainer=int(np.count_nonzero(theirs & ~mine)),
        shifted=_shift(mine, theirs),
    )


def _place(compared: Compared, at: int) -> Place:
    numbers = turn_numbers(compared.pair)
    return place_of(compared.pair, at, int(numbers[min(at, len(numbers) - 1)]))


def _window(ids: TokenIds | None, start: int, at: int) -> tuple[int, ...]:
    return () if ids is None else tuple(int(each) for each in ids[start : at + _AROUND + 1])


def _rejoin(a: TokenIds | None, b: TokenIds | None, at: int) -> tuple[int, int] | None:
    """The fewest tokens to leave out on each side for the next ``_AGREE`` to be equal."""
    if a is None or b is None:
        return None
    ours = [int(each) for each in a[at : at + _LONGEST + _AGREE]]
    theirs = [int(each) for each in b[at : at + _LONGEST + _AGREE]]
    for total in range(2 * _LONGEST):
        for left in range(total + 1):
            right = total - left
            if (left, right) != (0, 0) and _agree(ours[left:], theirs[right:]):
                return left, right
    return None


def _agree(a: Sequence[int], b: Sequence[int]) -> bool:
    return len(a) >= _AGREE and len(b) >= _AGREE and a[:_AGREE] == b[:_AGREE]


def _shift(a: Mask, b: Mask) -> int | None:
    for by in (1, -1, 2, -2):
        size = len(a) - abs(by)
        if size > 0 and bool(a.any()):
            mine, theirs = (a[:size], b[by:]) if by > 0 else (a[-by:], b[:size])
            if np.array_equal(mine, theirs):
                return by
    return None
