"""Dumps as JSON lines: one record a line, read one at a time; ``.gz`` and ``.zst`` too."""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import zstandard

from kernelsmith.errors import InputError
from kernelsmith.onpolicy.fields import Mapped, fields_of, holds
from kernelsmith.onpolicy.model import SCHEMA, Fault, Header, Side
from kernelsmith.onpolicy.records import FileDump, Read, Reading, header_of, turn_of

_MINUS_ZERO = re.compile(rb"-0(?=[\s,\]])")


def open_jsonl(
    path: Path, side: Side, mapped: tuple[Mapped, ...], *, bare: bool = False
) -> FileDump:
    """A dump of JSON lines, read as far as its first record. Memory: the longest line.

    A last line that was cut (a writer that was killed) is named ``truncated``; any other that
    cannot be read ``malformed``. What comes after is read all the same. ``bare``: it need not have
    log-probs.

    Raises:
        InputError: the file has no record with log-probs of this side.
    """
    reading = _begun(path, side, mapped, bare)
    return FileDump(reading, partial(_read, path, reading))


def _read(path: Path, reading: Reading) -> Iterator[Read]:
    for number, (place, record) in enumerate(_records(path, reading.side)):
        if isinstance(record, Fault):
            yield None, (record,)
        elif "schema" in record:  # a writer that was started again says again what it is
            reading = replace(reading, header=header_of(record))
        else:
            yield turn_of(record, reading, number, place)


def _begun(path: Path, side: Side, mapped: tuple[Mapped, ...], bare: bool) -> Reading:
    """How to read the file, by its header, if it has one, and its first record."""
    header, native = Header(), False
    for _, record in _records(path, side):
        if isinstance(record, Fault):
            continue
        if "schema" in record and not native:
            _check_schema(path, record["schema"])
            header, native = header_of(record), True
            continue
        without = native or (bare and not holds(record.keys()))
        fields, whose = fields_of(record.keys(), side, mapped, str(path), native=without)
        expected = any(field in record for field in fields.logprobs(side))
        return Reading(fields=fields, side=side, header=header, expected=expected, whose=whose)
    if not native:
        raise InputError(
            f"{path} has no record that can be read", hint="JSON lines, one object a line"
        )
    fields, _ = fields_of((), side, (), str(path), native=True)
    return Reading(fields=fields, side=side, header=header)


def _check_schema(path: Path, schema: object) -> None:
    if schema != SCHEMA:
        raise InputError(
            f"{path} is a {str(schema)[:60]!r}, this version reads {SCHEMA}",
            hint="was it written by another version of kernelsmith?",
        )


def _records(path: Path, side: Side) -> Iterator[tuple[str, Mapping[str, Any] | Fault]]:
    """Each line's place and what it holds, or what is wrong with it."""

    def fault(kind: str, error: Exception, place: str) -> tuple[str, Fault]:
        return place, Fault(kind=kind, side=side, detail=str(error), place=place)

    with _opened(path) as lines:
        try:
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
                    yield fault(kind, error, place)
                else:
                    yield place, record
        except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            yield fault("truncated", error, "compressed data")


def _parsed(line: bytes) -> Any:
    """JSON's ``-0`` is a negative zero; Python's parser would make it the integer 0."""
    if _MINUS_ZERO.search(line):
        return json.loads(line, parse_int=lambda text: -0.0 if text == "-0" else int(text))
    return json.loads(line)


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[bytes]]:
    """The file's lines, decompressed if need be."""
    with path.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic[:2] == b"\x1f\x8b":
            yield gzip.open(file)  # noqa: SIM115 - `file` is closed below
        elif magic == b"\x28\xb5\x2f\xfd":
            yield io.BufferedReader(zstandard.open(file))
        else:
            yield file
