"""Lets allocation and views through while host code is traced, and nothing else."""

import sys
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelsmith.worker.trace_tape import SOURCE_NAME, FaultError, Tape, add_allocation

ALLOCATIONS = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")
VIEWS = (
    "view",
    "_unsafe_view",
    "_reshape_alias",
    "reshape",
    "as_strided",
    "transpose",
    "t",
    "permute",
    "expand",
    "unsqueeze",
    "squeeze",
    "slice",
    "select",
    "narrow",
    "split",
    "split_with_sizes",
    "unbind",
    "unfold",
    "diagonal",
    "detach",
    "alias",
    "movedim",
)
USE_INSTEAD = {
    "clone": "pass the tensor's strides to the kernel instead of making it contiguous",
    "_to_copy": "allocate with dtype= and convert inside the kernel",
    "copy_": "copy inside a kernel",
    "zeros": "allocate by x.new_empty and store zeros in a kernel",
    "zero_": "store zeros in a kernel",
    "zeros_like": "allocate by torch.empty_like and store zeros in a kernel",
    "new_zeros": "allocate by x.new_empty and store zeros in a kernel",
    "ones": "allocate by x.new_empty and store ones in a kernel",
    "fill_": "store the value in a kernel",
    "full": "allocate by x.new_empty and store the value in a kernel",
    "_local_scalar_dense": "host code may read shapes, strides and dtypes, never values",
}


class AllocationAndViews(TorchDispatchMode):  # type: ignore[misc]
    """Records allocations on the tape at hand; any other operator is the candidate's fault.

    ``device`` is where every allocation goes, whatever the host code asked for.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)
        self.tape: Tape | None = None
        self.allocations = frozenset(_overloads(ALLOCATIONS))
        self.views = frozenset(_overloads(VIEWS))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in self.allocations:
            return self._allocate(func, args, kwargs or {})
        if func in self.views:
            return func(*args, **(kwargs or {}))
        name = str(func).removeprefix("aten.").split(".")[0]
        instead = USE_INSTEAD.get(
            name, "compute in a @triton.jit kernel; host code may allocate, view and launch"
        )
        fault = FaultError("TRACE", f"{at_line()}torch operator {func}: {instead}")
        raise fault if self.tape is None else self.tape.fail(fault)

    def _allocate(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if self.tape is None:
            raise FaultError(
                "TRACE", f"{at_line()}allocates while the module loads; allocate inside an entry"
            )
        if kwargs.get("device") is not None or not args or not isinstance(args[0], torch.Tensor):
            kwargs = {**kwargs, "device": self.device}
        kwargs.pop("pin_memory", None)
        if func is torch.ops.aten.empty_like.default and _keeps_strides(args[0], kwargs):
            func, kept = torch.ops.aten.empty_strided.default, args[0]
            kwargs = {"dtype": kept.dtype, **kwargs}
            kwargs.pop("memory_format", None)
            args = (kept.shape, kept.stride())
        made = func(*args, **kwargs)
        add_allocation(self.tape, made)
        return made


def _keeps_strides(tensor: torch.Tensor, kwargs: dict[str, Any]) -> bool:
    """Whether ``empty_like`` of a real tensor has its strides: on tensors without data torch gives
    dimensions of one element others, and the two must make the same launches."""
    if kwargs.get("memory_format") not in (None, torch.preserve_format):
        return False
    expected = 1
    sizes = zip(tensor.stride(), tensor.shape, strict=True)
    for stride, size in sorted(pair for pair in sizes if pair[1] > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _overloads(names: tuple[str, ...]) -> list[Any]:
    found = []
    for name in names:
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None:
            found += [
                getattr(packet, each) for each in packet.overloads() if not each.endswith("out")
            ]
    return found


def at_line() -> str:
    """ "line N: " of the candidate's innermost line that is running, or ""."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == SOURCE_NAME:
            return f"line {frame.f_lineno}: "
        frame = frame.f_back  # type: ignore[assignment]
    return ""
