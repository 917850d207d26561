"""The state layer and the raw bytes of tool calls: digests, turn by turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernelsmith.onpolicy.evidence import Place, place_of
from kernelsmith.onpolicy.pairing import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherState:
    """The first turn whose digests differ. ``what``: the sandbox's state, a tool's result, or the
    raw bytes of a tool call; ``number``: which of the turn's results or calls."""

    what: Literal["state", "results", "payloads"]
    place: Place
    number: int
    sampler: str | None
    trainer: str | None


class Trajectories:
    """Collects the first difference of state and of tool calls, turn by turn in time's order: the
    state when a turn begins, then what the model wrote, then what the tools gave back.

    A state that differs after the model wrote other tokens or calls is a consequence, not a break:
    other acts have other outcomes.
    """

    def __init__(self) -> None:
        self.state: OtherState | None = None
        self.payload: OtherState | None = None
        self.recorded = False
        self.payloads_recorded = False
        self._acted_otherwise: set[str] = set()

    def begins(self, pair: Pair) -> None:
        """Looks at the state in which a turn begins."""
        a, b = pair.sampler.turn.state, pair.trainer.turn.state
        if a is None or b is None:
            return
        self.recorded = True
        if a != b and self.state is None and not self._parted(pair):
            self.state = _other("state", pair, 0, a, b)

    def ends(self, pair: Pair, *, other_tokens: bool) -> None:
        """Looks at a turn's tool calls and their results. ``other_tokens``: its ids differ."""
        a, b = pair.sampler.turn, pair.trainer.turn
        if a.payloads is not None and b.payloads is not None:
            self.payloads_recorded = True
            if a.payloads != b.payloads:
                if self.payload is None and not self._parted(pair):
                    self.payload = _other("payloads", pair, *_first(a.payloads, b.payloads))
                other_tokens = True
        if other_tokens:
            self._acted_otherwise.add(a.sequence)
        if a.results is None or b.results is None:
            return
        self.recorded = True
        if a.results != b.results and self.state is None and not self._parted(pair):
            self.state = _other("results", pair, *_first(a.results, b.results))

    def _parted(self, pair: Pair) -> bool:
        # Of a dump without turns the record ends the sequence: the next of its name is another.
        return not pair.last and pair.sampler.turn.sequence in self._acted_otherwise


def _first(a: Sequence[str], b: Sequence[str]) -> tuple[int, str | None, str | None]:
    for number in range(max(len(a), len(b))):
        one = a[number] if number < len(a) else None
        two = b[number] if number < len(b) else None
        if one != two:
            return number, one, two
    raise AssertionError("they are equal")


def _other(
    what: Literal["state", "results", "payloads"],
    pair: Pair,
    number: int,
    one: str | None,
    two: str | None,
) -> OtherState:
    return OtherState(
        what=what,
        place=place_of(pair, 0, pair.sampler.turn.index or 0),
        number=number,
        sampler=one,
        trainer=two,
    )
