"""The plugin beside another, active driver: inert until activated, and then it wins."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernelsmith.devices.cpu.versions import TESTED_TRITON, require_triton
from kernelsmith.errors import MissingError

FAKE_COMPILER = """
from triton.backends.compiler import BaseBackend

class FakeBackend(BaseBackend):
    binary_ext = "fake"
    @staticmethod
    def supports_target(target): return target.backend == "fake"
    def hash(self): return "fake"
    def parse_options(self, options):
        from kernelsmith.devices.cpu.compiler import CpuOptions
        return CpuOptions(backend_name="fake")
    def pack_metadata(self, metadata): return ()
    def get_codegen_implementation(self, options): return {}
    def get_module_map(self): return {}
    def load_dialects(self, context): pass
    def add_stages(self, stages, options, language=None):
        stages["ttir"] = lambda module, metadata: module
        def make(module, metadata):
            metadata.update(name="fake", shared=0)
            return b"fake"
        stages["fake"] = make
"""
FAKE_DRIVER = """
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

class Utils:
    def load_binary(self, *args): return object(), object(), 0, 0, 1 << 20
    def unload_module(self, module): pass
    def get_device_properties(self, device): return {"max_shared_mem": 1 << 20}

class FakeDriver(DriverBase):
    def __init__(self):
        self.utils = Utils()
        self.launcher_cls = lambda source, metadata: self.launch
    @classmethod
    def is_active(cls): return True
    def launch(self, *args): print("launched on fake", args[9:])
    def map_python_to_cpp_type(self, ty): return ty
    def get_current_target(self): return GPUTarget("fake", 0, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_active_torch_device(self): return "fake"
    def get_benchmarker(self): return None
"""
SCRIPT = """
import triton
from triton.runtime import driver
from kernelsmith.devices import cpu

@triton.jit
def kernel(n, m):
    pass

print(sorted(set(triton.backends.backends) - {"amd", "nvidia"}))
kernel[(1,)](2, 3)
assert not triton.backends.backends["kernelsmith_cpu"].driver.is_active()
cpu.activate()
print("now", type(driver.active).__name__)
assert triton.backends.backends["kernelsmith_cpu"].driver.is_active()
assert driver.default is not driver.active
driver.set_active(driver.active)
cpu.activate(threads=1)
print("still", type(driver.active).__name__)
cpu.deactivate()
print("again", type(driver.active).__name__)
with cpu.activated(threads=1):
    outer = driver.active
    with cpu.activated(threads=2):
        assert driver.active is not outer
    assert driver.active is outer
    driver.reset_active()
    print("reset", type(driver.active).__name__)
print("after", type(driver.active).__name__)
kernel[(1,)](4, 5)
"""


def run_script(
    tmp_path: Path, script: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    path = tmp_path / "script.py"
    path.write_text(script)
    return subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={
            "TRITON_CACHE_DIR": str(tmp_path / "cache"),
            "PATH": "",
            "HOME": str(tmp_path),
            **environment,
        },
    )


def test_another_active_driver_keeps_working_and_activate_wins_until_deactivate(
    tmp_path: Path,
) -> None:
    package = tmp_path / "fakegpu"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "compiler.py").write_text(FAKE_COMPILER)
    (package / "driver.py").write_text(FAKE_DRIVER)
    info = tmp_path / "fakegpu-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fakegpu\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[triton.backends]\nfake = fakegpu\n")

    done = run_script(tmp_path, SCRIPT)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['fake', 'kernelsmith_cpu']",
        "launched on fake (2, 3)",
        "now CpuDriver",
        "still CpuDriver",
        "again FakeDriver",
        "reset FakeDriver",
        "after FakeDriver",
        "launched on fake (4, 5)",
    ]


def test_without_another_driver_triton_is_as_if_we_were_not_there(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        "from triton.runtime import driver\nfrom kernelsmith.devices import cpu\n"
        "cpu.activate()\nprint(type(driver.active).__name__)\ncpu.deactivate()\n"
        "try:\n    driver.active\nexcept RuntimeError as error:\n    print(error)\n",
    )
    assert done.stdout.splitlines() == [
        "CpuDriver",
        "0 active drivers ([]). There should only be one.",
    ], done.stderr


def test_a_triton_that_did_not_load_the_plugin_is_one_clear_error(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        "from kernelsmith.devices import cpu\nfrom kernelsmith.errors import MissingError\n"
        "try:\n    cpu.activate()\nexcept MissingError as error:\n    print(error, error.hint)\n",
        TRITON_BACKENDS_IN_TREE="1",
    )
    assert "does not know the kernelsmith_cpu backend" in done.stdout, done.stderr
    assert "TRITON_BACKENDS_IN_TREE" in done.stdout


@pytest.mark.parametrize("version", TESTED_TRITON)
def test_tested_releases_are_accepted(version: str) -> None:
    assert require_triton(version) == version
    assert require_triton(f"{version}+git1234") == version


@pytest.mark.parametrize("version", ["3.5.1", "3.8.0", "3.10.0", "4.0.0"])
def test_any_other_release_is_one_clear_line(version: str) -> None:
    with pytest.raises(
        MissingError, match=f"Triton {version} is not supported: tested are"
    ) as info:
        require_triton(version)
    assert "pip install triton==" in str(info.value.hint)
