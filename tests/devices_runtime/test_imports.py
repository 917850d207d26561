"""What a process drags in: the plugin nothing heavy, a timing session no compiler."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "triton", "llvmlite", "scipy", "numpy", "pydantic", "sqlalchemy")


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.splitlines()}


@pytest.mark.parametrize(
    "code",
    [
        "import kernelsmith.devices.cpu",
        "import kernelsmith.devices as d; d.names(); d.auto()",
        # All that a process needs to load and run compiled kernels, and to say what they are.
        "import kernelsmith.devices as d; c = d.get('cpu'); c.describe(); c.object_id('module {}')"
        "\nimport kernelsmith.devices.cpu.kernel, kernelsmith.devices.cpu.launch",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    assert not modules_after(code) & set(HEAVY)


def test_triton_with_the_plugin_installed_does_not_import_torch_or_llvmlite() -> None:
    loaded = modules_after(
        "import triton\nassert 'kernelsmith_cpu' in triton.backends.backends\n"
        "assert 'kernelsmith.devices.cpu.driver' in sys.modules"
    )
    assert not loaded & {"torch", "llvmlite", "numpy"}
