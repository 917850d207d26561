"""What a worker may reach of a GPU, and which jobs are made for one."""

import getpass
from pathlib import Path

import pytest

from kernelsmith.config import gpu_environment
from kernelsmith.model import CompileJob, Job, RunJob, TimeJob, TraceJob
from kernelsmith.sandbox import bubblewrap, paths
from kernelsmith.worker.job_child import Order


def nodes_in(folder: Path) -> Path:
    for name in ("nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "null", "nvidia-foreign"):
        (folder / name).touch()
    return folder


def test_only_workers_with_machine_code_may_open_a_gpu(tmp_path: Path) -> None:
    folder = nodes_in(tmp_path)
    for role in ("launcher", "seed"):
        names = [path.name for path in paths.gpu_nodes(role, folder)]  # type: ignore[arg-type]
        assert names == ["nvidia-uvm", "nvidia0", "nvidia12", "nvidiactl"]
    assert paths.gpu_nodes("frontend", folder) == []


def test_bubblewrap_binds_the_nodes_before_dev_becomes_read_only(tmp_path: Path) -> None:
    nodes = [Path("/dev/nvidia0"), Path("/dev/nvidiactl")]
    command = bubblewrap.wall_arguments(Path("bwrap"), tmp_path, nodes)
    ends = command.index("/dev", command.index("--remount-ro"))
    for node in map(str, nodes):
        at = command.index(node)
        assert command[at - 1 : at + 2] == ["--dev-bind", node, node]
        assert at < ends
    plain = bubblewrap.wall_arguments(Path("bwrap"), tmp_path)
    assert "--dev-bind" not in plain
    assert "/sys/bus" not in plain


def test_which_gpu_is_meant_is_all_that_a_worker_inherits() -> None:
    here = {"CUDA_VISIBLE_DEVICES": "3", "HOME": "/home/someone", "PTXAS_OPTIONS": "-O0"}
    assert gpu_environment(here) == {"CUDA_VISIBLE_DEVICES": "3"}


def test_a_driver_on_the_library_path_is_there_for_workers_that_use_it(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").touch()
    here = {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"}
    assert paths.driver_folder("frontend", here) is None
    assert paths.driver_folder("seed", {"LD_LIBRARY_PATH": "/nowhere"}) is None
    driver = paths.driver_folder("seed", here)
    assert driver == tmp_path
    command = bubblewrap.wall_arguments(Path("bwrap"), tmp_path, (), driver)
    at = command.index("LD_LIBRARY_PATH")
    assert command[at - 1 : at + 2] == ["--setenv", "LD_LIBRARY_PATH", str(tmp_path)]
    assert ["--ro-bind", str(tmp_path)] == command[command.index(str(tmp_path), at + 2) - 1 :][:2]


def test_a_worker_has_a_user_name_where_no_password_file_knows_its_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.environ", paths.environment("/private", ()))
    assert getpass.getuser() == "kernelsmith"


def test_a_python_that_was_called_with_steps_back_is_found_inside_a_wall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "/checkout/benchmarks/../.venv/bin/python")
    assert paths.worker_command("seed", "", "")[0] == "/checkout/.venv/bin/python"


def order_of(job: Job) -> Order:
    return Order(kind="run", timeout_s=1.0, job=job)


@pytest.mark.parametrize(("device", "gpu"), [("cpu", False), ("cuda:90", True)])
def test_only_running_and_timing_on_a_gpu_go_without_the_filter(device: str, gpu: bool) -> None:
    nothing = {"objects": {}, "object_of": {}, "device": device}
    run = RunJob(runs=(), **nothing)  # type: ignore[arg-type]
    time = TimeJob(cases=(), placement=1, verify=1, **nothing)  # type: ignore[arg-type]
    assert order_of(run).gpu is gpu
    assert order_of(time).gpu is gpu
    assert not order_of(CompileJob(ttirs={}, device=device)).gpu
    trace = TraceJob(source="", entries=(), calls=(), device=device)
    assert not order_of(trace).gpu
