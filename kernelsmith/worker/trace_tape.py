"""What one traced call did: the storages it may touch, its launches, its first fault.

A storage is known by the address of its C++ object, so every tensor made during a call is kept
alive until the plan is built: an address must not be used twice.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kernelsmith.model import ITEMSIZE_BYTES, Buffer, Launch, OutputRef, Plan, TensorMeta
from kernelsmith.model.messages import FailureStatus

MAX_LAUNCHES = 64
MAX_ALLOCATIONS = 256
MAX_CALL_BYTES = 1 << 30
SOURCE_NAME = "candidate.py"


class FaultError(Exception):
    """The candidate's fault while it is loaded, traced or emitted; becomes a ``WorkerFailure``."""

    def __init__(self, status: FailureStatus, message: str, where: str = "") -> None:
        super().__init__(message)
        self.status: FailureStatus = status
        self.message = message
        self.where = where


@dataclass(slots=True)
class Tape:
    """The record of one call.

    ``owners``: storage -> (argument name or "", bytes). ``numbers``: storage -> index into
    ``buffers``; inputs are numbered first, allocations when a launch or output first uses them.
    ``fault`` keeps the first fault even if the candidate swallows the exception.
    """

    owners: dict[int, tuple[str, int]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    allocations: int = 0
    allocated_bytes: int = 0
    fault: FaultError | None = None

    def fail(self, fault: FaultError) -> FaultError:
        """Keeps the first fault; returns the one to raise."""
        if self.fault is None:
            self.fault = fault
        return fault


def add_input(tape: Tape, name: str, tensor: Any) -> None:
    """Registers an argument's storage as the next buffer."""
    storage = tensor.untyped_storage()
    tape.kept.append(tensor)
    tape.owners[storage._cdata] = (name, storage.nbytes())
    tape.numbers[storage._cdata] = len(tape.buffers)
    tape.buffers.append(Buffer(nbytes=storage.nbytes(), arg=name))


def add_allocation(tape: Tape, tensor: Any) -> None:
    """Registers what the host code allocated.

    Raises:
        FaultError: ``TRACE``, more allocations or bytes than a call may make.
    """
    storage = tensor.untyped_storage()
    tape.kept.append(tensor)
    tape.allocations += 1
    tape.allocated_bytes += storage.nbytes()
    if tape.allocations > MAX_ALLOCATIONS:
        raise tape.fail(FaultError("TRACE", f"more than {MAX_ALLOCATIONS} allocations in a call"))
    if tape.allocated_bytes > MAX_CALL_BYTES:
        text = f"allocates {tape.allocated_bytes} bytes in a call; at most {MAX_CALL_BYTES}"
        raise tape.fail(FaultError("TRACE", text))
    tape.owners[storage._cdata] = ("", storage.nbytes())


def place(tape: Tape, tensor: Any, what: str) -> tuple[int, int, str]:
    """Returns (buffer index, offset in bytes, dtype name) of a tensor of this call.

    Raises:
        FaultError: ``TRACE``, its storage is neither an argument's nor allocated in this call, or
            its dtype is none that a plan carries.
    """
    dtype = str(tensor.dtype).removeprefix("torch.")
    itemsize = ITEMSIZE_BYTES.get(dtype)
    if itemsize is None:
        text = f"{what} has dtype {dtype}; a plan carries {', '.join(ITEMSIZE_BYTES)}"
        raise tape.fail(FaultError("TRACE", text))
    storage = tensor.untyped_storage()._cdata
    number = tape.numbers.get(storage)
    if number is None:
        owner = tape.owners.get(storage)
        if owner is None:
            text = (
                f"{what} is neither an argument nor allocated in this call; "
                "allocate by x.new_empty or torch.empty_like inside the entry"
            )
            raise tape.fail(FaultError("TRACE", text))
        number = tape.numbers[storage] = len(tape.buffers)
        tape.buffers.append(Buffer(nbytes=owner[1]))
    return number, tensor.storage_offset() * itemsize, dtype


def finish(tape: Tape, returned: Any, tensor_type: type) -> Plan:
    """Builds the plan from the record and what the entry returned.

    Args:
        tape: the record of the call.
        returned: a tensor, or a tuple or list of tensors.
        tensor_type: ``torch.Tensor``; subclasses are refused.

    Raises:
        FaultError: ``TRACE`` or ``SIGNATURE``.
    """
    if tape.fault is not None:
        raise tape.fault
    items = list(returned) if type(returned) in (tuple, list) else [returned]
    outputs: list[OutputRef] = []
    extents: list[tuple[int, int, int, int]] = []
    for index, item in enumerate(items):
        if type(item) is not tensor_type:
            text = f"returns {type(item).__name__} as output {index}; return tensors only"
            raise FaultError("SIGNATURE", text)
        outputs.append(_output(tape, index, item))
        extents.append((outputs[-1].buffer, *_extent(outputs[-1]), index))
    extents.sort()
    for (buffer, _, end, first), (next_buffer, start, _, second) in pairwise(extents):
        if buffer == next_buffer and start < end:
            pair = sorted((first, second))
            raise FaultError("TRACE", f"outputs {pair[0]} and {pair[1]} overlap in memory")
    return Plan(buffers=tuple(tape.buffers), launches=tuple(tape.launches), outputs=tuple(outputs))


def _output(tape: Tape, index: int, tensor: Any) -> OutputRef:
    number, offset_bytes, dtype = place(tape, tensor, f"output {index}")
    arg = tape.buffers[number].arg
    if arg:
        text = f"output {index} lies in the memory of argument {arg}; allocate it"
        raise FaultError("TRACE", text)
    meta = TensorMeta(shape=tuple(tensor.shape), strides=tuple(tensor.stride()), dtype=dtype)
    output = OutputRef(buffer=number, offset_bytes=offset_bytes, meta=meta)
    if _extent(output)[1] > tape.buffers[number].nbytes:
        raise FaultError("TRACE", f"output {index} reaches past the end of its memory")
    return output


def _extent(output: OutputRef) -> tuple[int, int]:
    """First and one-past-last byte of an output in its buffer; empty outputs have none."""
    meta = output.meta
    if 0 in meta.shape:
        return output.offset_bytes, output.offset_bytes
    last = sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True))
    return output.offset_bytes, output.offset_bytes + (last + 1) * ITEMSIZE_BYTES[meta.dtype]
