"""What is kept, while two dumps go by, to say later where their differences come from."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from kernelsmith.numerics import bits
from kernelsmith.onpolicy.comparing import Compared
from kernelsmith.onpolicy.model import Dtype
from kernelsmith.onpolicy.pairing import Pair
from kernelsmith.onpolicy.storage import meeting, narrowed, narrowest

_NAMED = 5
_ROUNDED: tuple[Dtype, ...] = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A token: its number in the sampler's dump (from 0, masked ones counted), its sequence, turn
    and number in the sequence, and where its record stands in both dumps."""

    index: int
    sequence: str
    turn: int
    token: int
    sampler_place: str
    trainer_place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The first token whose log-probs differ, in the sampler's order: the integers as compared and
    what they stand for. ``ulps``: in the narrowest dtype that holds both values, ``ulp_dtype``."""

    place: Place
    dtype: Dtype
    sampler_bits: str
    trainer_bits: str
    sampler: float
    trainer: float
    ulps: int | None
    ulp_dtype: Dtype


@dataclass(slots=True, kw_only=True)
class _Trail:
    tokens: int = 0
    not_one: int = 0
    before: int = 0
    first_turn: int | None = None
    turns: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What hints are made of.

    Of the sequences with a difference: ``before`` tokens were compared in them before their first
    one and ``after`` from it on; ``first_turns`` in which turn it came; ``named`` the first few,
    with differing and compared tokens. ``several_turns``: sequences with compared tokens in more
    than one turn. ``rounded``: of the differing tokens, how many are equal once both are rounded to
    a dtype. ``shifted``: how many have the log-prob that the other side has one token later (+1) or
    earlier (−1).
    """

    sequences: int
    differing: int
    before: int
    after: int
    several_turns: int
    first_turns: tuple[tuple[int, int], ...]
    named: tuple[tuple[str, int, int], ...]
    rounded: tuple[tuple[Dtype, int], ...]
    shifted: tuple[tuple[int, int], ...]
    first: FirstDifference | None


class Witness:
    """Collects evidence pair by pair. Memory: a few numbers an open sequence."""

    def __init__(self) -> None:
        self._open: defaultdict[str, _Trail] = defaultdict(_Trail)
        self._sequences = self._differing = self._before = self._after = self._several = 0
        self._first_turns: Counter[int] = Counter()
        self._named: list[tuple[str, int, int]] = []
        self._rounded: Counter[Dtype] = Counter()
        self._shifted: Counter[int] = Counter()
        self._first: FirstDifference | None = None

    def add(self, compared: Compared) -> None:
        """Takes one pair's tokens."""
        if not len(compared.at):
            return
        name = compared.pair.sampler.turn.sequence
        trail = self._open[name]
        differs = np.flatnonzero(~compared.same)
        if len(differs):
            self._differences(compared, differs)
            if trail.first_turn is None:
                trail.before = trail.tokens + int(differs[0])
                trail.first_turn = int(compared.turns[differs[0]])
        trail.tokens += len(compared.at)
        trail.not_one += len(differs)
        if len(trail.turns) < 2:
            trail.turns.update(int(turn) for turn in np.unique(compared.turns))
        if compared.pair.last:
            self._close(name, self._open.pop(name))

    def _differences(self, compared: Compared, differs: np.ndarray) -> None:
        first = differs[0]
        place = place_of(compared.pair, int(compared.at[first]), int(compared.turns[first]))
        if self._first is None or place.index < self._first.place.index:
            self._first = _difference(compared, int(first), place)
        s, t = compared.sampler[differs], compared.trainer[differs]
        for dtype in _ROUNDED:
            same = narrowed(s, dtype).words == narrowed(t, dtype).words
            self._rounded[dtype] += int(np.count_nonzero(same))
        a, b = compared.words
        later, earlier = differs[differs + 1 < len(b)], differs[differs > 0]
        self._shifted[1] += int(np.count_nonzero(a[later] == b[later + 1]))
        self._shifted[-1] += int(np.count_nonzero(a[earlier] == b[earlier - 1]))

    def _close(self, name: str, trail: _Trail) -> None:
        self._sequences += 1
        self._several += len(trail.turns) > 1
        if trail.first_turn is None:
            return
        self._differing += 1
        self._before += trail.before
        self._after += trail.tokens - trail.before
        self._first_turns[trail.first_turn] += 1
        if len(self._named) < _NAMED:
            self._named.append((name, trail.not_one, trail.tokens))

    def evidence(self) -> Evidence:
        """The evidence of all that was taken; sequences that are open are closed."""
        for name in list(self._open):
            self._close(name, self._open.pop(name))
        return Evidence(
            sequences=self._sequences,
            differing=self._differing,
            before=self._before,
            after=self._after,
            several_turns=self._several,
            first_turns=tuple(sorted(self._first_turns.items())),
            named=tuple(self._named),
            rounded=tuple((dtype, self._rounded[dtype]) for dtype in _ROUNDED),
            shifted=tuple(sorted(self._shifted.items())),
            first=self._first,
        )


def place_of(pair: Pair, at: int, turn: int) -> Place:
    """Where the token ``at`` of a pair's stretch stands."""
    sampler, trainer = pair.sampler, pair.trainer
    return Place(
        index=sampler.offset + at,
        sequence=sampler.turn.sequence,
        turn=turn,
        token=sampler.position + at,
        sampler_place=sampler.turn.place,
        trainer_place=trainer.turn.place,
    )


def _difference(compared: Compared, number: int, place: Place) -> FirstDifference:
    s, t = float(compared.sampler[number]), float(compared.trainer[number])
    a, b = (int(side[number]) for side in compared.words)
    ulp_dtype = meeting(narrowest(s), narrowest(t))
    words = [int(narrowed(np.array([value]), ulp_dtype).words[0]) for value in (s, t)]
    return FirstDifference(
        place=place,
        dtype=compared.dtype,
        sampler_bits=bits.pattern(a, compared.dtype),
        trainer_bits=bits.pattern(b, compared.dtype),
        sampler=s,
        trainer=t,
        ulps=bits.ulp_distance(words[0], words[1], ulp_dtype),
        ulp_dtype=ulp_dtype,
    )
