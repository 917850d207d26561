"""Who has the GPU now, and what NVML tells of it."""

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kernelsmith.devices.cuda import libcuda, lock, nvml
from kernelsmith.errors import InfrastructureError
from tests.cuda.stand_in import why_not

UUID = "GPU-0011"


def tries(folder: Path, *, alone: bool) -> bool:
    """Whether another process gets the lock at once."""
    code = f"""
        import fcntl, os, sys
        from pathlib import Path
        from kernelsmith.devices.cuda import lock
        path = lock.place({UUID!r}, Path({str(folder)!r}))
        how = fcntl.LOCK_{"EX" if alone else "SH"} | fcntl.LOCK_NB
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            sys.exit(9)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode in (0, 9)
    return done.returncode == 0


def test_timing_has_the_gpu_alone_and_checks_share_it(tmp_path: Path) -> None:
    with lock.held(UUID, alone=False, folder=tmp_path):
        assert tries(tmp_path, alone=False)
        assert not tries(tmp_path, alone=True)
    with lock.held(UUID, alone=True, folder=tmp_path):
        assert not tries(tmp_path, alone=False)
    assert tries(tmp_path, alone=True)


def test_who_waits_for_ever_is_told_who_to_look_for(tmp_path: Path) -> None:
    with lock.held(UUID, alone=False, folder=tmp_path):
        with lock.held(UUID, alone=False, folder=tmp_path, wait_s=0.0):
            pass
        with (
            pytest.raises(InfrastructureError, match="held by another kernelsmith for too long"),
            lock.held(UUID, alone=True, folder=tmp_path, wait_s=0.05),
        ):
            pass
    with lock.held(UUID, alone=True, folder=tmp_path, wait_s=0.0):
        pass


def test_a_private_folder_for_temporary_files_does_not_part_two_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    shared, closed = tmp_path / "shared", tmp_path / "closed"
    shared.mkdir()
    shared.chmod(0o1777)
    closed.mkdir(mode=0o755)
    assert lock.shared_folder((tmp_path / "missing", closed, shared)) == shared
    assert lock.shared_folder((closed,)) not in (closed, shared)


def test_the_lock_is_for_all_users_and_no_link_is_followed(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        with lock.held(UUID, alone=True, folder=tmp_path):
            mode = stat.S_IMODE(lock.place(UUID, tmp_path).stat().st_mode)
    finally:
        os.umask(mask)
    assert mode == 0o666
    assert "/" not in lock.place("GPU-../../x", tmp_path).name
    other = lock.place("GPU-2", tmp_path)
    other.symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(InfrastructureError, match="cannot be opened"),
        lock.held("GPU-2", alone=True, folder=tmp_path),
    ):
        pass
    os.mkfifo(lock.place("GPU-3", tmp_path))
    with (
        pytest.raises(InfrastructureError, match="no plain file"),
        lock.held("GPU-3", alone=True, folder=tmp_path),
    ):
        pass


def test_another_users_lock_is_opened_where_linux_lets_only_its_owner_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock.place(UUID, tmp_path).touch()
    opened = os.open

    def protected(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT and not flags & os.O_EXCL and path.exists():
            raise PermissionError(13, "fs.protected_regular")
        return opened(path, flags, *mode)

    monkeypatch.setattr("os.open", protected)
    with (
        lock.held(UUID, alone=True, folder=tmp_path),
        lock.held("GPU-4", alone=True, folder=tmp_path),
    ):
        assert not tries(tmp_path, alone=True)


NVML = r"""
#include <string.h>
typedef void *device;
#define OUT __attribute__((visibility("default")))
OUT int nvmlInit_v2(void) { return 0; }
OUT int nvmlShutdown(void) { return 0; }
OUT int nvmlSystemGetDriverVersion(char *text, unsigned length) {
  strncpy(text, "570.86.15", length);
  return 0;
}
OUT int nvmlDeviceGetHandleByUUID(const char *uuid, device *found) {
  *found = (device)1;
  return strcmp(uuid, "GPU-0011") ? 6 : 0;
}
OUT int nvmlDeviceGetClockInfo(device d, int which, unsigned *mhz) {
  *mhz = which == 1 ? 1980 : 2619;
  return 0;
}
OUT int nvmlDeviceGetTemperature(device d, int sensor, unsigned *celsius) {
  *celsius = 41;
  return 0;
}
OUT int nvmlDeviceGetPowerUsage(device d, unsigned *milliwatts) { *milliwatts = 120500; return 0; }
OUT int nvmlDeviceGetPersistenceMode(device d, unsigned *mode) { return 3; }
OUT int nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *mask) {
  *mask = 0x1 | 0x4 | 0x40 | 0x1000;
  return 0;
}
"""


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> str:
    if why_not():
        pytest.skip(why_not())
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(NVML)
    command = ["cc", "-w", "-shared", "-fPIC", str(folder / "nvml.c"), "-o", str(folder / "n.so")]
    subprocess.run(command, check=True)
    return str(folder / "n.so")


def test_state_has_what_nvml_answers_and_leaves_out_the_rest(stand_in: str) -> None:
    assert nvml.driver_version(stand_in) == "570.86.15"
    assert nvml.state(UUID, stand_in) == {
        "sm_mhz": 1980,
        "memory_mhz": 2619,
        "temperature_c": 41,
        "power_w": 120.5,
        "throttled": ["power cap", "thermal (hardware)", "0x1000"],
    }
    assert nvml.state("GPU-of-nobody", stand_in) == {}


def test_a_library_is_found_where_containers_have_it(stand_in: str, tmp_path: Path) -> None:
    name = "libnvidia-ml-of-nobody.so.1"
    assert libcuda.shared(name, (str(tmp_path),)) is None
    (tmp_path / name).symlink_to(stand_in)
    found = libcuda.shared(name, (str(tmp_path),))
    assert found is not None
    assert found[1] == f"{tmp_path}/{name}"


def test_without_nvml_nothing_is_told() -> None:
    assert nvml.state(UUID, "/nowhere/libnvidia-ml.so.1") == {}
    assert nvml.reasons(0x1 | 0x2) == []
