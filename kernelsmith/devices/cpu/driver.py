"""Triton's view of this device's run time.

``import triton`` imports this module and takes the one concrete ``DriverBase`` subclass in it,
so it imports nothing heavy and nothing of Triton but base classes.
"""

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from kernelsmith.devices.cpu.compiler import OBSERVED_ARCH

# Triton keys each jit function's compiled kernels by device number alone. GPUs count from 0, so
# a GPU and this device in one process must not share one.
DEVICE_NUMBER = -1
OBSERVING_NUMBER = -2
MAX_THREADS = 1 << 30


def cpu_target(*, observing: bool = False) -> GPUTarget:
    """What Triton calls the target, GPU or not."""
    return GPUTarget("cpu", OBSERVED_ARCH if observing else "x86_64", 1)


class CpuLoader:
    """What Triton asks of a driver's ``utils``."""

    def __init__(self) -> None:
        self._loaded: weakref.WeakValueDictionary[tuple[str, bytes], Any] = (
            weakref.WeakValueDictionary()
        )

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """Returns (module, function, registers, spills, threads a program may have).

        The function frees its own code. Triton 3.9 asks whichever driver is active when a kernel
        is freed to unload its module, and that may not be this one, or none: there it gets no
        module.
        """
        from triton.compiler import CompiledKernel

        from kernelsmith.devices.cpu.elf import link
        from kernelsmith.devices.cpu.launch import LoadedFunction

        # Without a module Triton asks again at every launch.
        function = self._loaded.get((name, kernel))
        if function is None:
            function = self._loaded[name, kernel] = LoadedFunction(link(kernel), name)
        module = None if hasattr(CompiledKernel, "__del__") else function
        return module, function, 0, 0, MAX_THREADS

    def unload_module(self, module: Any) -> None:
        """Nothing: see :meth:`load_binary`."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": 1 << 30,
            "multiprocessor_count": len(os.sched_getaffinity(0)),
            "max_num_regs": 0,
            "warpSize": 1,
        }


class GridInCharge:
    """Runs each launch on the grid of the driver that is active then. Releases before 3.9 keep a
    kernel's first launcher for ever, which may outlive the driver that made it."""

    __slots__ = ("_active",)

    def __init__(self) -> None:
        from triton.runtime import driver

        self._active = driver

    def run(self, *launch: Any) -> None:
        self._active.active.grid.run(*launch)

    def observe(self, *launch: Any) -> None:
        self._active.active.grid.observe(*launch)


class CpuDriver(DriverBase):  # type: ignore[misc]
    """Runs grids over threads of this process. Made by ``kernelsmith.devices.cpu.activate``."""

    def __init__(
        self,
        *,
        threads: int | None = None,
        order: str = "ascending",
        previous: Any = None,
        found: list[Any] | None = None,
    ) -> None:
        from kernelsmith.devices.cpu.grid import Grid
        from kernelsmith.devices.cpu.launch import launcher_for

        super().__init__()
        self.previous = previous
        self.utils = CpuLoader()
        self.grid: Any = Grid(threads=threads or len(os.sched_getaffinity(0)), order=order)
        self.observing = found is not None
        if found is not None:
            from kernelsmith.devices.cpu.observe_launch import ObservingGrid

            self.grid = ObservingGrid(found)
        self.launcher_cls: Callable[[Any, Any], Any] = launcher_for(GridInCharge())

    @classmethod
    def is_active(cls) -> bool:
        """Whether ``activate`` has put a driver of this class in charge. False at discovery."""
        import sys

        config = sys.modules.get("triton.runtime.driver")
        driver = getattr(config, "driver", None)
        return isinstance(getattr(driver, "_active", None), cls)

    def close(self) -> None:
        self.grid.close()

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "void*" if ty.startswith("*") else ty

    def get_current_target(self) -> GPUTarget:
        return cpu_target(observing=self.observing)

    def get_current_device(self) -> int:
        return OBSERVING_NUMBER if self.observing else DEVICE_NUMBER

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cpu

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        from kernelsmith.devices.cpu.bench import benchmark

        return benchmark
