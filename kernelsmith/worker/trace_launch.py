"""Records ``kernel[grid](...)`` instead of launching it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction, KernelInterface, create_function_from_signature

from kernelsmith.model import Launch, LaunchArg
from kernelsmith.worker.trace_classes import SCALARS, Specialised, scalar, specialise, text_hash
from kernelsmith.worker.trace_mode import AllocationAndViews, at_line
from kernelsmith.worker.trace_stride import strides_in
from kernelsmith.worker.trace_tape import MAX_LAUNCHES, FaultError, Tape, place

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
MAX_GRID = (1 << 31) - 1
MAX_OPTION = 1 << 16
CONSTANT_TYPES = (int, bool, str, type(None), triton.language.dtype, JITFunction)


@dataclass(slots=True)
class Recorder:
    """Binders and specialisations met so far, for one module on one device."""

    mode: AllocationAndViews
    backend: Any
    device: str
    binders: dict[int, tuple[Any, Callable[..., Any]]] = field(default_factory=dict)
    text_hashes: dict[int, str] = field(default_factory=dict)
    met: dict[tuple[Any, ...], Specialised] = field(default_factory=dict)
    emitting: bool = False

    def record(self, kernel: Any, args: Any, grid: Any, kwargs: dict[str, Any]) -> None:
        """Appends one launch to the tape of the call at hand; a grid with a 0 is no launch."""
        tape = self.mode.tape
        if tape is None or self.emitting:
            when = "while a kernel is compiled" if self.emitting else "while the module loads"
            raise FaultError("TRACE", f"{at_line()}launches {when}; launch inside an entry")
        try:
            launch = self._launch(tape, kernel, args, grid, kwargs)
        except FaultError as fault:
            raise tape.fail(fault) from None
        if launch is not None:
            tape.launches.append(launch)

    def check_unchanged(self) -> None:
        """A body means what its names stood for when it was first launched.

        Raises:
            FaultError: ``TRACE``, a name of a launched kernel stands for something else by now.
        """
        for kernel in {id(spec.kernel): spec.kernel for spec in self.met.values()}.values():
            if text_hash(kernel) != self.text_hashes[id(kernel)]:
                name = kernel.__name__
                text = f"a name that kernel {name} uses changed between calls; keep globals fixed"
                raise FaultError("TRACE", text)

    def _launch(
        self, tape: Tape, kernel: Any, args: Any, grid: Any, kwargs: dict[str, Any]
    ) -> Launch | None:
        if type(kernel) is not JITFunction:
            raise FaultError("TRACE", f"{at_line()}launches what is not a @triton.jit function")
        if len(tape.launches) >= MAX_LAUNCHES:
            raise FaultError("TRACE", f"{at_line()}more than {MAX_LAUNCHES} launches in a call")
        args, kwargs, strides = strides_in(kernel, args, kwargs)
        try:
            bound, specialisation, extra = self._binder(kernel)(*args, **kwargs)
        except TypeError as error:
            text = f"{at_line()}launch of {kernel.__name__}: {error}"
            raise FaultError("TRACE", text.replace("dynamic_func", kernel.__name__)) from None
        options = _options(extra)
        extents = grid_of(grid, {**bound, **strides})
        if 0 in extents:
            return None
        values = [_constant(value) for value in bound.values()]
        pointers = self._pointers(tape, kernel, values, specialisation)
        spec = self._specialised(kernel, specialisation, values, options)
        return Launch(
            plan_class=spec.aligned_id,
            plan_class_unaligned=spec.unaligned_id,
            grid=extents,
            args=tuple(
                pointers[index] if kind == "ptr" else scalar(kind, values[index])
                for index, kind in spec.runtime
            ),
        )

    def _binder(self, kernel: Any) -> Callable[..., Any]:
        found = self.binders.get(id(kernel))
        if found is None:
            binder = create_function_from_signature(kernel.signature, kernel.params, self.backend)
            # The kernel is kept, so that its id stays its own.
            found = self.binders[id(kernel)] = (kernel, binder)
        return found[1]

    def _pointers(
        self, tape: Tape, kernel: Any, values: list[Any], specialisation: list[Any]
    ) -> dict[int, LaunchArg]:
        """Places tensor arguments; makes their key that of a 16-aligned base, meta or real."""
        pointers: dict[int, LaunchArg] = {}
        for index, (kind, key) in enumerate(specialisation):
            if isinstance(kind, str) and (kind == "constexpr" or kind in SCALARS):
                if type(values[index]) is torch.Tensor:
                    name = kernel.params[index].name
                    raise FaultError("TRACE", f"{at_line()}{name} is no pointer but gets a tensor")
                continue
            if type(values[index]) is not torch.Tensor:
                name = kernel.params[index].name
                what = type(values[index]).__name__
                raise FaultError("TRACE", f"{at_line()}argument {name}: {what} cannot be passed")
            number, offset_bytes, _ = place(tape, values[index], f"argument {index}")
            pointers[index] = LaunchArg(kind="ptr", buffer=number, offset_bytes=offset_bytes)
            if isinstance(key, str):
                unaligned = offset_bytes % 16 or kernel.params[index].do_not_specialize_on_alignment
                specialisation[index] = (kind, "" if unaligned else "D")
        return pointers

    def _specialised(
        self, kernel: Any, specialisation: list[Any], values: list[Any], options: dict[str, Any]
    ) -> Specialised:
        constants = tuple(
            _constant_key(kernel, index, values[index])
            for index, (kind, _) in enumerate(specialisation)
            if kind == "constexpr"
        )
        types = tuple(pair if pair[0] != "constexpr" else None for pair in specialisation)
        key = (id(kernel), types, constants, tuple(options.items()))
        spec = self.met.get(key)
        if spec is None:
            if id(kernel) not in self.text_hashes:
                self.text_hashes[id(kernel)] = text_hash(kernel)
            spec = self.met[key] = specialise(
                kernel,
                specialisation,
                values,
                options,
                text_hash=self.text_hashes[id(kernel)],
                device=self.device,
            )
        return spec


def grid_of(grid: Any, bound: dict[str, Any]) -> tuple[int, int, int]:
    """The three extents of a launch.

    Raises:
        FaultError: ``TRACE``, not one to three non-negative integers.
    """
    if callable(grid):
        grid = grid(dict(bound))
    if type(grid) is int:
        grid = (grid,)
    extents = tuple(grid) if type(grid) in (tuple, list) else ()
    if not 1 <= len(extents) <= 3 or not all(
        type(extent) is int and 0 <= extent <= MAX_GRID for extent in extents
    ):
        text = f"{at_line()}grid {grid!r}: give one to three integers from 0 to {MAX_GRID}"
        raise FaultError("TRACE", text[:300])
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _options(extra: dict[str, Any]) -> dict[str, Any]:
    for name, value in extra.items():
        if name not in OPTIONS:
            text = f"{at_line()}launch option or argument {name!r} is not known; options are "
            raise FaultError("TRACE", text + ", ".join(OPTIONS))
        if type(value) is not int or not 1 <= value <= MAX_OPTION:
            text = f"{at_line()}launch option {name}={value!r}: give a positive integer"
            raise FaultError("TRACE", text[:300])
    return dict(sorted(extra.items()))


def _constant_key(kernel: Any, index: int, value: Any) -> tuple[type, Any]:
    """A hashable key that tells True, 1, 1.0 and the signs of zero apart."""
    if type(value) is float:
        return float, repr(value)
    if type(value) not in CONSTANT_TYPES:
        what = f"constant {kernel.params[index].name} is a {type(value).__name__}"
        text = f"{at_line()}{what}; use int, bool, float, str, None, a tl dtype or a jit function"
        raise FaultError("TRACE", text)
    return type(value), value


def _constant(value: Any) -> Any:
    return value.value if type(value) is triton.language.constexpr else value


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """While active, every way to launch a Triton kernel in this process records or refuses."""

    def run(kernel: Any, /, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        if warmup:
            raise FaultError("TRACE", f"{at_line()}warmup: launch by kernel[grid](...)")
        recorder.record(kernel, args, grid, kwargs)

    def refuse(kernel: Any, /, *args: Any, **kwargs: Any) -> None:
        text = (
            f"{at_line()}{type(kernel).__name__} is not allowed; launch a bare @triton.jit kernel"
        )
        fault = FaultError("TRACE", text)
        raise fault if recorder.mode.tape is None else recorder.mode.tape.fail(fault)

    replaced = [(JITFunction, "run", run)]
    replaced += [(kind, "run", refuse) for kind in (Autotuner, Heuristics, KernelInterface)]
    kept = [(kind, name, getattr(kind, name)) for kind, name, _ in replaced]
    try:
        for kind, name, function in replaced:
            setattr(kind, name, function)
        yield
    finally:
        for kind, name, function in kept:
            setattr(kind, name, function)
