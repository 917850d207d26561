"""A failed audit as a small regression case: the one sequence that shows it, in one file."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kernelsmith.errors import InputError
from kernelsmith.onpolicy.evidence import Place
from kernelsmith.onpolicy.fields import NATIVE
from kernelsmith.onpolicy.model import Dump, Fault, Header, HeldDump, Side, Turn
from kernelsmith.onpolicy.pairing import Stretch, cut
from kernelsmith.onpolicy.records import Reading, header_of, turn_of
from kernelsmith.onpolicy.storage import json_record

SCHEMA = "kernelsmith.audit-case/1"
Mode = Literal["two", "three"]
RUNS: Mapping[Mode, tuple[Side, ...]] = {
    "two": ("sampler", "trainer"),
    "three": ("sampler", "sampler", "trainer"),
}
"""Whose log-probs each dump has. Of three runs the last may be left out."""
_BEHIND = 32
"""So many tokens behind the place are kept of a sequence that is one record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One sequence of every run, up to where it broke, and what the audit said of it."""

    mode: Mode
    verdict: str
    broken_layer: str | None
    sequence: str
    dumps: tuple[HeldDump, ...]


def case_of(
    mode: Mode,
    verdict: str,
    broken_layer: str | None,
    place: Place,
    opened: Sequence[Callable[[], Dump]],
) -> Case:
    """Goes through the dumps once more for the sequence that broke.

    Of numbered turns those up to the broken one are kept, of whole records the tokens up to a few
    behind the place; nothing is cut where one dump is of the one kind and one of the other.
    """
    held = [_held(open_one(), place.sequence) for open_one in opened]
    numbered = {turn.index is not None for dump in held for turn in dump.held}
    if len(numbered) == 1:
        held = [replace(dump, held=tuple(_up_to(dump.held, place))) for dump in held]
    return Case(
        mode=mode,
        verdict=verdict,
        broken_layer=broken_layer,
        sequence=place.sequence,
        dumps=tuple(held),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Only:
    """A dump of which only one sequence is looked at (a :class:`~.model.Dump`)."""

    dump: Dump
    sequence: str

    @property
    def header(self) -> Header:
        """The dump's."""
        return self.dump.header

    def turns(self) -> Iterator[Turn]:
        """The sequence's turns."""
        return (turn for turn in self.dump.turns() if turn.sequence == self.sequence)

    def faults(self) -> tuple[Fault, ...]:
        """The dump's."""
        return self.dump.faults()


def _held(dump: Dump, sequence: str) -> HeldDump:
    turns = tuple(Only(dump=dump, sequence=sequence).turns())
    return HeldDump(header=dump.header, held=turns)


def _up_to(turns: Sequence[Turn], place: Place) -> Iterator[Turn]:
    for turn in turns:
        if turn.index is None:
            stretch = Stretch(turn=turn, offset=0)
            yield cut(stretch, 0, place.token + _BEHIND).turn
        elif turn.index <= place.turn:
            yield turn


def save(case: Case, folder: Path) -> Path:
    """Writes a case under a name that its content gives it.

    Raises:
        InputError: the folder cannot be written.
    """
    text = _text(case)
    path = folder / f"audit-case-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"the case cannot be written to {path}: {error.strerror}", hint="--case FOLDER"
        ) from error
    return path


def _text(case: Case) -> str:
    said = {
        "schema": SCHEMA,
        "mode": case.mode,
        "verdict": case.verdict,
        "broken_layer": case.broken_layer,
        "sequence": case.sequence,
    }
    dumps = ",".join(
        f'{{"header":{json_record(asdict(dump.header))},'
        f'"turns":[{",".join(json_record(_plain(turn)) for turn in dump.held)}]}}'
        for dump in case.dumps
    )
    return f'{json_record(said)[:-1]},"dumps":[{dumps}]}}\n'


def load(path: Path) -> Case:
    """Reads a case.

    Raises:
        InputError: not there, or no case.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}")
        mode: Mode = document["mode"]
        return Case(
            mode=mode,
            verdict=document["verdict"],
            broken_layer=document["broken_layer"],
            sequence=document["sequence"],
            dumps=tuple(
                _read(told, side) for told, side in zip(document["dumps"], RUNS[mode], strict=False)
            ),
        )
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint="`audit replay CASE`") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is no case of an audit: {error}", hint="`audit` writes one when it fails"
        ) from error


def _read(told: Mapping[str, Any], side: Side) -> HeldDump:
    header = header_of(told["header"])
    reading = Reading(fields=NATIVE, side=side, header=header, expected=False)
    turns = []
    for number, record in enumerate(told["turns"]):
        turn, _ = turn_of(record, reading, number, record.get("place", ""))
        if turn is None:
            raise ValueError(f"turn {number} cannot be read")
        turns.append(turn)
    return HeldDump(header=header, held=tuple(turns))


def _plain(turn: Turn) -> dict[str, Any]:
    """A turn as a record with the native names; what it lacks is left out."""
    record = {
        "sequence": turn.sequence,
        "turn": turn.index,
        "tokens": None if turn.tokens is None else turn.tokens.tolist(),
        "logprobs": turn.logprobs,
        "mask": None if turn.mask is None else turn.mask.astype(int).tolist(),
        "state": turn.state,
        "payloads": turn.payloads,
        "results": turn.results,
        "epoch": turn.epoch,
        "weights": turn.weights,
        "place": turn.place,
    }
    return {name: value for name, value in record.items() if value is not None}
