"""From a record of a file, whatever its format, to a turn; what it lacks is named."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelsmith.onpolicy.faults import Faults
from kernelsmith.onpolicy.fields import Fields, Names
from kernelsmith.onpolicy.model import (
    DTYPES,
    SIDES,
    Dtype,
    Fault,
    Header,
    LogProbs,
    Side,
    Turn,
)
from kernelsmith.onpolicy.storage import from_array, from_numbers

Read = tuple[Turn | None, tuple[Fault, ...]]
"""What came of one record: its turn, None where it cannot be read, and what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How records of one file are read: by which names, for which side. ``expected``: whether each
    must have log-probs, as its first has. ``whose``: whose they are by the name of their field."""

    fields: Fields
    side: Side
    header: Header
    expected: bool = True
    whose: Side | None = None


class FileDump:
    """A dump in a file of whatever format (a :class:`~.model.Dump`)."""

    def __init__(self, reading: Reading, read: Callable[[], Iterator[Read]]) -> None:
        """``read`` goes through the file's records in their order."""
        self.header = reading.header
        self._read = read
        self._faults = Faults()
        self._faults.add(*_side_faults(reading))

    def turns(self) -> Iterator[Turn]:
        """Its turns in the file's order."""
        for turn, faults in self._read():
            self._faults.add(*faults)
            if turn is not None:
                yield turn

    def faults(self) -> tuple[Fault, ...]:
        """What was wrong so far."""
        return self._faults.all()


def turn_of(record: Mapping[str, Any], reading: Reading, number: int, place: str) -> Read:
    """One record as a turn.

    ``number``: of the record in its file; its name where it has none of its own.
    """
    fields, side = reading.fields, reading.side
    faults: list[Fault] = []
    try:
        logprobs, inexact = _logprobs(_first(record, fields.logprobs(side)), reading.header.dtype)
        tokens = _integers(_first(record, fields.tokens))
        mask = _integers(_first(record, fields.mask))
        index = _whole(_first(record, fields.turn))
        if inexact:
            detail = f"{inexact} numbers are no {reading.header.dtype}"
            faults.append(Fault(kind="inexact", side=side, detail=detail, place=place, hides=False))
        tokens = _tail(tokens, _whole(_first(record, fields.length)), fields)
        turn = Turn(
            sequence=_name(_first(record, fields.sequence), number),
            index=index,
            tokens=tokens,
            logprobs=logprobs,
            mask=None if mask is None else mask != 0,
            masked_tokens=_whole(_first(record, fields.masked_tokens)),
            total_tokens=_whole(_first(record, fields.total_tokens)),
            state=_text(_first(record, fields.state)),
            payloads=_texts(_first(record, fields.payloads)),
            results=_texts(_first(record, fields.results)),
            epoch=_text(_first(record, fields.epoch)) or reading.header.epoch,
            weights=_version(_first(record, fields.weights)) or reading.header.weights,
            place=place,
        )
    except (TypeError, ValueError, OverflowError) as error:
        return None, (Fault(kind="malformed", side=side, detail=str(error), place=place),)
    return turn, (*faults, *_own_faults(turn, side, reading.expected))


def _own_faults(turn: Turn, side: Side, expected: bool) -> tuple[Fault, ...]:
    """What one turn says against itself."""
    faults: list[Fault] = []

    def add(kind: str, detail: str) -> None:
        faults.append(Fault(kind=kind, side=side, detail=detail, place=turn.where))

    sizes = {
        name: len(held)
        for name, held in (
            ("log-probs", turn.logprobs),
            ("token ids", turn.tokens),
            ("mask", turn.mask),
        )
        if held is not None
    }
    if len(set(sizes.values())) > 1:
        add("length", ", ".join(f"{count:,} {name}" for name, count in sizes.items()))
    trained = turn.mask is None or bool(turn.mask.any())
    if turn.logprobs is None and expected and trained:
        add("missing_field", "no log-probs")
    if turn.mask is not None and turn.masked_tokens is not None:
        masked = int(np.count_nonzero(~turn.mask))
        if masked != turn.masked_tokens:
            add(
                "counts", f"{turn.masked_tokens:,} tokens counted as masked, {masked:,} in the mask"
            )
    if turn.total_tokens is not None and sizes and turn.total_tokens != len(turn):
        add("counts", f"{turn.total_tokens:,} tokens counted, {len(turn):,} in the dump")
    return tuple(faults)


def _side_faults(reading: Reading) -> tuple[Fault, ...]:
    """Named where a dump says that its log-probs are the other side's."""
    for said, what in ((reading.header.side, "header"), (reading.whose, "field")):
        if said not in (None, reading.side):
            detail = f"its {what} says that they are the {said}'s"
            return (Fault(kind="other_side", side=reading.side, detail=detail, hides=False),)
    return ()


def header_of(record: Mapping[str, Any]) -> Header:
    """The header that a record with a ``schema`` is; what it does not say, or says in another type,
    is None."""
    side, dtype = record.get("side"), record.get("dtype")
    return Header(
        side=side if side in SIDES else None,
        dtype=dtype if dtype in DTYPES else None,
        epoch=_text(record.get("epoch")),
        device=_text(record.get("device")),
        weights=_version(record.get("weights")),
        by_turn=record.get("by_turn") is True,
    )


def _first(record: Mapping[str, Any], names: Names) -> Any:
    for name in names:
        value = record.get(name)
        if value is not None:
            return value
    return None


def _logprobs(value: Any, declared: Dtype | None) -> tuple[LogProbs | None, int]:
    if value is None:
        return None, 0
    if isinstance(value, LogProbs):
        return value, 0
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return from_array(value), 0
    return from_numbers(value, declared)


def _integers(value: Any) -> Any:
    if value is None:
        return None
    held = np.asarray(value)
    if held.ndim != 1:
        raise ValueError("token ids or mask are not one flat list")
    if held.size == 0:
        return held.astype(np.int64)
    with np.errstate(invalid="ignore"):
        whole = held.astype(np.int64)
    if held.dtype.kind not in "iub" and not np.array_equal(whole, held):
        raise ValueError("token ids or mask hold a fraction")
    return whole


def _tail(tokens: Any, length: int | None, fields: Fields) -> Any:
    """The response's tokens, where a stack keeps prompt and response in one list."""
    if tokens is None or not fields.length or length is None:
        return tokens
    return tokens[len(tokens) - length :] if length <= len(tokens) else tokens


def _whole(value: Any) -> int | None:
    if value is None or isinstance(value, bool):
        return None
    whole = int(value)
    if whole != value:
        raise ValueError(f"{value!r} is not a whole number")
    return whole


def _name(value: Any, number: int) -> str:
    return str(number if value is None else value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _version(value: Any) -> str | None:
    """A version of the weights; of a list, as slime keeps one a turn, all that differ."""
    if isinstance(value, list | tuple | np.ndarray):
        return "+".join(dict.fromkeys(str(each) for each in value)) or None
    return _text(value)


def _texts(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        raise ValueError("digests are one text, not a list")
    return tuple(str(each) for each in value)
