"""Row strides as host code sees them: numbers to be handed on, not to be looked at.

A candidate that takes another branch at one exact stride is right wherever anybody tests. Row
counts are walked one by one, strides cannot be. So while host code is traced, ``.stride()`` gives
numbers that may be compared with 0, 1 and each other, taken modulo a small power of two, added and
multiplied, and passed to kernels; anything else is the candidate's fault.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import torch

from kernelsmith.worker.trace_mode import at_line
from kernelsmith.worker.trace_tape import SOURCE_NAME, FaultError

MODULUS_MAX = 64
INSTEAD = (
    "compare strides with 0, 1 or each other, ask .is_contiguous(), or pass them to the kernel"
)


class Stride:
    """One stride, in elements."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Stride):
            return self.value == other.value
        if type(other) is not int or other not in (0, 1):
            _refuse(f"compares a stride with {other!r}")
        return self.value == other

    def __hash__(self) -> int:
        _refuse("hashes a stride")

    def __bool__(self) -> bool:
        return self.value != 0

    def __add__(self, other: object) -> "Stride":
        return Stride(self.value + _number(other))

    def __mul__(self, other: object) -> "Stride":
        return Stride(self.value * _number(other))

    __radd__, __rmul__ = __add__, __mul__

    def __mod__(self, other: object) -> int:
        small = type(other) is int and 1 <= other <= MODULUS_MAX and not other & (other - 1)
        if not small:
            _refuse(f"takes a stride modulo {other!r}, which is no power of two up to 64")
        return self.value % _number(other)

    def __lt__(self, other: object) -> bool:
        _refuse("orders strides")

    __le__ = __gt__ = __ge__ = __lt__

    def __index__(self) -> int:
        _refuse("uses a stride as an integer")

    __int__ = __float__ = __index__

    def __repr__(self) -> str:
        return "a stride"


def strides_in(
    kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any], dict[str, Stride]]:
    """A launch's arguments with integers for strides, and the strides by parameter.

    Raises:
        FaultError: ``TRACE``, one is bound to a constant: code would be made for one stride.
    """
    names = [param.name for param in kernel.params]
    found = {n: v for n, v in [*zip(names, args, strict=False), *kwargs.items()] if _is(v)}
    for param in kernel.params:
        if param.is_constexpr and param.name in found:
            _refuse(f"binds a stride to the constant {param.name} of {kernel.__name__}")
    plain = {name: value.value if _is(value) else value for name, value in kwargs.items()}
    return [value.value if _is(value) else value for value in args], plain, found


def _is(value: Any) -> bool:
    return type(value) is Stride


@contextmanager
def guarded_strides() -> Iterator[None]:
    """While active, ``Tensor.stride`` called from the candidate's file gives :class:`Stride`."""
    own = torch.Tensor.stride

    def stride(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        found = own(tensor, *args, **kwargs)
        if sys._getframe(1).f_code.co_filename != SOURCE_NAME:
            return found  # torch asks itself
        return Stride(found) if type(found) is int else tuple(map(Stride, found))

    torch.Tensor.stride = stride
    try:
        yield
    finally:
        del torch.Tensor.stride


def _number(value: object) -> int:
    if isinstance(value, Stride):
        return value.value
    if type(value) is not int:
        _refuse(f"mixes a stride with a {type(value).__name__}")
    return int(value)


def _refuse(what: str) -> NoReturn:
    raise FaultError("TRACE", f"{at_line()}{what}; {INSTEAD}")
