"""Where the stages run their kernels: a GPU through kernelsmith's own driver layer, or, in a dry
run, the CPU device. No torch."""

import contextlib
import ctypes
import dataclasses
import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelsmith.devices.cpu.launch import pack_args


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One specialisation to compile: ``signature`` in the order of the parameters ("*fp32", "i32",
    "constexpr"), ``constants`` by name, ``options`` of the launch; ``aligned``: pointers and the
    integers in ``divisible`` are multiples of 16."""

    kernel: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Mapping[str, int]
    divisible: tuple[str, ...] = ()
    aligned: bool = True


def compile_one(wanted: Wanted, arch: int) -> Any:
    """Compiles for sm_``arch``, or for this CPU where it is 0; runs in a process of its own.
    Returns the device's compiled code, or the text of what was wrong."""
    from gpu import jits
    from kernelsmith.errors import KernelsmithError

    fn = getattr(jits, wanted.kernel)
    names = list(wanted.signature)
    constants = {(names.index(name),): value for name, value in wanted.constants.items()}
    marked = [name for name in names if name in wanted.divisible]
    if wanted.aligned:
        marked += [name for name in names if wanted.signature[name].startswith("*")]
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in marked}
    signature = dict(wanted.signature)
    try:
        if arch:
            from kernelsmith.devices.cuda.device import CudaDevice
            from kernelsmith.devices.cuda.emit import emit_ttir

            options = dict(wanted.options)
            text = emit_ttir(fn, signature, constants, attributes, options, arch)
            return CudaDevice(arch=arch).compile_ttir(text)
        from kernelsmith.devices.cpu import emit
        from kernelsmith.devices.cpu.device import CpuDevice

        parsed = emit.cpu_backend().parse_options(dict(wanted.options))
        return CpuDevice().compile_ttir(
            emit.emit_ttir(fn, signature, constants, attributes, parsed)
        )
    except KernelsmithError as error:
        return f"{type(error).__name__}: {error.message}"


def compile_all(wanted: Sequence[Wanted], arch: int) -> list[Any]:
    """Compiles side by side; see :func:`side_by_side`."""
    return side_by_side(functools.partial(compile_one, arch=arch), wanted)


def side_by_side(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """``function`` of each item, in processes; before a GPU is opened, since a process with one
    must not fork."""
    workers = min(len(items), len(os.sched_getaffinity(0)), 16)
    if workers <= 1:
        return [function(one) for one in items]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(function, items))


class Machine:
    """Runs compiled kernels on arrays. ``arch`` is 0 on the CPU."""

    def __init__(self, gpu: Any, device: Any, arch: int) -> None:
        self.gpu, self.device, self.arch = gpu, device, arch
        self._loaded: dict[str, Any] = {}

    def run(
        self,
        code: Any,
        arguments: Sequence[Any],
        grid: tuple[int, int, int],
        *,
        misalign_bytes: int = 0,
        times: int = 0,
    ) -> tuple[list[np.ndarray], float]:
        """Runs one launch: the arrays as they are after it, and the median of ``times`` timed
        repeats in microseconds (0.0 for none)."""
        kernel = self._load(code)
        if self.gpu is None:
            return self._run_here(kernel, arguments, grid, times)
        return self._run_there(kernel, arguments, grid, misalign_bytes, times)

    def _load(self, code: Any) -> Any:
        if code.info.id not in self._loaded:
            self._loaded[code.info.id] = self.device.load(code.info, code.code)
        return self._loaded[code.info.id]

    def _run_here(
        self, kernel: Any, arguments: Sequence[Any], grid: tuple[int, int, int], times: int
    ) -> tuple[list[np.ndarray], float]:
        arrays = [one.copy() for one in arguments if isinstance(one, np.ndarray)]
        left = iter(arrays)
        values = [
            next(left).ctypes.data if isinstance(one, np.ndarray) else one for one in arguments
        ]
        packed = pack_args(kernel.info.params, values)
        kernel.run(packed, grid)
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            kernel.run(packed, grid)
            taken.append(1e6 * (time.perf_counter() - began))
        return arrays, statistics.median(taken) if taken else 0.0

    def _run_there(
        self,
        kernel: Any,
        arguments: Sequence[Any],
        grid: tuple[int, int, int],
        misalign_bytes: int,
        times: int,
    ) -> tuple[list[np.ndarray], float]:
        from kernelsmith.devices.cuda import gpu as gpus
        from kernelsmith.devices.cuda import graph, memory
        from kernelsmith.devices.cuda import kernel as launches

        lib = self.gpu.lib
        with contextlib.ExitStack() as stack:
            places, values, arrays = [], [], []
            for one in arguments:
                if not isinstance(one, np.ndarray):
                    values.append(one)
                    continue
                room = stack.enter_context(memory.allocate(self.gpu, one.nbytes + 64))
                address = room.address + misalign_bytes
                memory.write(self.gpu, address, one.ctypes.data, one.nbytes)
                places.append(address)
                values.append(address)
                arrays.append(np.empty_like(one))
            packed = pack_args(kernel.info.params, values)
            args = ctypes.create_string_buffer(packed, max(len(packed), 8))
            scratch = launches.scratch_bytes(kernel.info, grid[0] * grid[1] * grid[2])
            extra = stack.enter_context(memory.allocate(self.gpu, scratch))
            ready = launches.prepare(kernel, args, grid, scratch_address=extra.address)
            launches.launch(ready, self.gpu.stream)
            gpus.synchronize(self.gpu)
            for address, array in zip(places, arrays, strict=True):
                lib.call("cuMemcpyDtoH_v2", array.ctypes.data, address, array.nbytes)
            taken_us = 0.0
            if times:
                replay = graph.Replay(self.gpu, [ready] * times, graphs=True)
                stack.callback(replay.close)
                replay.time_ns()
                taken_us = min(replay.time_ns() for _ in range(5)) / times / 1e3
        return arrays, taken_us


@contextlib.contextmanager
def opened(dry_run: bool) -> Iterator[Machine]:
    """The machine to run on: the GPU, or the CPU in a dry run."""
    if dry_run:
        from kernelsmith.devices.cpu.device import CpuDevice

        yield Machine(None, CpuDevice(), 0)
        return
    from kernelsmith.devices.cuda import gpu as gpus
    from kernelsmith.devices.cuda.device import CudaDevice
    from kernelsmith.devices.cuda.libcuda import open_library

    device = CudaDevice()
    with gpus.opened(open_library(), device.ordinal) as gpu:
        yield Machine(gpu, device, device.architecture())


def architecture(dry_run: bool) -> int:
    """What to compile for: 0 is this CPU. Asked in a process of its own, since the driver must not
    have been started where processes are forked."""
    if dry_run:
        return 0
    with ProcessPoolExecutor(1) as pool:
        return pool.submit(_ask).result()


def _ask() -> int:
    from kernelsmith.devices.cuda.device import CudaDevice

    return CudaDevice().architecture()


def bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 values rounded to bfloat16, to nearest even, as uint16."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return rounded.astype(np.uint16)


def wide(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values of alternating sign over twelve powers of two, so that orders of sums tell."""
    draw = np.random.Generator(np.random.PCG64(seed))
    powers = np.exp2(draw.integers(-6, 7, shape)).astype(np.float32)
    return (draw.standard_normal(shape).astype(np.float32) * powers).astype(np.float32)


def noise(dtype: str, nbytes: int) -> np.ndarray:
    """Normal numbers of a float type, 2**16 of them over and over, as bytes: a GPU draws more
    power on them than on zeros, and may run slower. Of what is no float zeros: it may be indices.
    """
    block = np.random.Generator(np.random.PCG64(7)).standard_normal(1 << 16).astype(np.float32)
    found = {"float32": block, "float16": block.astype(np.float16), "bfloat16": bfloat16(block)}
    if dtype not in found:
        return np.zeros(nbytes, np.uint8)
    return np.resize(found[dtype].view(np.uint8), nbytes)


def brief(code: Any) -> dict[str, Any]:
    """What is worth a line of compiled code."""
    if isinstance(code, str):
        return {"failed": code}
    stats = code.info.stats
    names = ("registers", "stack_bytes", "shared_bytes", "occupancy")
    return {name: stats[name] for name in names if name in stats}


def replaced(wanted: Wanted, **changes: Any) -> Wanted:
    """A variation of what is to be compiled."""
    return dataclasses.replace(wanted, **changes)
