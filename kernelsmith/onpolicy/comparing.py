"""Two dumps beside each other, pair by pair: ids, masks, then log-probs as integers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelsmith.onpolicy.faults import Faults
from kernelsmith.onpolicy.model import Dtype, Dump, LogProbs, Mask, Turn, Words
from kernelsmith.onpolicy.pairing import Alone, Pair, pairs
from kernelsmith.onpolicy.storage import Floats, meeting, numbers, widened

_Array = npt.NDArray[np.generic] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What two stretches have to do with each other.

    Arrays speak of the tokens whose ratio is looked at: trained on, both log-probs there and, if
    they differ, finite or infinite but no NaN; in order. ``at``: where they stand in the stretch;
    ``turns``: the turn each belongs to. ``log_ratio`` is trainer minus sampler, in float64.

    ``lengths``: None, or how many tokens each side has. ``first_id``: where the first other id
    stands, None if none or if a side has no ids. ``masks``: how many tokens only one side trains
    on, and ``first_mask`` where the first stands. ``nan``, ``infinite``: how many trained tokens
    have a NaN on a side, the same infinity on both. ``unseen``: trained tokens that were not
    compared, for whatever reason. ``out_of_context``: all of them, because an id before the
    stretch differs.
    """

    pair: Pair
    dtypes: tuple[Dtype, Dtype] | None
    at: npt.NDArray[np.int64]
    turns: npt.NDArray[np.int64]
    same: Mask
    sampler: Floats
    trainer: Floats
    words: tuple[Words, Words]
    dtype: Dtype
    lengths: tuple[int, int] | None = None
    ids: bool = False
    first_id: int | None = None
    masks: int = 0
    first_mask: int | None = None
    nan: int = 0
    first_nan: int | None = None
    infinite: int = 0
    unseen: int = 0
    out_of_context: bool = False

    @property
    def parts(self) -> bool:
        """Whether the two sides' tokens part here: what follows has another context."""
        return self.first_id is not None or self.lengths is not None

    @property
    def log_ratio(self) -> Floats:
        """Trainer minus sampler: exactly 0 where the bits are equal, ±inf where one side is
        infinite."""
        with np.errstate(invalid="ignore"):
            return np.where(self.same, 0.0, self.trainer - self.sampler)


def comparisons(sampler: Dump, trainer: Dump, faults: Faults) -> Iterator[Compared | Alone]:
    """All pairs of two dumps compared, and what stands on one side only, in one pass.

    Behind an id that differs no log-prob of its sequence is compared: equal or not, it answers
    another question.
    """
    astray: set[str] = set()
    for met in pairs(sampler, trainer, faults):
        if isinstance(met, Alone):
            yield met
            continue
        name = met.sampler.turn.sequence
        compared = _compare(met, out_of_context=name in astray)
        yield compared
        if compared.parts and not met.last:
            astray.add(name)


def _compare(pair: Pair, *, out_of_context: bool) -> Compared:
    a, b = pair.sampler.turn, pair.trainer.turn
    size = min(len(a), len(b))
    aligned = _aligned(a) and _aligned(b)
    # A turn whose own ids, mask and log-probs are not equally long says nothing of the other's.
    first_id = _first(_others(a.tokens, b.tokens, size if aligned else 0))
    masks = _others(a.mask, b.mask, size if aligned else 0)
    trained = _trained(a, b, size)
    sees = np.zeros(size, dtype=np.bool_)
    if aligned and not out_of_context:
        sees[: size if first_id is None else first_id] = True
    found = _numbers(a.logprobs, b.logprobs, trained & sees, size)
    at = np.flatnonzero(found.seen)
    return Compared(
        pair=pair,
        dtypes=found.dtypes,
        at=at,
        turns=turn_numbers(pair)[at],
        same=found.same[at],
        sampler=found.values[0][at],
        trainer=found.values[1][at],
        words=(found.words[0][at], found.words[1][at]),
        dtype=found.dtype,
        lengths=(len(a), len(b)) if aligned and len(a) != len(b) else None,
        ids=a.tokens is not None and b.tokens is not None,
        first_id=first_id,
        masks=len(masks),
        first_mask=_first(masks),
        nan=int(np.count_nonzero(found.nan)),
        first_nan=_first(np.flatnonzero(found.nan)),
        infinite=int(np.count_nonzero(found.infinite)),
        unseen=int(np.count_nonzero(trained)) - len(at),
        out_of_context=out_of_context,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    dtypes: tuple[Dtype, Dtype] | None
    dtype: Dtype
    words: tuple[Words, Words]
    values: tuple[Floats, Floats]
    same: Mask
    seen: Mask
    nan: Mask
    infinite: Mask


def _numbers(a: LogProbs | None, b: LogProbs | None, wanted: Mask, size: int) -> _Numbers:
    nothing = np.zeros(size, dtype=np.bool_)
    if a is None or b is None or not len(a) or not len(b):
        empty = np.zeros(size)
        words = empty.view(np.uint64)
        return _Numbers(
            dtypes=None,
            dtype="float64",
            words=(words, words),
            values=(empty, empty),
            same=nothing,
            seen=nothing,
            nan=nothing,
            infinite=nothing,
        )
    dtype = meeting(a.dtype, b.dtype)
    size = min(size, len(a), len(b))
    words_a, words_b = widened(a, dtype)[:size], widened(b, dtype)[:size]
    wide_a = numbers(LogProbs(words=words_a, dtype=dtype))
    wide_b = numbers(LogProbs(words=words_b, dtype=dtype))
    same = words_a == words_b
    wanted = wanted[:size]
    nan = (np.isnan(wide_a) | np.isnan(wide_b)) & wanted
    infinite = same & np.isinf(wide_a) & wanted
    return _Numbers(
        dtypes=(a.dtype, b.dtype),
        dtype=dtype,
        words=(words_a, words_b),
        values=(wide_a, wide_b),
        same=same,
        seen=wanted & ~nan & ~infinite,
        nan=nan,
        infinite=infinite,
    )


def _aligned(turn: Turn) -> bool:
    sizes = {len(held) for held in (turn.tokens, turn.logprobs, turn.mask) if held is not None}
    return len(sizes) <= 1


def _trained(a: Turn, b: Turn, size: int) -> Mask:
    """Tokens that both sides train on; a side without a mask trains on all."""
    trained = np.ones(size, dtype=np.bool_)
    for mask in (a.mask, b.mask):
        if mask is not None:
            trained[: len(mask[:size])] &= mask[:size]
            trained[len(mask[:size]) :] = False
    return trained


def turn_numbers(pair: Pair) -> npt.NDArray[np.int64]:
    """The turn of each token: the number it has, else how many runs of trained tokens end before
    it (the sampler's mask decides, if it has one)."""
    masks = (pair.sampler.turn.mask, pair.trainer.turn.mask)
    mask = next((mask for mask in masks if mask is not None), None)
    size = max(len(pair.sampler.turn), len(pair.trainer.turn))
    for turn in (pair.sampler.turn, pair.trainer.turn):
        if turn.index is not None:
            return np.full(size, turn.index, dtype=np.int64)
    if mask is None:
        return np.zeros(size, dtype=np.int64)
    # What is masked before a run belongs to the turn of that run.
    ended = np.concatenate(([False], mask[:-1] & ~mask[1:]))[: len(mask)]
    runs = np.cumsum(ended)
    rest = np.full(max(0, size - len(runs)), runs[-1] if len(runs) else 0)
    return np.concatenate((runs, rest))


def _others(a: _Array, b: _Array, size: int) -> npt.NDArray[np.int64]:
    """Where two arrays differ, as far as both go; nowhere if one is not there."""
    if a is None or b is None:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(a[:size] != b[:size])


def _first(places: npt.NDArray[np.int64]) -> int | None:
    return int(places[0]) if len(places) else None
