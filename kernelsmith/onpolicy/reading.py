"""Opens a dump, whatever its format: what the file begins with decides, not its name."""

from pathlib import Path

from kernelsmith.errors import InputError
from kernelsmith.onpolicy.fields import Mapped
from kernelsmith.onpolicy.jsonl import open_jsonl
from kernelsmith.onpolicy.model import Dump, Side
from kernelsmith.onpolicy.parquet import open_parquet
from kernelsmith.onpolicy.safetensors import open_safetensors


def open_dump(
    path: Path, side: Side, mapped: tuple[Mapped, ...] = (), *, bare: bool = False
) -> Dump:
    """A dump of one side, read as far as its first record. ``bare``: JSON lines may do without
    log-probs, as a provider leaves them that gives none.

    Raises:
        InputError: not there, of no known format, or without log-probs of this side.
        MissingError: parquet, and pyarrow is not installed.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise InputError(f"{path} {what}", hint="a dump is a .jsonl, .safetensors or .parquet file")
    with path.open("rb") as file:
        begin = file.read(10)
    if not begin:
        raise InputError(f"{path} is empty", hint="was its writer killed before the first record?")
    if begin[:4] == b"PAR1":
        return open_parquet(path, side, mapped)
    if begin[:2] == b"PK" or begin[:1] == b"\x80":
        raise InputError(
            f"{path} is a pickle, as torch.save writes it: to read one is to run it",
            hint="write its log-probs as safetensors, parquet or JSON lines (docs/guides/audit.md)",
        )
    # A table of tensors begins behind its length of eight bytes.
    if begin[8:9] == b"{" and b"\0" in begin[:8]:
        return open_safetensors(path, side, mapped)
    return open_jsonl(path, side, mapped, bare=bare)
