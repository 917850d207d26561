"""What a worker needs to see of the file system, and the command that starts one."""

import importlib.util
import os
import site
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.config import gpu_environment
from kernelsmith.ports import Role

NEEDED = ("torch", "triton", "numpy", "llvmlite", "pydantic_core")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache")
# No user site (anybody may write there), no current folder on the path, no byte code written.
PYTHON_FLAGS = ("-s", "-P", "-B")
# What the NVIDIA driver opens, and where it reads of the machine. Only for workers that hold
# machine code, never for one that holds candidate Python.
GPU_NODES: tuple[str, ...] = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
GPU_NODES += ("nvidia[0-9]*", "nvidia-caps/*", "dxg")
# A worker reads its own numbers and the machine's; other processes' folders stay closed.
OWN_FACTS: tuple[str, ...] = (
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
)
OWN_FACTS += ("/sys/devices/system/cpu", "/dev/zero", "/dev/urandom", "/dev/random")
DRIVER = "libcuda.so.1"
GPU_PLACES = ("/sys/bus", "/sys/devices", "/sys/module")
GPU_FACTS = ("/proc/driver/nvidia", "/proc/devices", "/proc/modules", *GPU_PLACES)
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    # Inside a wall the user has no entry in a password file, which torch 2.11 asks for its name.
    "LOGNAME": "kernelsmith",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Sets and dicts of strings must iterate alike in every process.
    "PYTHONHASHSEED": "0",
}
MEMORY_MAX_BYTES = 8 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """Read-only places inside the wall. ``python_path`` is for packages outside of ``sys.prefix``
    (a checkout that is not installed, a user site)."""

    system: tuple[Path, ...]
    python: tuple[Path, ...]
    package: Path
    python_path: tuple[Path, ...]

    @property
    def all(self) -> tuple[Path, ...]:
        return (*self.system, *self.python, self.package)


def visible() -> Visible:
    """The system's libraries, this Python with its packages, and the package ``kernelsmith``:
    not the checkout around it, not the home folder, not the database."""
    package = Path(__file__).resolve().parent.parent
    prefixes = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_exec_prefix)}
    # The program may be reached through links that the prefixes do not show.
    prefixes |= {prefix.resolve() for prefix in prefixes}
    prefixes |= {Path(sys.executable).resolve().parent.parent}
    installed = {Path(place) for place in site.getsitepackages()}
    extra = {place for place in _homes(NEEDED) if not _within(place, prefixes)}
    outside = {place for place in extra if not _within(place, [Path("/usr")])}
    on_path = sorted(outside) + ([] if package.parent in installed else [package.parent])
    python = sorted({*prefixes, *outside} - {Path("/usr")})
    return Visible(
        system=tuple(Path(place) for place in SYSTEM if os.path.lexists(place)),
        python=tuple(place for place in python if not _within(place, set(python) - {place})),
        package=package,
        python_path=tuple(on_path),
    )


def gpu_nodes(role: str, folder: Path = Path("/dev")) -> list[Path]:
    """The device files of GPUs that a worker of this role may open: none on a machine without."""
    if role == "frontend":
        return []
    return sorted(path for name in GPU_NODES for path in folder.glob(name))


def driver_folder(role: Role, variables: Mapping[str, str] | None = None) -> Path | None:
    """Where ``LD_LIBRARY_PATH`` has the NVIDIA driver, for a worker that may use it: containers put
    it there, and a worker inherits no such path."""
    listed = (os.environ if variables is None else variables).get("LD_LIBRARY_PATH", "")
    folders = [] if role == "frontend" else [Path(one) for one in listed.split(":") if one]
    return next((one.absolute() for one in folders if (one / DRIVER).exists()), None)


def gpu_facts(nodes: Sequence[object], driver: Path | None) -> tuple[str, ...]:
    """What a worker that may open these device files reads besides."""
    return (*(GPU_FACTS if nodes else ()), *([str(driver)] if driver else ()))


def limits_of(given: Mapping[str, int] | None) -> dict[str, int]:
    """All limits of a job (see ``worker.wall.Limits``), defaults where none are given.

    Address space is limited to three quarters of this machine's memory: a job that needs more
    must fail by itself, before the system chooses a process to kill.
    """
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    defaults = {
        "memory_bytes": min(MEMORY_MAX_BYTES, physical * 3 // 4),
        "file_bytes": 2 << 30,
        "trace_file_bytes": 32 << 20,
        "files": 256,
        "spool_bytes": 4 << 30,
        "spool_files": 10_000,
        "processes": 64,
        "threads": 2048,
    }
    return defaults | dict(given or {})


def python() -> str:
    """This interpreter, by a path that is also there inside: as it was called it may lead through
    folders that are not (``x/../bin/python``)."""
    return os.path.abspath(sys.executable)


def worker_command(role: str, spool: str, settings_json: str) -> list[str]:
    """What starts a template."""
    return [python(), *PYTHON_FLAGS, "-m", "kernelsmith.worker", role, spool, settings_json]


def environment(
    tmp: str, python_path: Iterable[Path], driver: Path | None = None
) -> dict[str, str]:
    """All of a worker's environment; nothing is inherited but which GPUs are meant.

    Args:
        tmp: the private folder for temporary files, as seen inside.
        python_path: see :class:`Visible`.
        driver: see :func:`driver_folder`.
    """
    values = ENVIRONMENT | {"HOME": tmp, "TMPDIR": tmp, "TRITON_CACHE_DIR": f"{tmp}/triton"}
    values |= gpu_environment() | ({"LD_LIBRARY_PATH": str(driver)} if driver else {})
    path = os.pathsep.join(map(str, python_path))
    return values | ({"PYTHONPATH": path} if path else {})


def _homes(modules: Iterable[str]) -> set[Path]:
    """The folders that hold these packages, found without importing them."""
    homes = set()
    for module in modules:
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            homes.add(Path(spec.origin).parent.parent)
    return homes


def _within(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
