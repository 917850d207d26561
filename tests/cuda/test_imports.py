"""A process that runs or times kernels on a GPU holds neither torch nor a compiler."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "triton", "llvmlite", "scipy", "pydantic"}


@pytest.mark.parametrize(
    "modules",
    [
        "kernelsmith.worker.session, kernelsmith.worker.session_gpu",
        "kernelsmith.worker.launcher_gpu",
        "kernelsmith.devices.cuda.device",
    ],
)
def test_nothing_heavy_is_imported(modules: str) -> None:
    code = f"import sys, {modules}; print(*sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_device_alone_needs_no_numpy() -> None:
    code = "import sys, kernelsmith.devices.cuda; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
