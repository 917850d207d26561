"""The stand-in refuses what the driver's documentation forbids, so that no fault hides in it."""

import ctypes
from collections.abc import Callable, Iterator

import pytest

from kernelsmith.devices.cuda import constants, gpu, kernel, memory
from kernelsmith.devices.cuda.gpu import Gpu
from kernelsmith.devices.cuda.libcuda import open_library
from kernelsmith.errors import GpuError
from kernelsmith.worker import launcher_bind
from tests.cuda.native import compile_kind, plan_of
from tests.cuda.stand_in import Fake, StandInDevice

INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY = 1, 201, 400, 600
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED = 900, 901
PAGE = 2 << 20


@pytest.fixture
def one(fake: Fake) -> Iterator[Gpu]:
    with gpu.opened(open_library(fake.path), 0) as opened:
        yield opened


def refused(code: int, call: Callable[[], object]) -> None:
    with pytest.raises(GpuError) as info:
        call()
    assert info.value.code == code


def prepared(one: Gpu, room: memory.Memory, **changes: int) -> kernel.Prepared:
    device = StandInDevice(library=one.lib.path, compiles=compile_kind, **changes)
    made = device.compile_ttir("double")
    loaded = device.load(made.info, made.code)
    entry = launcher_bind.Entry(info=loaded.info, address=0, keep=loaded)
    addresses = [room.address + 1024 * number for number in range(3)]
    args = launcher_bind.bind(plan_of(8).launches[0], entry, addresses).args
    return kernel.prepare(loaded, args, (2, 1, 1), scratch_address=room.address + 3072)


def test_memory_and_handles_that_are_gone_or_never_were(one: Gpu) -> None:
    call, buffer = one.lib.call, ctypes.create_string_buffer(4096)
    room = memory.allocate(one, 1000)
    address = room.address
    refused(INVALID_VALUE, lambda: call("cuMemcpyDtoH_v2", buffer, address, 1001))
    refused(INVALID_VALUE, lambda: memory.write(one, address + 1, ctypes.addressof(buffer), 1000))
    refused(INVALID_VALUE, lambda: call("cuMemFree_v2", address + 256))
    room.close()
    refused(INVALID_VALUE, lambda: call("cuMemFree_v2", address))
    stream = gpu.new_stream(one.lib)
    call("cuStreamDestroy_v2", stream)
    for name in ("cuStreamDestroy_v2", "cuStreamSynchronize", "cuEventDestroy_v2"):
        refused(INVALID_HANDLE, lambda name=name: call(name, stream))
    refused(INVALID_HANDLE, lambda: call("cuGraphLaunch", stream, one.stream))
    refused(101, lambda: gpu.attribute(one.lib, 7, constants.DeviceAttribute.L2_CACHE_SIZE))
    call("cuCtxSetCurrent", None)
    refused(INVALID_CONTEXT, lambda: memory.allocate(one, 1))


def test_guarded_memory_is_taken_away_in_order(one: Gpu) -> None:
    call = one.lib.call
    room = memory.guarded(one, 3 * PAGE, [(PAGE, 2 * PAGE)])
    buffer = ctypes.create_string_buffer(PAGE + 1)
    refused(INVALID_VALUE, lambda: call("cuMemcpyDtoH_v2", buffer, room.address, 8))
    at = room.address + PAGE
    refused(INVALID_VALUE, lambda: call("cuMemcpyDtoH_v2", buffer, at, PAGE + 1))
    refused(INVALID_VALUE, lambda: call("cuMemAddressFree", room.address, 3 * PAGE))
    refused(INVALID_VALUE, lambda: call("cuMemUnmap", at, PAGE // 2))
    refused(INVALID_VALUE, lambda: memory.guarded(one, 3 * PAGE, [(PAGE, 4 * PAGE)]))
    room.close()
    refused(INVALID_VALUE, lambda: memory.guarded(one, 3 * PAGE + 4096, []))


def test_work_that_nobody_waited_for(one: Gpu) -> None:
    room = memory.allocate(one, 8192)
    ready = prepared(one, room)
    kernel.launch(ready, one.stream)
    buffer = ctypes.create_string_buffer(8192)
    for call in (
        lambda: memory.download(room, ctypes.addressof(buffer)),
        lambda: memory.upload(room, ctypes.addressof(buffer)),
        lambda: one.lib.call("cuMemFree_v2", room.address),
        lambda: one.lib.call("cuModuleUnload", ready.kernel.address),
    ):
        refused(NOT_READY, call)
    gpu.synchronize(one)
    memory.download(room, ctypes.addressof(buffer))


@pytest.mark.parametrize(
    ("words", "value", "code"),
    [
        ("block_x", 2048, INVALID_VALUE),
        ("grid_y", 1 << 16, INVALID_VALUE),
        ("grid_z", 0, INVALID_VALUE),
        ("shared_mem_bytes", 200_000, INVALID_VALUE),
        ("block_x", 1024, constants.LAUNCH_OUT_OF_RESOURCES),
    ],
)
def test_launches_beyond_what_a_block_has(one: Gpu, words: str, value: int, code: int) -> None:
    with memory.allocate(one, 8192) as room:
        ready = prepared(one, room)
        if code == constants.LAUNCH_OUT_OF_RESOURCES:
            image = ctypes.cast(ready.kernel.address, ctypes.POINTER(ctypes.c_uint32))
            image[7] = 255  # registers
        setattr(ready.config, words, value)
        refused(code, lambda: kernel.launch(ready, one.stream))


def test_a_cluster_that_is_not_portable_must_be_allowed_and_is_the_kernels_fault(one: Gpu) -> None:
    with memory.allocate(one, 1 << 14) as room:
        ready = prepared(one, room, num_ctas=16)
        kernel.launch(ready, one.stream)
        gpu.synchronize(one)
        one.lib.call(
            "cuFuncSetAttribute",
            ready.kernel.address,
            constants.FunctionAttribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
            0,
        )
        with pytest.raises(GpuError, match="912") as info:
            kernel.launch(ready, one.stream)
        assert info.value.kernel_fault


def test_what_may_not_stand_in_a_capture_spoils_it(one: Gpu) -> None:
    call, graph = one.lib.call, ctypes.c_void_p()
    for forbidden in (lambda: gpu.synchronize(one), lambda: memory.allocate(one, 1)):
        call("cuStreamBeginCapture_v2", one.stream, constants.STREAM_CAPTURE_MODE_THREAD_LOCAL)
        refused(CAPTURE_UNSUPPORTED, forbidden)
        refused(
            CAPTURE_INVALIDATED,
            lambda: call("cuStreamEndCapture", one.stream, ctypes.byref(graph)),
        )
    assert not graph


def test_code_that_is_gone_is_not_launched(one: Gpu) -> None:
    with memory.allocate(one, 8192) as room:
        ready = prepared(one, room)
        ready.kernel.close()
        refused(INVALID_HANDLE, lambda: kernel.launch(ready, one.stream))
