"""Dumps as parquet: one record a row, lists in columns; needs pyarrow, of the extra ``[audit]``."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.errors import InputError, MissingError
from kernelsmith.onpolicy.fields import Mapped, fields_of
from kernelsmith.onpolicy.model import Fault, Side
from kernelsmith.onpolicy.records import FileDump, Read, Reading, header_of, turn_of

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

_BATCH_ROWS = 16


def open_parquet(path: Path, side: Side, mapped: tuple[Mapped, ...]) -> FileDump:
    """A dump in one parquet file. Memory: a few rows and the pages they stand in.

    Its schema's metadata may say what a native header says.

    Raises:
        InputError: not a parquet file, or no log-probs of this side in it.
        MissingError: pyarrow is not installed.
    """
    file = _opened(path)
    fields, whose = fields_of(file.schema_arrow.names, side, mapped, str(path))
    metadata = file.schema_arrow.metadata or {}
    told = {_text(key): _text(value) for key, value in metadata.items()}
    reading = Reading(fields=fields, side=side, header=header_of(told), whose=whose)
    return FileDump(reading, partial(_read, file, reading))


def _read(file: "ParquetFile", reading: Reading) -> Iterator[Read]:
    """One turn a row."""
    wanted = reading.fields.names
    columns = [name for name in file.schema_arrow.names if name in wanted]
    row = 0
    try:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
            for at in range(batch.num_rows):
                record = {name: _value(batch.column(i)[at]) for i, name in enumerate(columns)}
                yield turn_of(record, reading, row, f"row {row}")
                row += 1
    except _errors() as error:
        detail, place = str(error)[:200], f"row {row}"
        yield None, (Fault(kind="truncated", side=reading.side, detail=detail, place=place),)


def _errors() -> tuple[type[Exception], ...]:
    """What pyarrow raises for a file that is not whole, or not what it says."""
    import pyarrow

    return (pyarrow.ArrowException, OSError, ValueError)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _value(scalar: Any) -> Any:
    """A list of floats keeps its dtype; all else becomes Python's own."""
    import pyarrow

    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        inner = kind.value_type
        if pyarrow.types.is_floating(inner) or pyarrow.types.is_integer(inner):
            return scalar.values.to_numpy(zero_copy_only=False)
    return scalar.as_py()


def _opened(path: Path) -> "ParquetFile":
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingError(
            f"{path} is parquet, and pyarrow is not installed",
            hint="pip install 'kernelsmith-rl[audit]'",
        ) from error
    try:
        return ParquetFile(path)
    except _errors() as error:
        raise InputError(
            f"{path} is not a whole parquet file: {str(error)[:200]}",
            hint="a parquet file whose writer was killed has no footer: nothing of it can be read",
        ) from error
