"""The driver layer against the stand-in: what is called with what, and what its errors become."""

import ctypes
import dataclasses

import pytest

from kernelsmith.devices import cuda
from kernelsmith.devices.cuda import constants, gpu, graph, kernel, memory
from kernelsmith.devices.cuda.libcuda import Library, open_library
from kernelsmith.errors import CompileError, GpuError, InputError, MissingError
from kernelsmith.worker import launcher_bind
from tests.cuda.native import compile_kind, plan_of
from tests.cuda.stand_in import Fake, StandInDevice

Args = ctypes.Array[ctypes.c_char]


def lib_of(fake: Fake) -> Library:
    return open_library(fake.path)


def device_of(fake: Fake, **changes: int) -> StandInDevice:
    return dataclasses.replace(StandInDevice(library=fake.path, compiles=compile_kind), **changes)


def loaded(device: StandInDevice, kind: str = "double") -> kernel.LoadedKernel:
    made = device.compile_ttir(kind)
    found: kernel.LoadedKernel = device.load(made.info, made.code)
    return found


def args_for(fake_address: int, elements: int, loaded_kernel: kernel.LoadedKernel) -> Args:
    entry = launcher_bind.Entry(info=loaded_kernel.info, address=0, keep=loaded_kernel)
    addresses = [fake_address, fake_address + 4 * elements, fake_address + 8 * elements]
    return launcher_bind.bind(plan_of(elements).launches[0], entry, addresses).args


def test_facts_of_a_gpu(fake: Fake) -> None:
    facts = gpu.facts(lib_of(fake), 0)
    assert facts.name == "Stand-in 0"
    assert facts.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (facts.arch, facts.multiprocessors, facts.cuda) == (90, 132, "12.8")
    device = cuda.CudaDevice(library=fake.path)
    assert device.target == "cuda:90"
    assert device.num_programs == 132
    described = device.describe()
    assert described["arch"] == "sm_90"
    assert described["gpu"] == "Stand-in 0"
    assert {"triton", "ptxas", "flags", "driver", "cuda", "key"} <= set(described)


def test_a_machine_without_gpus_and_a_generation_nobody_compiled_for(fake: Fake) -> None:
    fake.reset(devices=0)
    with pytest.raises(MissingError, match="sees no GPU"):
        cuda.CudaDevice(library=fake.path).describe()
    fake.reset()
    with pytest.raises(MissingError, match="there is no GPU 1"):
        cuda.CudaDevice(library=fake.path, ordinal=1).describe()
    fake.reset(arch=89)
    with pytest.raises(MissingError, match="sm_89"):
        cuda.CudaDevice(library=fake.path).describe()


def test_a_gpu_for_one_process_at_a_time_is_named_before_a_worker_finds_it_busy(fake: Fake) -> None:
    fake.reset(mode=3)  # CU_COMPUTEMODE_EXCLUSIVE_PROCESS
    with pytest.raises(MissingError, match="one process at a time") as info:
        cuda.CudaDevice(library=fake.path).describe()
    assert "nvidia-smi -c DEFAULT" in str(info.value.hint)


def test_everything_that_is_opened_is_given_back(fake: Fake) -> None:
    lib = lib_of(fake)
    with gpu.opened(lib, 0) as one:
        with memory.allocate(one, 1000), memory.guarded(one, 6 << 20, [(2 << 20, 4 << 20)]):
            assert fake.count("allocations") == 3
        made = loaded(device_of(fake))
        replay = graph.Replay(one, [], graphs=True)
        assert replay.by == "graph"
        replay.close()
        replay.close()
        made.close()
        made.close()
    assert fake.leaks() == {}


def test_a_failing_part_of_guarded_memory_gives_all_of_it_back(fake: Fake) -> None:
    with gpu.opened(lib_of(fake), 0) as one:
        for function in ("cuMemCreate", "cuMemMap", "cuMemSetAccess"):
            fake.fail(function, constants.OUT_OF_MEMORY, after=1)
            with pytest.raises(GpuError, match=function) as info:
                memory.guarded(one, 10 << 20, [(2 << 20, 4 << 20), (6 << 20, 8 << 20)])
            assert "used up" in str(info.value.hint)
    assert fake.leaks() == {}


def test_a_launch_packs_what_the_kernel_takes(fake: Fake) -> None:
    device = device_of(fake, num_warps=8, num_ctas=4, shared_bytes=100_000)
    with gpu.opened(lib_of(fake), 0) as one, memory.allocate(one, 4096) as room:
        made = loaded(device)
        assert "cuFuncSetAttribute" in fake.calls()
        args = args_for(room.address, 100, made)
        wanted = kernel.scratch_bytes(made.info, 6)
        with memory.allocate(one, wanted) as scratch:
            prepared = kernel.prepare(made, args, (2, 3, 1), scratch_address=scratch.address)
            kernel.launch(prepared, one.stream)
            gpu.synchronize(one)
            last = fake.last()
            assert list(last.grid) == [8, 3, 1]
            assert list(last.block) == [256, 1, 1]
            assert (last.shared, last.cluster) == (100_000, 4)
            ids = constants.LaunchAttributeId
            assert list(last.attributes[: last.attribute_count]) == [
                ids.CLUSTER_DIMENSION,
                ids.CLUSTER_SCHEDULING_POLICY_PREFERENCE,
            ]
            pointers = [room.address + 400 * number for number in range(3)]
            assert list(last.slot[:4]) == [*pointers, 100]
            assert list(last.scratch) == [scratch.address, 0]
        with pytest.raises(CompileError, match="grid"):
            kernel.prepare(made, args, (1, 70_000, 1))
        with pytest.raises(InputError, match="takes 4 arguments"):
            kernel.prepare(made, (ctypes.c_char * 8)(), (1, 1, 1))
        made.close()


def test_a_kernel_that_wants_too_much_shared_memory_is_the_candidates_fault(fake: Fake) -> None:
    with gpu.opened(lib_of(fake), 0):
        with pytest.raises(CompileError, match="300000 bytes of shared memory"):
            loaded(device_of(fake, shared_bytes=300_000))
        fake.fail("cuModuleLoadData", 209)
        with pytest.raises(GpuError, match="cuModuleLoadData") as info:
            loaded(device_of(fake))
        assert not info.value.kernel_fault
        assert "another GPU generation" in str(info.value.hint)
        fake.fail("cuModuleGetFunction", 500)
        with pytest.raises(GpuError, match="cuModuleGetFunction"):
            loaded(device_of(fake))
        assert fake.count("modules") == 0


def test_a_fault_loses_the_context_and_says_that_the_kernel_did_it(fake: Fake) -> None:
    with gpu.opened(lib_of(fake), 0) as one, memory.allocate(one, 4096) as room:
        made = loaded(device_of(fake), "traps")
        with memory.allocate(one, kernel.scratch_bytes(made.info, 6)) as scratch:
            args = args_for(room.address, 100, made)
            prepared = kernel.prepare(made, args, (2, 3, 1), scratch_address=scratch.address)
            kernel.launch(prepared, one.stream)
            with pytest.raises(GpuError, match="ILLEGAL_ADDRESS") as info:
                gpu.synchronize(one)
            assert info.value.kernel_fault
            assert info.value.code == 700
            with pytest.raises(GpuError, match="ILLEGAL_ADDRESS"):
                memory.allocate(one, 1)


def test_a_graph_is_timed_between_its_own_events_and_can_be_replayed(fake: Fake) -> None:
    with gpu.opened(lib_of(fake), 0) as one, memory.allocate(one, 1 << 20) as room:
        made = loaded(device_of(fake))
        with memory.allocate(one, kernel.scratch_bytes(made.info, 6)) as scratch:
            prepared = kernel.prepare(
                made,
                args_for(room.address, 20_000, made),
                (2, 3, 1),
                scratch_address=scratch.address,
            )
            before = fake.count("launches")
            once = graph.Replay(one, [prepared], graphs=True)
            many = graph.Replay(one, [prepared] * 40, graphs=True)
            assert fake.count("launches") == before  # captured, not run
            assert (once.by, many.by) == ("graph", "graph")
            times = [(once.time_ns(), many.time_ns()) for _ in range(3)]
            assert fake.count("launches") == before + 3 * 41
            assert min(many for _, many in times) > 5 * min(once for once, _ in times) > 0
            assert "cuGraphLaunch" in fake.calls()
            once.close()
            many.close()
        made.close()
    assert fake.leaks() == {}


@pytest.mark.parametrize(
    "function", ["cuStreamBeginCapture_v2", "cuEventRecordWithFlags", "cuGraphInstantiateWithFlags"]
)
def test_where_a_driver_refuses_graphs_events_in_the_stream_time(fake: Fake, function: str) -> None:
    with gpu.opened(lib_of(fake), 0) as one:
        fake.fail(function, 801)
        replay = graph.Replay(one, [], graphs=True)
        assert replay.by == "events"
        assert replay.time_ns() >= 0
        replay.close()
        # What was begun was ended: the stream takes launches and captures again.
        again = graph.Replay(one, [], graphs=True)
        assert again.by == "graph"
        again.close()
    assert fake.leaks() == {}


def test_a_driver_that_lacks_a_function_says_which(fake: Fake) -> None:
    lib = Library(ctypes.CDLL(None), "libc")
    with pytest.raises(MissingError, match="has no cuInit"):
        lib.call("cuInit", 0)
    with pytest.raises(MissingError, match="no NVIDIA driver"):
        open_library("/nowhere/libcuda.so.1")
