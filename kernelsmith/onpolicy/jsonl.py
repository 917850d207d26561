"""Dumps as JSON lines: one record a line, read one at a time; ``.gz`` and ``.zst`` too."""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelsmith.errors import InputError
from kernelsmith.onpolicy.faults import Faults
from kernelsmith.onpolicy.fields import Mapped, fields_of, holds
from kernelsmith.onpolicy.model import SCHEMA, Fault, Header, Side, Turn
from kernelsmith.onpolicy.records import Reading, header_of, side_faults, turn_of

_MINUS_ZERO = re.compile(rb"-0(?=[\s,\]])")


class JsonLines:
    """A dump of JSON lines. Memory: the longest line.

    A last line that was cut (a writer that was killed) is named ``truncated``; any other that
    cannot be read ``malformed``. What comes after is read all the same.
    """

    def __init__(
        self, path: Path, side: Side, mapped: tuple[Mapped, ...], *, bare: bool = False
    ) -> None:
        """Reads as far as the first record. ``bare``: it need not have log-probs.

        Raises:
            InputError: the file has no record with log-probs of this side.
        """
        self._bare = bare
        self._path, self._side = path, side
        self._faults = Faults()
        self._reading = self._begin(mapped)
        self._faults.add(*side_faults(self._reading))

    @property
    def header(self) -> Header:
        """What the file's first header says."""
        return self._reading.header

    def faults(self) -> tuple[Fault, ...]:
        """What was wrong so far."""
        return self._faults.all()

    def turns(self) -> Iterator[Turn]:
        """Its turns in the file's order."""
        reading = self._reading
        for number, (place, record) in enumerate(self._turn_records(self._faults)):
            if record is None:
                continue
            if "schema" in record:  # a writer that was started again says again what it is
                reading = replace(reading, header=header_of(record))
                continue
            turn, faults = turn_of(record, reading, number, place)
            self._faults.add(*faults)
            if turn is not None:
                yield turn

    def _begin(self, mapped: tuple[Mapped, ...]) -> Reading:
        header, native = Header(), False
        for _, record in self._turn_records(Faults()):
            if record is None:
                continue
            if "schema" in record and not native:
                self._check_schema(record["schema"])
                header, native = header_of(record), True
                continue
            name = str(self._path)
            bare = self._bare and not holds(record.keys())
            fields, whose = fields_of(
                record.keys(), self._side, mapped, name, native=native or bare
            )
            expected = any(field in record for field in fields.logprobs(self._side))
            return Reading(
                fields=fields, side=self._side, header=header, expected=expected, whose=whose
            )
        if not native:
            raise InputError(
                f"{self._path} has no record that can be read", hint="JSON lines, one object a line"
            )
        fields, _ = fields_of((), self._side, (), str(self._path), native=True)
        return Reading(fields=fields, side=self._side, header=header)

    def _check_schema(self, schema: object) -> None:
        if schema != SCHEMA:
            raise InputError(
                f"{self._path} is a {str(schema)[:60]!r}, this version reads {SCHEMA}",
                hint="was it written by another version of kernelsmith?",
            )

    def _turn_records(self, faults: Faults) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
        with _lines(self._path, faults, self._side) as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                place = f"line {number}"
                try:
                    record = _parsed(line)
                    if not isinstance(record, dict):
                        raise ValueError("not an object")
                except (ValueError, RecursionError) as error:
                    kind = "malformed" if line.endswith(b"\n") else "truncated"
                    faults.add(Fault(kind=kind, side=self._side, detail=str(error), place=place))
                    yield place, None
                    continue
                yield place, record


def _parsed(line: bytes) -> Any:
    """JSON's ``-0`` is a negative zero; Python's parser would make it the integer 0."""
    if _MINUS_ZERO.search(line):
        return json.loads(line, parse_int=lambda text: -0.0 if text == "-0" else int(text))
    return json.loads(line)


@contextmanager
def _lines(path: Path, faults: Faults, side: Side) -> Iterator[Iterator[bytes]]:
    with path.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        stream: Iterable[bytes] = file
        if magic[:2] == b"\x1f\x8b":
            stream = gzip.open(file)  # noqa: SIM115 - `file` is closed below
        elif magic == b"\x28\xb5\x2f\xfd":
            import zstandard

            stream = io.BufferedReader(zstandard.open(file))
        yield _cut(stream, faults, side)


def _cut(stream: Iterable[bytes], faults: Faults, side: Side) -> Iterator[bytes]:
    try:
        yield from stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        faults.add(Fault(kind="truncated", side=side, detail=str(error), place="compressed data"))
