"""Dumps as safetensors: tensors [sequences, tokens], read row by row.

The format is a length, a JSON table of names, dtypes, shapes and offsets, and the bytes
(https://github.com/huggingface/safetensors, "Format"). It is read here by hand because numpy has no
bfloat16 and because a mapped file would count as memory of ours.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kernelsmith.errors import InputError
from kernelsmith.onpolicy.faults import Faults
from kernelsmith.onpolicy.fields import Mapped, fields_of
from kernelsmith.onpolicy.model import Dtype, Fault, Header, Side, Turn
from kernelsmith.onpolicy.records import Reading, header_of, side_faults, turn_of
from kernelsmith.onpolicy.storage import from_words

_FLOATS: dict[str, Dtype] = {
    "BF16": "bfloat16",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
}
_INTEGERS = {
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "u1",
}
_HALVES = ("BF16", "F16")
_LONGEST_TABLE_BYTES = 100_000_000  # what the format allows


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor of a file: where its bytes begin, counted from the file's beginning."""

    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        if self.dtype in _FLOATS:
            return {"BF16": 2, "F16": 2, "F32": 4, "F64": 8}[self.dtype]
        return np.dtype(_INTEGERS[self.dtype]).itemsize


class Safetensors:
    """A dump in one safetensors file. Memory: one row; a flat tensor is one row.

    Its ``__metadata__`` may say what a native header says (``epoch``, ``device``, ``weights``).
    """

    def __init__(self, path: Path, side: Side, mapped: tuple[Mapped, ...]) -> None:
        """Reads the table.

        Raises:
            InputError: not a safetensors file, or no log-probs of this side in it.
        """
        self._path, self._side = path, side
        self._faults = Faults()
        self._tensors, metadata = _table(path)
        fields, whose = fields_of(self._tensors.keys(), side, mapped, str(path))
        header = header_of(metadata)
        self._reading = Reading(fields=fields, side=side, header=header, whose=whose)
        self._faults.add(*side_faults(self._reading))

    @property
    def header(self) -> Header:
        """What its metadata says."""
        return self._reading.header

    def faults(self) -> tuple[Fault, ...]:
        """What was wrong so far."""
        return self._faults.all()

    def turns(self) -> Iterator[Turn]:
        """One turn a row."""
        names = self._reading.fields.logprobs(self._side)
        shape = next(self._tensors[name].shape for name in names if name in self._tensors)
        with self._path.open("rb") as file:
            for row in range(shape[0] if len(shape) > 1 else 1):
                try:
                    record = {
                        name: _row(file, tensor, row, flat=len(shape) == 1)
                        for name, tensor in self._tensors.items()
                        if len(shape) == 1 or tensor.shape[:1] == shape[:1]
                    }
                except EOFError as error:
                    place = f"row {row}"
                    self._faults.add(
                        Fault(kind="truncated", side=self._side, detail=str(error), place=place)
                    )
                    return
                turn, faults = turn_of(record, self._reading, row, f"row {row}")
                self._faults.add(*faults)
                if turn is not None:
                    yield turn


def _row(file: BinaryIO, tensor: Tensor, row: int, *, flat: bool) -> Any:
    """Row ``row`` of a tensor: log-probs, an array of integers, or one number."""
    shape = tensor.shape if flat else tensor.shape[1:]
    nbytes = math.prod(shape) * tensor.itemsize
    file.seek(tensor.start + (0 if flat else row * nbytes))
    data = file.read(nbytes)
    if len(data) < nbytes:
        raise EOFError("the file is shorter than its table says")
    if tensor.dtype in _FLOATS:
        return from_words(data, _FLOATS[tensor.dtype])
    values = np.frombuffer(data, dtype=_INTEGERS[tensor.dtype])
    return int(values[0]) if shape == () else values


def _table(path: Path) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
    """The tensors that can be read (other dtypes are left out) and the metadata.

    Raises:
        InputError: not a safetensors file.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= _LONGEST_TABLE_BYTES:
                raise ValueError(f"a table of {length:,} bytes")
            table = json.loads(file.read(length))
        metadata = table.pop("__metadata__", None) or {}
        tensors = {
            name: Tensor(
                dtype=told["dtype"],
                shape=tuple(int(size) for size in told["shape"]),
                start=8 + length + int(told["data_offsets"][0]),
            )
            for name, told in table.items()
            if told["dtype"] in _FLOATS or told["dtype"] in _INTEGERS
        }
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise InputError(
            f"{path} is not a safetensors file: {error}",
            hint="was it cut, or is it another format?",
        ) from error
    return tensors, metadata
