"""Faults that show only when two dumps stand beside each other, or over a whole dump."""

import math

import numpy as np

from kernelsmith.onpolicy.comparing import Compared
from kernelsmith.onpolicy.faults import Faults
from kernelsmith.onpolicy.model import SIDES, Dtype, Fault, Header, LogProbs, Side, Turn
from kernelsmith.onpolicy.pairing import Alone
from kernelsmith.onpolicy.storage import numbers

_COARSE: tuple[Dtype, ...] = ("bfloat16", "float16")


class Watch:
    """Names what is wrong with pairs, and with what is on one side only."""

    def __init__(self) -> None:
        self._faults = Faults()
        self._epochs: dict[Side, tuple[str | None, str | None]] = {}

    def faults(self) -> tuple[Fault, ...]:
        """What was wrong so far."""
        return self._faults.all()

    def add(self, compared: Compared) -> None:
        """Looks at one pair."""
        a, b = compared.pair.sampler.turn, compared.pair.trainer.turn
        self._epoch("sampler", a)
        self._epoch("trainer", b)
        if a.weights is not None and b.weights is not None and a.weights != b.weights:
            detail = f"{a.weights} at the sampler, {b.weights} at the trainer"
            self._add("other_weights", None, detail, a.where)
        if compared.lengths is not None:
            ours, theirs = compared.lengths
            detail = f"{ours:,} tokens at the sampler, {theirs:,} at the trainer"
            self._add("length", None, detail, a.where)
        if compared.nan:
            self._nan(compared)
        if compared.infinite:
            self._add("infinite", None, "bit-equal, but no ratio", a.where, compared.infinite)
        self._dtypes(compared)
        self._above_zero(compared)

    def _nan(self, compared: Compared) -> None:
        at = compared.first_nan
        assert at is not None
        a, b = compared.pair.sampler.turn, compared.pair.trainer.turn
        sides = [
            name
            for name, held in (("sampler", a.logprobs), ("trainer", b.logprobs))
            if held is not None and math.isnan(_one(held, at))
        ]
        detail = f"token {compared.pair.sampler.position + at}, at the {' and the '.join(sides)}"
        self._add("nan", None, detail, a.where, compared.nan)

    def _dtypes(self, compared: Compared) -> None:
        if compared.dtypes is None:
            return
        a, b = compared.dtypes
        where = compared.pair.sampler.turn.where
        if a != b:
            detail = f"{a} beside {b}: compared as {compared.dtype}, to which both widen exactly"
            self._add("dtype", None, detail, where, hides=False)
        sides: tuple[tuple[Side, Dtype], ...] = (("sampler", a), ("trainer", b))
        for side, dtype in sides:
            if dtype in _COARSE:
                detail = f"{dtype}: log-probs that differ by less are stored as equal"
                self._add("coarse", side, detail, where, hides=False)

    def _above_zero(self, compared: Compared) -> None:
        where = compared.pair.sampler.turn.where
        sides: tuple[tuple[Side, np.ndarray], ...] = (
            ("sampler", compared.sampler),
            ("trainer", compared.trainer),
        )
        for side, values in sides:
            above = values > 0.0
            if above.any():
                detail = f"{float(values[above][0])!r} is above 0: is it a log-prob?"
                count = int(np.count_nonzero(above))
                self._add("positive", side, detail, where, count, hides=False)

    def _epoch(self, side: Side, turn: Turn) -> None:
        now = (turn.epoch, turn.weights)
        before = self._epochs.setdefault(side, now)
        if now == before:
            return
        for what, first, other in (
            ("epoch", before[0], now[0]),
            ("weights", before[1], now[1]),
        ):
            if first != other:
                detail = f"{what} {other}, where it began with {first}"
                self._add("mixed_epochs", side, detail, turn.where)

    def alone(self, alone: Alone, *, hides: bool) -> None:
        """Looks at what found no partner."""
        turn = alone.stretch.turn
        what = f"its last {len(turn):,} tokens" if alone.tail else f"{len(turn):,} tokens"
        self._add("missing_sequence", alone.side, what, turn.where, hides=hides)

    def end(self, tokens: int, sampler: Header, trainer: Header) -> None:
        """Looks at the whole."""
        ends = [self._epochs.get(side, (None, None))[0] for side in SIDES]
        mine, theirs = ends[0] or sampler.epoch, ends[1] or trainer.epoch
        if mine is not None and theirs is not None and mine != theirs:
            detail = f"{mine} at the sampler, {theirs} at the trainer"
            self._add("other_epoch", None, detail, "", hides=False)
        if not tokens:
            self._add("empty", None, "nothing was compared", "")

    def _add(
        self,
        kind: str,
        side: Side | None,
        detail: str,
        place: str,
        count: int = 1,
        hides: bool = True,
    ) -> None:
        fault = Fault(kind=kind, side=side, detail=detail, place=place, count=count, hides=hides)
        self._faults.add(fault)


def _one(logprobs: LogProbs, at: int) -> float:
    return float(numbers(logprobs[at : at + 1])[0])
