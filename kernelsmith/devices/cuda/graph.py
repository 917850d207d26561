"""Launches timed on the GPU itself: a CUDA graph that begins and ends with an event.

The launches are captured from a stream, so a graph holds exactly what :func:`.kernel.launch` does,
clusters included. Both events are nodes of the graph (``CU_EVENT_RECORD_EXTERNAL``), so no gap in
which the host hands over work is timed. Where a driver refuses that, the launches go into the
stream one by one between two events, and :attr:`Replay.by` says so.

Never run on a GPU; driven against a stand-in in ``tests/cuda``.
"""

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Literal

from kernelsmith.devices.cuda import constants, kernel
from kernelsmith.devices.cuda.gpu import Gpu
from kernelsmith.errors import GpuError

By = Literal["graph", "events"]


class Replay:
    """A sequence of launches that can be timed again and again. Close it to free the graph."""

    __slots__ = ("_begin", "_end", "_exec", "_gpu", "_launches", "by")

    def __init__(self, gpu: Gpu, launches: Sequence[kernel.Prepared], *, graphs: bool) -> None:
        self._gpu = gpu
        self._launches = tuple(launches)
        self._exec = 0
        self._begin = _event(gpu)
        self._end = _event(gpu)
        self.by: By = "events"
        if graphs:
            try:
                self._exec = self._captured()
                self.by = "graph"
            except GpuError as error:
                if error.kernel_fault:
                    raise

    def time_ns(self) -> int:
        """Runs all launches once and waits: nanoseconds on the GPU's clock, half a microsecond
        fine.

        Raises:
            GpuError: a kernel faulted.
        """
        lib, stream = self._gpu.lib, self._gpu.stream
        if self._exec:
            lib.call("cuGraphLaunch", self._exec, stream)
        else:
            lib.call("cuEventRecordWithFlags", self._begin, stream, constants.EVENT_DEFAULT)
            for one in self._launches:
                kernel.launch(one, stream)
            lib.call("cuEventRecordWithFlags", self._end, stream, constants.EVENT_DEFAULT)
        # Not for the event: it may still stand at what an earlier launch of the graph recorded.
        lib.call("cuStreamSynchronize", stream)
        elapsed_ms = ctypes.c_float()
        lib.call("cuEventElapsedTime", ctypes.byref(elapsed_ms), self._begin, self._end)
        return round(elapsed_ms.value * 1e6)

    def close(self) -> None:
        """Frees graph and events; closing twice is harmless."""
        lib = self._gpu.lib
        with contextlib.suppress(GpuError):
            graph, self._exec = self._exec, 0
            if graph:
                lib.call("cuGraphExecDestroy", graph)
        for name in ("_begin", "_end"):
            event = getattr(self, name)
            setattr(self, name, 0)
            with contextlib.suppress(GpuError):
                if event:
                    lib.call("cuEventDestroy_v2", event)

    def _captured(self) -> int:
        lib, stream = self._gpu.lib, self._gpu.stream
        external = constants.EVENT_RECORD_EXTERNAL
        lib.call("cuStreamBeginCapture_v2", stream, constants.STREAM_CAPTURE_MODE_THREAD_LOCAL)
        graph = ctypes.c_void_p()
        try:
            lib.call("cuEventRecordWithFlags", self._begin, stream, external)
            for one in self._launches:
                kernel.launch(one, stream)
            lib.call("cuEventRecordWithFlags", self._end, stream, external)
        except GpuError:
            # A capture that went wrong must be ended all the same.
            with contextlib.suppress(GpuError):
                lib.call("cuStreamEndCapture", stream, ctypes.byref(graph))
                if graph:
                    lib.call("cuGraphDestroy", graph)
            raise
        lib.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        try:
            found = ctypes.c_void_p()
            lib.call("cuGraphInstantiateWithFlags", ctypes.byref(found), graph, 0)
            return found.value or 0
        finally:
            lib.call("cuGraphDestroy", graph)


def _event(gpu: Gpu) -> int:
    event = ctypes.c_void_p()
    gpu.lib.call("cuEventCreate", ctypes.byref(event), constants.EVENT_DEFAULT)
    return event.value or 0
