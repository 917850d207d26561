"""Observes kernels of :mod:`tests.observed.kernels` on numpy arrays, in this process."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelsmith.devices.cpu import observe_run
from kernelsmith.devices.cpu.arena import Arena
from kernelsmith.devices.cpu.compile import CompiledObject, compile_ttir
from kernelsmith.devices.cpu.emit import cpu_backend, emit_ttir
from kernelsmith.devices.cpu.kernel import load
from kernelsmith.devices.cpu.launch import pack_args
from kernelsmith.model import Finding
from tests.observed import kernels

POINTERS = {"float32": "*fp32", "float64": "*fp64", "int32": "*i32"}
Observe = Callable[..., tuple[Finding, ...]]


def line_of(kernel: str, text: str) -> str:
    """``kernels.py:LINE`` of the first line of a kernel that holds ``text``."""
    lines = Path(str(kernels.__file__)).read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"def {kernel}("))
    found = next(i for i in range(start, len(lines)) if text in lines[i])
    return f"kernels.py:{found + 1}"


def ttir_of(name: str, values: Sequence[Any], constants: dict[str, int]) -> str:
    fn = getattr(kernels, name)
    types = [
        POINTERS[str(value.dtype)] if isinstance(value, np.ndarray) else "i32" for value in values
    ]
    signature = dict(zip(fn.arg_names, [*types, *["constexpr"] * len(constants)], strict=True))
    return emit_ttir(fn, signature, constants, {}, cpu_backend().parse_options({}))


class Bound:
    """A kernel on arrays: ``step`` for an observation, ``run`` for the usual build."""

    def __init__(self, name: str, values: Sequence[Any], constants: dict[str, int]) -> None:
        self.text = ttir_of(name, values, constants)
        self.values = values
        self.arrays = [value for value in values if isinstance(value, np.ndarray)]
        self.kept: list[Any] = []

    def _loaded(self, made: CompiledObject) -> Any:
        self.kept.append(load(made.info, made.code))
        return self.kept[-1]

    def args(self, made: CompiledObject) -> bytes:
        given = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in self.values]
        return pack_args(made.info.params, given)

    def step(self, grid: int, numbers: dict[int, int]) -> observe_run.Step:
        made = compile_ttir(self.text, observed=True)
        return observe_run.Step(
            info=made.info,
            entry=self._loaded(made).address,
            args=self.args(made),
            grid=(grid, 1, 1),
            buffers={
                place: numbers[id(value)]
                for place, value in enumerate(self.values)
                if isinstance(value, np.ndarray)
            },
        )

    def run(self, grid: int) -> None:
        made = compile_ttir(self.text)
        self._loaded(made).run(self.args(made), (grid, 1, 1))


@pytest.fixture
def observe() -> Observe:
    """``observe((name, values, grid), ..., holds=..., inside=..., seconds=...)``."""

    def observed(
        *launches: tuple[str, Sequence[Any], int],
        block: int = 16,
        holds: Sequence[int] = (0, 1),
        inside: dict[int, Any] | None = None,
        seconds: float = 20.0,
    ) -> tuple[Finding, ...]:
        bounds = [(Bound(name, values, {"BLOCK": block}), grid) for name, values, grid in launches]
        arrays: list[Any] = []
        for bound, _ in bounds:
            arrays += [a for a in bound.arrays if all(a is not b for b in arrays)]
        numbers = {id(array): index for index, array in enumerate(arrays)}
        watched = [
            observe_run.Watched(
                name=f"buffer {index}",
                address=array.ctypes.data,
                nbytes=array.nbytes,
                holds=index in holds,
                inside=(inside or {}).get(index),
            )
            for index, array in enumerate(arrays)
        ]
        steps = [bound.step(grid, numbers) for bound, grid in bounds]
        arena = Arena(max(step.info.arena_bytes for step in steps))
        try:
            return observe_run.observe_steps(watched, steps, arena=arena.address, seconds=seconds)
        except observe_run.MisalignedError:
            return observe_run.observe_steps(
                watched, steps, arena=arena.address, seconds=seconds, bytewise=True
            )

    return observed
