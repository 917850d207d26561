"""Nouns of the audit: what a dump of log-probs holds, and what is wrong with one.

A *dump* is a stream of turns. A **turn** is one stretch of consecutive tokens of a sequence, in the
order in which they were read or sampled: typically what the harness put in (masked), then what the
model wrote (trained on). A dump that knows no turns gives each sequence as one turn whose ``index``
is None.

Bits. A log-prob is kept as the integer that stands in the file (:class:`LogProbs`), never as a
number: two are equal when these integers are. What this means where storage differs is decided in
:mod:`kernelsmith.onpolicy.comparing`.

The native dump is JSONL, one object a line, owned by ``dump.py``. Its first line is the header
(:data:`SCHEMA`, then any of the fields of :class:`Header` that are not None); each line after it
is one turn, with the names of :class:`Turn`'s fields, those that are None left out:
``logprobs`` a list of JSON numbers (each the float64 that the value widens to, so that nothing is
lost), ``tokens`` a list of integers, ``mask`` a list of 0 and 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

SCHEMA = "kernelsmith.logprobs/1"
"""``schema`` of a native dump's first line."""

Side = Literal["sampler", "trainer"]
Dtype = Literal["bfloat16", "float16", "float32", "float64"]
Layer = Literal["state", "token", "numeric"]

SIDES: tuple[Side, ...] = get_args(Side)
DTYPES: tuple[Dtype, ...] = get_args(Dtype)

LAYERS: tuple[Layer, ...] = ("state", "token", "numeric")
"""In the order in which they are asked: a later one says nothing while an earlier one is broken."""

Words = npt.NDArray[np.unsignedinteger]
TokenIds = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProbs:
    """Log-probs as they are stored: ``words`` unsigned integers of the dtype's width, one a
    token."""

    words: Words
    dtype: Dtype

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, part: slice) -> "LogProbs":
        return LogProbs(words=self.words[part], dtype=self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a dump says of itself as a whole; None where it says nothing.

    ``dtype``: what the values were computed or held in before they became JSON numbers.
    ``epoch``: the numerics epoch (device, compiler, flags). ``weights``: which version of the
    policy, a digest or a step. ``by_turn``: whether its turns are numbered.
    """

    side: Side | None = None
    dtype: Dtype | None = None
    epoch: str | None = None
    device: str | None = None
    weights: str | None = None
    by_turn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One stretch of a sequence's tokens. What a dump does not hold is None, never a default.

    ``tokens``, ``logprobs`` and ``mask`` are as long as each other; ``mask`` is True where the
    token is trained on. ``payloads``: SHA-256 (hex) of the raw bytes of each tool call the model
    made, ``results`` those of what the tools gave back, ``state`` the digest of the sandbox when
    the turn began. ``masked_tokens`` and ``total_tokens`` are what the harness counted, kept beside
    the mask so that the two can be held against each other. ``epoch`` and ``weights`` override the
    header's. ``place``: where it stands in its dump, for messages (``line 7``).
    """

    sequence: str
    index: int | None = None
    tokens: TokenIds | None = None
    logprobs: LogProbs | None = None
    mask: Mask | None = None
    masked_tokens: int | None = None
    total_tokens: int | None = None
    state: str | None = None
    payloads: tuple[str, ...] | None = None
    results: tuple[str, ...] | None = None
    epoch: str | None = None
    weights: str | None = None
    place: str = ""

    def __len__(self) -> int:
        for values in (self.logprobs, self.tokens, self.mask):
            if values is not None:
                return len(values)
        return 0

    @property
    def where(self) -> str:
        """Its place, its sequence and its number, for messages."""
        number = "" if self.index is None else f", turn {self.index}"
        return f"{self.place}, sequence {self.sequence}{number}".removeprefix(", ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something wrong with the evidence, never averaged away.

    ``kind``: one of :data:`FAULTS`. ``detail`` tells the first one and ``place`` where it stands;
    ``count`` is how many like it there are. ``hides``: tokens are out of sight because of it, so
    nothing that was seen to be equal makes the whole on-policy.
    """

    kind: str
    side: Side | None
    detail: str
    place: str = ""
    count: int = 1
    hides: bool = True


FAULTS = {
    "truncated": "the file ends in the middle of a record",
    "malformed": "a record cannot be read",
    "missing_field": "a record lacks a field that others have",
    "missing_sequence": "a sequence, turn or its tail stands on one side only",
    "length": "tokens, log-probs and mask are not equally long",
    "nan": "a log-prob on a trained token is not a number",
    "infinite": "a log-prob on a trained token is infinite on both sides",
    "other_ids": "token ids differ between the sides",
    "other_mask": "the sides do not train on the same tokens",
    "mixed_epochs": "one dump mixes numerics epochs or weights",
    "other_epoch": "the sides name different numerics epochs",
    "other_weights": "the sides name different weights",
    "dtype": "the sides are stored in different dtypes",
    "coarse": "values are stored in a dtype that hides small differences",
    "inexact": "a number is none of the dtype that the dump declares",
    "positive": "a log-prob is above 0",
    "counts": "the harness counted other tokens than the mask has",
    "other_side": "the log-probs of a dump are those of the other side, by their name",
    "duplicate": "a turn stands twice in a dump",
    "empty": "no trained token is on both sides",
}
"""Every kind of fault and what it says."""


class Dump(Protocol):
    """A dump that is read once, from front to back, in bounded memory."""

    @property
    def header(self) -> Header:
        """What it says of itself."""

    def turns(self) -> Iterator[Turn]:
        """Its turns in the file's order. What cannot be read is left in ``faults``."""

    def faults(self) -> tuple[Fault, ...]:
        """What was wrong so far with reading it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDump:
    """A dump that is already in memory, as a trainer has it (a :class:`Dump`)."""

    header: Header = field(default_factory=Header)
    held: tuple[Turn, ...] = ()

    def turns(self) -> Iterator[Turn]:
        """Its turns."""
        return iter(self.held)

    def faults(self) -> tuple[Fault, ...]:
        """None: it was not read from anywhere."""
        return ()
