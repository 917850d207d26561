"""Which turn of one dump belongs to which of the other, in bounded memory.

Both dumps are read side by side. What comes before its partner waits; when much waits it is put
into a temporary file. So dumps in the same order need a turn of each, and shuffled ones what is
apart, whatever their size; beside that, a name and a number a sequence.

Turns pair by (sequence, turn number) where both dumps number their turns, else sequence by
sequence: a trainer that has a whole sequence in one record is laid beside a harness's turns.
"""

import pickle
import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from kernelsmith.onpolicy.faults import Faults
from kernelsmith.onpolicy.model import Dump, Fault, Side, Turn

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A turn, or a piece of one, and which token of its dump it begins with (masked ones
    counted) and which of its sequence."""

    turn: Turn
    offset: int
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two stretches of the same turn. Their lengths are the same, or the sides disagree on them.

    ``last``: nothing of its sequence is to come."""

    sampler: Stretch
    trainer: Stretch
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What stands on one side only."""

    side: Side
    stretch: Stretch
    tail: bool


def pairs(
    sampler: Dump, trainer: Dump, faults: Faults, *, waiting_tokens: int = 4_000_000
) -> Iterator[Pair | Alone]:
    """All pairs as they meet, then what is left alone.

    ``waiting_tokens``: above this many waiting, what comes more waits on disk.
    """
    left = _Side("sampler", sampler, waiting_tokens)
    right = _Side("trainer", trainer, waiting_tokens)
    with left, right:
        yield from _met(left, right, faults)
        for side in (left, right):
            for stretch, tail in side.rest():
                yield Alone(side=side.name, stretch=stretch, tail=tail)


def _met(left: "_Side", right: "_Side", faults: Faults) -> Iterator[Pair]:
    by_turn = left.by_turn() and right.by_turn()
    whole = not left.by_turn() and not right.by_turn()
    while not (left.ended and right.ended):
        for side, other in ((left, right), (right, left)):
            arrived = side.read(by_turn, faults)
            if arrived is None:
                continue
            key, stretch = arrived
            side.wait(key, stretch)
            while side.has(key) and other.has(key):
                mine, theirs = side.take(key), other.take(key)
                if not by_turn and not whole:
                    mine, theirs = _level(key, (side, mine), (other, theirs))
                a, b = (mine, theirs) if side is left else (theirs, mine)
                yield Pair(sampler=a, trainer=b, last=whole)


def _level(
    key: Key, one: tuple["_Side", Stretch], two: tuple["_Side", Stretch]
) -> tuple[Stretch, Stretch]:
    """The first tokens of both, equally many; what is over goes on waiting."""
    size = min(len(one[1].turn), len(two[1].turn))
    found = []
    for side, stretch in (one, two):
        if len(stretch.turn) > size:
            side.wait_again(key, cut(stretch, size, len(stretch.turn)))
            stretch = cut(stretch, 0, size)
        found.append(stretch)
    return found[0], found[1]


def cut(stretch: Stretch, start: int, stop: int) -> Stretch:
    """Tokens ``start`` to ``stop`` of a stretch."""
    turn = stretch.turn
    piece = replace(
        turn,
        tokens=None if turn.tokens is None else turn.tokens[start:stop],
        mask=None if turn.mask is None else turn.mask[start:stop],
        logprobs=None if turn.logprobs is None else turn.logprobs[start:stop],
        # What is of the turn as a whole stays with its beginning.
        state=turn.state if start == 0 else None,
        payloads=turn.payloads if start == 0 else None,
        results=turn.results if start == 0 else None,
    )
    return replace(
        stretch, turn=piece, offset=stretch.offset + start, position=stretch.position + start
    )


class _Side:
    """One dump as it is read, and what of it waits."""

    def __init__(self, name: Side, dump: Dump, waiting_tokens: int) -> None:
        self.name, self.ended = name, False
        self._turns = iter(dump.turns())
        self._ahead: Turn | None = next(self._turns, None)
        self._numbered = self._ahead is not None and self._ahead.index is not None
        self._offset = 0
        self._seen: Counter[str] = Counter()
        self._lengths: Counter[str] = Counter()
        self._limit, self._held_tokens = waiting_tokens, 0
        self._waiting: dict[Key, deque[Stretch | int]] = {}
        self._spill: BinaryIO | None = None

    def __enter__(self) -> "_Side":
        return self

    def __exit__(self, *_: object) -> None:
        if self._spill is not None:
            self._spill.close()

    def by_turn(self) -> bool:
        """Whether its turns are numbered."""
        return self._numbered

    def read(self, by_turn: bool, faults: Faults) -> tuple[Key, Stretch] | None:
        """The next stretch and what it pairs by; None at the end, or where it is a second copy."""
        turn = self._ahead
        if turn is None:
            self.ended = True
            return None
        self._ahead = next(self._turns, None)
        offset, self._offset = self._offset, self._offset + len(turn)
        # `_seen`: of a numbered turn one more than its number, else how often the sequence came.
        count = self._seen[turn.sequence]
        if not self._numbered:
            self._seen[turn.sequence] += 1
            return (turn.sequence, count), Stretch(turn=turn, offset=offset)
        index = turn.index if turn.index is not None else count
        if index < count:
            detail = f"sequence {turn.sequence}, turn {index} comes after turn {count - 1}"
            faults.add(Fault(kind="duplicate", side=self.name, detail=detail, place=turn.place))
            return None
        self._seen[turn.sequence] = index + 1
        position = self._lengths[turn.sequence]
        self._lengths[turn.sequence] += len(turn)
        stretch = Stretch(turn=turn, offset=offset, position=position)
        return (turn.sequence, index if by_turn else 0), stretch

    def has(self, key: Key) -> bool:
        """Whether something waits under a key."""
        return key in self._waiting

    def wait(self, key: Key, stretch: Stretch) -> None:
        """Behind what waits."""
        size = len(stretch.turn)
        held: Stretch | int = stretch
        if self._held_tokens + size > self._limit and self._held_tokens:
            held = self._put_away(stretch)
        else:
            self._held_tokens += size
        self._waiting.setdefault(key, deque()).append(held)

    def wait_again(self, key: Key, stretch: Stretch) -> None:
        """In front of what waits."""
        self._held_tokens += len(stretch.turn)
        self._waiting.setdefault(key, deque()).appendleft(stretch)

    def take(self, key: Key) -> Stretch:
        """The first that waits under a key."""
        queue = self._waiting[key]
        held = queue.popleft()
        if not queue:
            del self._waiting[key]
        if isinstance(held, Stretch):
            self._held_tokens -= len(held.turn)
            return held
        assert self._spill is not None
        self._spill.seek(held)
        stretch: Stretch = pickle.load(self._spill)  # our own, in a file without a name
        return stretch

    def rest(self) -> Iterator[tuple[Stretch, bool]]:
        """What found no partner, and whether it is the tail of a turn whose beginning did."""
        for key in list(self._waiting):
            while self.has(key):
                stretch = self.take(key)
                yield stretch, stretch.position > 0 and stretch.turn.index is None

    def _put_away(self, stretch: Stretch) -> int:
        if self._spill is None:
            self._spill = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        place = self._spill.seek(0, 2)
        pickle.dump(stretch, self._spill)
        return place
