"""Ordinary Triton programs on CPU tensors: ``kernel[grid](...)`` end to end."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.devices.cpu import activated
from kernelsmith.errors import CompileError, InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "version_kernels", ROOT / "benchmarks" / "version_kernels.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def device(cache: Path) -> Iterator[None]:
    with activated(threads=1):
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_vector_add_has_the_bits_of_torch(kernels: ModuleType, dtype: torch.dtype) -> None:
    x, y = kernels.floats(1, (1003,), dtype), kernels.floats(2, (1003,), dtype)
    out = torch.empty_like(x)
    kernels.add[(triton.cdiv(1003, 256),)](x, y, out, 1003, BLOCK=256)
    assert torch.equal(out, x + y)


def test_row_sum_and_matmul_agree_with_float64(kernels: ModuleType) -> None:
    x = kernels.floats(3, (5, 1000), torch.float32)
    sums = torch.empty(5)
    kernels.row_sum[(5,)](x, sums, 1000, 1000, BLOCK=1024)
    torch.testing.assert_close(sums.double(), x.double().sum(1), rtol=1e-5, atol=1e-3)
    a, b = (kernels.floats(s, shape, torch.bfloat16) for s, shape in ((4, (33, 70)), (5, (70, 40))))
    c = torch.empty(33, 40)
    kernels.matmul[(2, 2)](a, b, c, 33, 40, 70, BM=32, BN=32, BK=32)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-2)


def test_orders_and_threads_give_the_same_bits(kernels: ModuleType) -> None:
    def digests() -> list[str]:
        return [
            kernels._matmul(torch.bfloat16, 65, 70, 100),
            kernels._seed_rms_norm(torch.float32, True),
        ]

    wanted = digests()
    for order, threads in (("descending", 1), ("shuffled:5", 1), ("ascending", 2)):
        with activated(order=order, threads=threads):
            assert digests() == wanted, (order, threads)


@triton.jit
def roll_call(order_ptr, count_ptr):
    """Each program writes its number at the next place."""
    tl.store(order_ptr + tl.atomic_add(count_ptr, 1), tl.program_id(0))


def test_an_order_holds_for_kernels_that_another_activation_compiled() -> None:
    def seen() -> list[int]:
        order, count = torch.zeros(8, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        roll_call[(8,)](order, count)
        return [int(each) for each in order]

    assert seen() == list(range(8))
    with activated(threads=1, order="descending"):
        assert seen() == list(range(7, -1, -1))
    with activated(threads=1, order="shuffled:7"):
        assert sorted(seen()) == list(range(8)) != seen()
    assert seen() == list(range(8))


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=2)], key=["n"]
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def scale_tuned(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) * factor)
    else:
        inside = offsets < n
        x = tl.load(x_ptr + offsets, mask=inside)
        tl.store(out_ptr + offsets, x * factor, mask=inside)


@pytest.mark.parametrize("n", [1024, 1001])
def test_autotune_and_heuristics_run_unmodified(n: int) -> None:
    x = torch.arange(n, dtype=torch.float32)
    out = torch.zeros(n)
    scale_tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, 0.3)
    assert torch.equal(out, x * torch.tensor(0.3))
    assert scale_tuned.best_config in scale_tuned.configs


@triton.jit
def offset_copy(x_ptr, bias_ptr, out_ptr, stride, pair, n: tl.constexpr):
    i = tl.arange(0, n)
    value = tl.load(x_ptr + i * stride) + pair[0] + pair[1]
    if bias_ptr is not None:
        value += tl.load(bias_ptr + i)
    tl.store(out_ptr + i, value)


@pytest.mark.parametrize("stride", [1, 3, 16])
def test_specialised_absent_and_nested_arguments_are_bound(stride: int) -> None:
    x = torch.arange(32 * stride, dtype=torch.float32)
    out = torch.zeros(32)
    offset_copy[(1,)](x, None, out, stride, (2.0, 5), n=32)
    assert torch.equal(out, x[::stride] + 7)
    offset_copy[(1,)](x, x, out, stride, (1, 2.0), n=32)
    assert torch.equal(out, x[::stride] + 3 + x[:32])


def test_an_argument_beyond_its_type_is_one_line() -> None:
    x = torch.zeros(32)
    with activated(), pytest.raises(InputError, match="does not fit its type"):
        offset_copy[(1,)](x, None, x, 1, (1e39, 2.0), n=32)


def test_an_empty_grid_runs_nothing(kernels: ModuleType) -> None:
    out = torch.full((16,), 7.0)
    kernels.add[(0,)](out, out, out, 16, BLOCK=16)
    assert (out == 7).all()


def test_tensor_elsewhere_is_refused(kernels: ModuleType) -> None:
    x = torch.zeros(16)
    with pytest.raises(InputError, match="argument 1 is a tensor on meta"):
        kernels.add[(1,)](x, torch.zeros(16, device="meta"), x, 16, BLOCK=16)


@triton.jit
def assembles(x_ptr):
    value = tl.load(x_ptr)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [value], tl.float32, False, 1)


def test_op_that_is_not_lowered_is_an_error_that_names_it_and_its_line() -> None:
    with pytest.raises(CompileError) as info:
        assembles[(1,)](torch.zeros(1))
    assert "tt.elementwise_inline_asm" in info.value.op
    assert "tl.inline_asm_elementwise" in _source_line(info.value.line)


def _source_line(line: str) -> str:
    """The text of a line given as ``...test_launch.py:<number>...``."""
    number = line.split("test_launch.py")[1].lstrip('":').split(":")[0]
    return Path(__file__).read_text().splitlines()[int(number) - 1]


# A numpy array stands in for a tensor: importing torch would take most of the test's time.
CACHED_SCRIPT = """
import json, sys
import numpy as np
import triton
import triton.language as tl
from kernelsmith.devices.cpu import activate

@triton.jit
def double(x_ptr, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)

class Tensor:
    def __init__(self, array):
        self.array, self.dtype = array, array.dtype
    def data_ptr(self):
        return self.array.ctypes.data

activate(threads=1)
x = np.arange(64, dtype=np.float32)
double[(1,)](Tensor(x), n=64)
print(json.dumps({"sum": x.sum().item(), "llvm": "llvmlite" in sys.modules}))
"""


def test_second_process_takes_the_object_from_tritons_cache(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CACHED_SCRIPT)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}

    def run() -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    assert run() == {"sum": 4032.0, "llvm": True}
    assert run() == {"sum": 4032.0, "llvm": False}


def test_launch_hooks_see_every_launch_and_the_code_is_loaded_once(kernels: ModuleType) -> None:
    x, seen = torch.ones(16), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton.knobs.runtime, "launch_enter_hook", seen.append)
        for _ in range(2):
            kernels.add[(1,)](x, x, x, 16, BLOCK=16)
    assert [launch.get()["name"] for launch in seen] == ["add", "add"]
    assert seen[0].get()["function"] is seen[1].get()["function"]
    assert (x == 4).all()


def test_a_kernel_outlives_the_driver_it_ran_on() -> None:
    # A kernel that is freed while no driver is active must not ask one to unload it.
    script = (
        "import gc, torch\nfrom kernelsmith.devices.cpu import activated\n"
        "import version_kernels as v\nx = torch.ones(16)\n"
        "with activated(threads=1):\n    v.add[(1,)](x, x, x, 16, BLOCK=16)\n"
        "v.add.device_caches.clear()\ngc.collect()\nprint(x.sum().item())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")},
    )
    assert (done.stdout, done.stderr) == ("32.0\n", "")
