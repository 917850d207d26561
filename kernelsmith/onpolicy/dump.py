"""Probes: what a trainer or a harness calls to write a dump, one turn a line as it happens.

The format is that of :mod:`kernelsmith.onpolicy.model`: JSON lines, a header first. Three things
are probed, each of which a team misses when it has to say which layer broke: the raw bytes of tool
calls as the model wrote them, masked and total tokens of each turn, log-probs.

Crashes. A turn is one ``write`` of one whole line to a file opened for appending, under a lock of
the file: several processes may append to one dump. Whatever kills a writer, every line before the
one in the making is whole; where that one was cut, the next writer closes it, the audit names it,
and no other is lost. ``sync=True`` also waits for the disk after each turn, for a cut of power.
"""

import base64
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelsmith.errors import InputError, StorageError
from kernelsmith.onpolicy.model import DTYPES, SCHEMA, SIDES, Dtype, Side
from kernelsmith.onpolicy.storage import json_record
from kernelsmith.onpolicy.tensors import logprobs_of, mask_of, tokens_of

_LONGEST_HEADER_BYTES = 1 << 16
_BEGINS = f'{{"schema":"{SCHEMA}"'.encode()
_OF_THE_FILE = ("schema", "side", "dtype", "device", "by_turn")
"""What all turns of a file share; epoch and weights may change and then stand with their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """A dump that is being written. It holds no open file: it may be kept for a whole run, be
    pickled, and go along through a fork."""

    path: Path
    header: Mapping[str, Any]
    sync: bool = False

    def turn(
        self,
        sequence: str,
        logprobs: Any = None,
        *,
        tokens: Any = None,
        mask: Any = None,
        index: int | None = None,
        masked_tokens: int | None = None,
        total_tokens: int | None = None,
        payloads: Sequence[bytes] | None = None,
        results: Sequence[bytes] | None = None,
        state: str | None = None,
    ) -> None:
        """Appends one turn: one stretch of a sequence's tokens. Pass what there is; a provider
        that gives no ids and no log-probs still leaves its bytes and counts.

        Args:
            sequence: the same name on both sides, such as ``prompt-17/rollout-3``.
            logprobs: of the tokens of this turn, in the dump's dtype (plain numbers pass as they
                are); NaN is written as ``null`` and named by the audit.
            tokens: their ids. ``mask``: True or 1 where the token is trained on.
            index: number of the turn within its sequence; all turns of a dump have one or none.
            masked_tokens, total_tokens: as the harness counted them; counted from the mask where
                the harness does not.
            payloads: raw bytes of each tool call *as the model wrote it*, before any client has
                parsed it. They are kept (base64) beside their SHA-256.
            results: raw bytes of what each tool gave back; their SHA-256 is kept.
            state: digest of the sandbox when the turn began.

        Raises:
            InputError: sizes that differ, another dtype than the dump's, text where bytes belong.
            StorageError: the line could not be written; nothing of it is left in the file.
        """
        record = {
            "sequence": sequence,
            "turn": index,
            **_token_fields(sequence, logprobs, tokens, mask, self.header["dtype"]),
            "payloads": None if payloads is None else [_digest(each) for each in payloads],
            "payload_bytes": None if payloads is None else [_base64(each) for each in payloads],
            "results": None if results is None else [_digest(each) for each in results],
            "state": state,
        }
        told = {"masked_tokens": masked_tokens, "total_tokens": total_tokens}
        record |= {name: count for name, count in told.items() if count is not None}
        if (index is not None) != bool(self.header.get("by_turn")):
            raise InputError(
                f"sequence {sequence}: a dump whose turns are "
                f"{'' if self.header.get('by_turn') else 'not '}numbered",
                hint="give every turn its index, or record(..., by_turn=False) and none",
            )
        _append(self, {name: value for name, value in record.items() if value is not None})


def record(
    path: str | Path,
    *,
    side: Side,
    dtype: Dtype = "float32",
    epoch: str | None = None,
    device: str | None = None,
    weights: str | None = None,
    by_turn: bool = True,
    sync: bool = False,
) -> Recorder:
    """Begins a dump, or goes on with one that is there.

    Args:
        path: the file; its folder must be there.
        side: who computed the log-probs: ``sampler`` or ``trainer``.
        dtype: of the log-probs that will come.
        epoch: numerics epoch: device, compiler, flags, whatever must be equal for bits to be.
        weights: version of the policy, a digest or a step.
        by_turn: whether turns are numbered.
        sync: wait for the disk after each turn.

    Raises:
        InputError: the path cannot be written, or holds something else or a dump of another side.
    """
    header: dict[str, Any] = {
        "schema": SCHEMA,
        "side": side,
        "dtype": dtype,
        "epoch": epoch,
        "device": device,
        "weights": weights,
        "by_turn": by_turn or None,
    }
    header = {name: value for name, value in header.items() if value is not None}
    if side not in SIDES or dtype not in DTYPES:
        raise InputError(
            f"no dump of side {side!r} and dtype {dtype!r}",
            hint=f"side is sampler or trainer, dtype one of {', '.join(DTYPES)}",
        )
    recorder = Recorder(path=Path(path), header=header, sync=sync)
    _append(recorder, None)
    return recorder


def payload_bytes(path: str | Path) -> Iterator[tuple[str, int | None, tuple[bytes, ...]]]:
    """The raw tool calls of a dump: sequence, turn, and the bytes of each, checked against their
    digests. Lines that cannot be read are passed over; the audit names them.

    Raises:
        InputError: bytes that are not those of their digest.
    """
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            with suppress(ValueError):
                turn = json.loads(line)
                if not isinstance(turn, dict) or not turn.get("payload_bytes"):
                    continue
                raw = tuple(base64.b64decode(each) for each in turn["payload_bytes"])
                if [_digest(each) for each in raw] != turn.get("payloads"):
                    raise InputError(
                        f"{path}, line {number}: payload bytes are not those of their digests",
                        hint="the dump was edited",
                    )
                yield turn["sequence"], turn.get("turn"), raw


def _token_fields(
    sequence: str, logprobs: Any, tokens: Any, mask: Any, dtype: Dtype
) -> dict[str, Any]:
    """Ids, log-probs and mask as JSON, and the counts that the mask gives."""
    held = None if logprobs is None else logprobs_of(logprobs)
    ids = None if tokens is None else tokens_of(tokens)
    trained = None if mask is None else mask_of(mask)
    sizes = {len(each) for each in (held, ids, trained) if each is not None}
    if len(sizes) > 1:
        raise InputError(
            f"sequence {sequence}: log-probs, token ids and mask of {sorted(sizes)} tokens",
            hint="one turn holds one stretch of tokens: slice all three the same way",
        )
    if held is not None and held.dtype not in (dtype, "float64"):
        raise InputError(
            f"sequence {sequence}: log-probs are {held.dtype}, the dump holds {dtype}",
            hint=f"record(..., dtype={held.dtype!r}): what was computed is written, not a cast",
        )
    return {
        "tokens": None if ids is None else ids.tolist(),
        "logprobs": held,
        "mask": None if trained is None else trained.astype(np.uint8).tolist(),
        "masked_tokens": None if trained is None else int(np.count_nonzero(~trained)),
        "total_tokens": sizes.pop() if sizes else None,
    }


def _line(fields: Mapping[str, Any]) -> bytes:
    return json_record(fields).encode() + b"\n"


def _digest(raw: bytes) -> str:
    if not isinstance(raw, bytes | bytearray | memoryview):
        raise InputError(
            f"a tool call or result is {type(raw).__name__}, not bytes",
            hint="record the bytes as they came, before they are decoded or parsed",
        )
    return hashlib.sha256(raw).hexdigest()


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _append(recorder: Recorder, turn: dict[str, Any] | None) -> None:
    """One line behind the header, which the first writer writes."""
    with _locked(recorder.path) as descriptor:
        size = os.fstat(descriptor).st_size
        before = _header_there(recorder, descriptor) if size else None
        if before is None and size:  # a header that was cut before its end, and nothing else
            os.ftruncate(descriptor, 0)
            size = 0
        data = b"" if before is not None else _line(recorder.header)
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            data = b"\n" + data  # the line of a writer that was cut stays one line
        if turn is not None:
            data += _line(turn | _changed(before or recorder.header, recorder.header))
        try:
            written = os.write(descriptor, data) if data else 0
            if written < len(data):
                raise OSError("the disk took a part of the line")
            if recorder.sync:
                os.fsync(descriptor)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(descriptor, size)
            raise StorageError(
                f"{recorder.path}: a turn could not be written: {error.strerror or error}",
                hint="is the disk full? the turns before it are there",
            ) from error


def _header_there(recorder: Recorder, descriptor: int) -> Mapping[str, Any] | None:
    """The header of a file that is not empty; None where all there is is a part of one."""
    first, end, _ = os.pread(descriptor, _LONGEST_HEADER_BYTES, 0).partition(b"\n")
    if not end and _BEGINS.startswith(first[: len(_BEGINS)]):
        return None
    try:
        header = json.loads(first)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        raise InputError(
            f"{recorder.path} is there and no dump of log-probs",
            hint="name another file: a probe overwrites nothing",
        )
    there, ours = ({n: each.get(n) for n in _OF_THE_FILE} for each in (header, recorder.header))
    other = [
        f"{name} {there[name]}, not {ours[name]}" for name in ours if ours[name] != there[name]
    ]
    if other:
        raise InputError(
            f"{recorder.path} holds a dump with {'; '.join(other)}",
            hint="name another file: one dump is of one side, dtype and device",
        )
    return header


def _changed(there: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """What this writer says otherwise than the file's header; it stands with each of its turns."""
    return {
        name: ours[name]
        for name in ("epoch", "weights")
        if name in ours and ours[name] != there.get(name)
    }


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    how = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        descriptor = os.open(path, how, 0o644)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}", hint="is its folder there, and yours?"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)  # and with it the lock
