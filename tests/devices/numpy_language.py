"""A stand-in for ``triton.language`` over int32 numpy arrays: the same source, run as Python.

Elements of one op run in row-major order, as the device says of atomics and stores."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.devices.ttir_texts import Array

Int = np.int32


@dataclass
class Pointer:
    """An array and an offset, or an array of offsets."""

    array: Array
    offset: Any = 0

    def __add__(self, by: Any) -> "Pointer":
        return Pointer(self.array, self.offset + by)


def _tensor(value: Any) -> Any:
    """A 0-d result as a scalar, which Python's ``if`` takes."""
    return value if np.shape(value) else Int(value)


def _lanes(pointer: Pointer, mask: Any) -> tuple[Array, Array]:
    at = np.asarray(pointer.offset)
    return at, np.broadcast_to(True if mask is None else mask, at.shape)


def load(pointer: Pointer, mask: Any = None, other: Any = 0) -> Any:
    at, on = _lanes(pointer, mask)
    return _tensor(np.where(on, pointer.array[np.where(on, at, 0)], other).astype(Int))


def store(pointer: Pointer, value: Any, mask: Any = None) -> None:
    at, on = _lanes(pointer, mask)
    values = np.broadcast_to(value, at.shape)
    for index in np.ndindex(at.shape):
        if on[index]:
            pointer.array[at[index]] = values[index]


def _atomic(step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def run(pointer: Pointer, value: Any, mask: Any = None) -> Any:
        at, on = _lanes(pointer, mask)
        values, found = np.broadcast_to(value, at.shape), np.zeros(at.shape, Int)
        for index in np.ndindex(at.shape):
            if on[index]:
                found[index] = pointer.array[at[index]]
                pointer.array[at[index]] = step(found[index], values[index])
        return _tensor(found)

    return run


def language(program: int) -> SimpleNamespace:
    """What the generated kernels use of ``tl``, in the program with this id."""
    return SimpleNamespace(
        program_id=lambda axis: Int(program if axis == 0 else 0),
        int32=Int,
        constexpr=None,
        load=load,
        store=store,
        atomic_add=_atomic(lambda a, b: a + b),
        atomic_max=_atomic(max),
        arange=lambda start, end: np.arange(start, end, dtype=Int),
        where=lambda condition, a, b: np.where(condition, a, b).astype(Int),
        sum=lambda value, axis: _tensor(np.add.reduce(value, axis, dtype=Int)),
        max=lambda value, axis: _tensor(np.max(value, axis)),
        cumsum=lambda value, axis: np.cumsum(value, axis, dtype=Int),
        maximum=np.maximum,
        abs=np.abs,
        reshape=np.reshape,
        trans=np.transpose,
        range=range,
        static_range=range,
    )
