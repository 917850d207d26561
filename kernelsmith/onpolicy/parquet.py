"""Dumps as parquet: one record a row, lists in columns; needs pyarrow, of the extra ``[audit]``."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.errors import InputError, MissingError
from kernelsmith.onpolicy.faults import Faults
from kernelsmith.onpolicy.fields import Mapped, fields_of
from kernelsmith.onpolicy.model import Fault, Header, Side, Turn
from kernelsmith.onpolicy.records import Reading, header_of, side_faults, turn_of

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

_BATCH_ROWS = 16


class Parquet:
    """A dump in one parquet file. Memory: a few rows and the pages they stand in."""

    def __init__(self, path: Path, side: Side, mapped: tuple[Mapped, ...]) -> None:
        """Opens it.

        Raises:
            InputError: not a parquet file, or no log-probs of this side in it.
            MissingError: pyarrow is not installed.
        """
        self._side = side
        self._faults = Faults()
        self._file, names = _opened(path)
        fields, whose = fields_of(names, side, mapped, str(path))
        metadata = self._file.schema_arrow.metadata or {}
        told = {_text(key): _text(value) for key, value in metadata.items()}
        self._reading = Reading(fields=fields, side=side, header=header_of(told), whose=whose)
        self._faults.add(*side_faults(self._reading))
        self._columns = [name for name in names if name in _all_names(self._reading)]

    @property
    def header(self) -> Header:
        """What the schema's metadata says."""
        return self._reading.header

    def faults(self) -> tuple[Fault, ...]:
        """What was wrong so far."""
        return self._faults.all()

    def turns(self) -> Iterator[Turn]:
        """One turn a row."""
        row = 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, columns=self._columns):
                for at in range(batch.num_rows):
                    record = {
                        name: _value(batch.column(i)[at]) for i, name in enumerate(self._columns)
                    }
                    turn, faults = turn_of(record, self._reading, row, f"row {row}")
                    self._faults.add(*faults)
                    row += 1
                    if turn is not None:
                        yield turn
        except _errors() as error:
            detail = str(error)[:200]
            self._faults.add(
                Fault(kind="truncated", side=self._side, detail=detail, place=f"row {row}")
            )


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


def _all_names(reading: Reading) -> set[str]:
    fields = reading.fields
    groups = [getattr(fields, name) for name in fields.__slots__ if name != "stack"]
    return {name for group in groups for name in group}


def _opened(path: Path) -> tuple["ParquetFile", list[str]]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingError(
            f"{path} is parquet, and pyarrow is not installed",
            hint="pip install 'kernelsmith-rl[audit]'",
        ) from error
    try:
        file = ParquetFile(path)
    except _errors() as error:
        raise InputError(
            f"{path} is not a whole parquet file: {str(error)[:200]}",
            hint="a parquet file whose writer was killed has no footer: nothing of it can be read",
        ) from error
    return file, list(file.schema_arrow.names)
