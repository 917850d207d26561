"""The registry of devices, and what a device says that is not there."""

import pytest

from kernelsmith import devices
from kernelsmith.devices.cuda import ARCHS, CudaDevice
from kernelsmith.errors import CompileError, InputError, MissingError

TTIR = """module {
  tt.func public @scale(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %c = arith.constant dense<2.0> : tensor<128xf32>
    %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %q = tt.addptr %p, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %v = tt.load %q : tensor<128x!tt.ptr<f32>>
    %m = arith.mulf %v, %c : tensor<128xf32>
    %s = arith.addf %m, %v : tensor<128xf32>
    tt.store %q, %s : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""


def test_names_and_auto() -> None:
    assert devices.names() == ("cpu", "cuda")
    assert devices.auto() == "cpu"
    assert [devices.get(name).name for name in devices.names()] == ["cpu", "cuda"]


def test_unknown_device_is_refused_with_the_names() -> None:
    with pytest.raises(InputError, match="no device 'tpu'") as info:
        devices.get("tpu")
    assert "cpu, cuda" in str(info.value.hint)


def test_a_gpu_is_named_with_its_architecture() -> None:
    assert devices.get("cuda:90").target == "cuda:90"
    assert devices.get("cpu").target == "cpu"
    for name in ("cuda:", "cuda:x", "cpu:90", "cuda:90:1"):
        with pytest.raises(InputError, match="no device"):
            devices.get(name)
    with pytest.raises(InputError, match="sm_75"):
        devices.get("cuda:75").object_id(TTIR)


def test_without_a_driver_cuda_says_so_and_names_another_way() -> None:
    device = CudaDevice(library="/nowhere/libcuda.so.1")
    for use in (
        device.describe,
        lambda: device.compile_ttir(TTIR),
        lambda: device.object_id(TTIR),
        lambda: device.num_programs,
        lambda: device.turn(alone=True),
    ):
        with pytest.raises(MissingError, match="no NVIDIA driver") as info:
            use()
        assert "--device cpu" in str(info.value.hint)


def test_cross_compiling_keeps_products_and_sums_apart() -> None:
    code = CudaDevice().cross_compile(TTIR, arch=ARCHS[1], options={"num_warps": 1})
    assert code.symbol == "scale"
    assert code.num_warps == 1
    assert code.cubin.startswith(b"\x7fELF")
    assert ".target sm_90a" in code.ptx
    assert "fma" not in code.ptx


def test_cross_compiling_refuses_what_it_does_not_know() -> None:
    with pytest.raises(InputError, match="sm_75"):
        CudaDevice().cross_compile(TTIR, arch=75)
    with pytest.raises(InputError, match="ir_override"):
        CudaDevice().cross_compile(TTIR, arch=90, options={"ir_override": 1})
    with pytest.raises(CompileError, match="sm_90"):
        CudaDevice().cross_compile(TTIR.replace("tt.store", "tt.nonsense"), arch=90)
