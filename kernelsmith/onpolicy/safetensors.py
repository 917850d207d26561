"""Dumps as safetensors: tensors [sequences, tokens], read row by row.

The format is a length, a JSON table of names, dtypes, shapes and offsets, and the bytes
(https://github.com/huggingface/safetensors, "Format"). It is read here by hand because numpy has no
bfloat16 and because a mapped file would count as memory of ours.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kernelsmith.errors import InputError
from kernelsmith.model import ITEMSIZE_BYTES
from kernelsmith.onpolicy.fields import Mapped, fields_of
from kernelsmith.onpolicy.model import Dtype, Fault, Side
from kernelsmith.onpolicy.records import FileDump, Read, Reading, header_of, turn_of
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
            return ITEMSIZE_BYTES[_FLOATS[self.dtype]]
        return np.dtype(_INTEGERS[self.dtype]).itemsize


def open_safetensors(path: Path, side: Side, mapped: tuple[Mapped, ...]) -> FileDump:
    """A dump in one safetensors file. Memory: one row; a flat tensor is one row.

    Its ``__metadata__`` may say what a native header says (``epoch``, ``device``, ``weights``).

    Raises:
        InputError: not a safetensors file, or no log-probs of this side in it.
    """
    tensors, metadata = _table(path)
    fields, whose = fields_of(tensors.keys(), side, mapped, str(path))
    reading = Reading(fields=fields, side=side, header=header_of(metadata), whose=whose)
    return FileDump(reading, partial(_read, path, tensors, reading))


def _read(path: Path, tensors: Mapping[str, Tensor], reading: Reading) -> Iterator[Read]:
    """One turn a row."""
    side = reading.side
    names = reading.fields.logprobs(side)
    shape = next(tensors[name].shape for name in names if name in tensors)
    flat = len(shape) == 1
    with path.open("rb") as file:
        for row in range(shape[0] if len(shape) > 1 else 1):
            place = f"row {row}"
            try:
                record = {
                    name: _row(file, tensor, row, flat=flat)
                    for name, tensor in tensors.items()
                    if flat or tensor.shape[:1] == shape[:1]
                }
            except EOFError as error:
                yield None, (Fault(kind="truncated", side=side, detail=str(error), place=place),)
                return
            yield turn_of(record, reading, row, place)


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
