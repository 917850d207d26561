"""Warms a launcher: one small kernel of our own is compiled and loaded.

Compiler modules and LLVM are imported and set up on first use (a quarter of a second of a job's
time). It is done before the template forks.
"""

from pathlib import Path
from typing import Any

from kernelsmith import devices
from kernelsmith.errors import KernelsmithError, SandboxError
from kernelsmith.numerics import recipes
from kernelsmith.worker import launcher

GPU_NODES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
TTIR = """module {
  tt.func public @warm(%x_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {
    %cst = arith.constant dense<0.000000e+00> : tensor<16xf32>
    %at = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %ns = tt.splat %n : i32 -> tensor<16xi32>
    %mask = arith.cmpi slt, %at, %ns : tensor<16xi32>
    %base = tt.splat %x_ptr : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %ptrs = tt.addptr %base, %at : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %x = tt.load %ptrs, %mask, %cst : tensor<16x!tt.ptr<f32>>
    %y = arith.mulf %x, %x : tensor<16xf32>
    tt.store %ptrs, %y, %mask : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
"""


def warm_launcher() -> dict[str, Any]:
    """Compiles and loads the kernel above.

    Returns:
        Facts for the record.

    Raises:
        SandboxError: the device cannot do it.
    """
    device = devices.get("cpu")
    try:
        compiled = device.compile_ttir(TTIR)
        device.load(compiled.info, compiled.code)
    except KernelsmithError as error:
        raise SandboxError(f"the launcher's own kernel: {error.message}") from error
    gpu = any(place.exists() for place in GPU_NODES)
    if gpu:
        _import_gpu_modules()
    modules = [recipes.__name__, launcher.__name__]
    return {"device": device.name, "gpu": gpu, "modules": modules}


def _import_gpu_modules() -> None:
    """Imports what a GPU's jobs need. The driver is not started: it must not be before a fork."""
    import triton.compiler  # noqa: F401

    from kernelsmith.devices.cuda import device  # noqa: F401
    from kernelsmith.worker import launcher_gpu  # noqa: F401
