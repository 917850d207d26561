"""What a worker's container is made of: pure functions from facts to the engine's arguments."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsmith.sandbox import paths

INSIDE_SPOOL, INSIDE_TMP = Path("/spool"), Path("/tmp")
CONTROL = Path("/control")
ORDERS, ANSWERS = CONTROL / "orders", CONTROL / "answers"
NOBODY = 65534
TMP_BYTES = 256 << 20
SHM_BYTES = 16 << 20
# Beside what a job may take: the template's own pages, which jobs share, and the spool.
MEMORY_BESIDE_BYTES = 2 << 30
PROCESSES_MAX = 256
FILES_MAX = 1024
FRONTEND_CORES = 2
SUPERVISOR = "kernelsmith.worker.supervisor"
LOG_BYTES = "64k"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """Where Python and the package lie in the container: in the image, or mounted from here.
    ``mounts`` are read-only and have the same path on both sides."""

    python: str
    python_path: tuple[Path, ...] = ()
    mounts: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Folders of the host that the container sees: jobs and their files; orders, which it cannot
    write; answers, which its jobs cannot reach."""

    spool: Path
    orders: Path
    answers: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A container to be made. ``nodes``: device files of GPUs; none, no GPU."""

    role: str
    image: str
    name: str
    inside: Inside
    shared: Shared
    limits: Mapping[str, int]
    cores: int
    nodes: tuple[Path, ...] = ()
    labels: Mapping[str, str]


def mounted() -> Inside:
    """This machine's Python with its packages, as bubblewrap shows it."""
    seen = paths.visible()
    return Inside(
        python=paths.python(),
        python_path=seen.python_path,
        mounts=(*seen.python, seen.package),
    )


def user() -> tuple[int, int]:
    """User and group inside: those of the host, who must share the spool with it, and nobody's
    where the host is root."""
    return (os.geteuid(), os.getegid()) if os.geteuid() else (NOBODY, NOBODY)


def arguments(wanted: Wanted) -> dict[str, Any]:
    """The keywords of ``docker.containers.create``."""
    from docker.types import LogConfig, Ulimit

    limits = wanted.limits
    memory_bytes = min(limits["memory_bytes"] + MEMORY_BESIDE_BYTES, _physical_bytes())
    uid, gid = user()
    found: dict[str, Any] = {
        "image": wanted.image,
        "name": wanted.name,
        "entrypoint": _command(wanted),
        "command": [],
        "labels": dict(wanted.labels),
        "environment": _environment(wanted),
        "use_config_proxy": False,
        "user": f"{uid}:{gid}",
        "working_dir": str(INSIDE_TMP),
        "hostname": "kernelsmith",
        "healthcheck": {"test": ["NONE"]},
        "network_mode": "none",
        "ipc_mode": "private",
        "read_only": True,
        "tmpfs": {str(INSIDE_TMP): f"rw,nosuid,nodev,noexec,mode=1777,size={TMP_BYTES}"},
        "mounts": _mounts(wanted),
        "shm_size": SHM_BYTES,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "privileged": False,
        "init": False,
        "mem_limit": memory_bytes,
        "memswap_limit": memory_bytes,
        "oom_score_adj": 500,
        "pids_limit": PROCESSES_MAX,
        "ulimits": [
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="nofile", soft=FILES_MAX, hard=FILES_MAX),
            Ulimit(name="fsize", soft=limits["file_bytes"], hard=limits["file_bytes"]),
        ],
        "log_config": LogConfig(type="none"),
        "auto_remove": True,
    }
    # A quota would throttle a timing session; what a launcher runs is one thread of our own making,
    # bounded by its job's processor time. A front end may start as many threads as it likes.
    if wanted.role == "frontend":
        found["nano_cpus"] = min(FRONTEND_CORES, wanted.cores) * 10**9
    if wanted.nodes:
        found["device_requests"] = [_all_gpus()]
    return found


def for_trial(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same container, kept until its few lines have been read."""
    from docker.types import LogConfig

    kept = LogConfig(type="json-file", config={"max-size": LOG_BYTES, "max-file": "1"})
    return {**found, "auto_remove": False, "log_config": kept}


def _command(wanted: Wanted) -> list[str]:
    readable = (*wanted.inside.mounts, *wanted.inside.python_path)
    settings = {
        "environment": _environment(wanted),
        "template": {
            "landlock": True,
            # Neither the spool nor /tmp: a job has its own folder, and leaves nothing for the
            # next. What is mounted may lie below a folder that is closed to it.
            "read": [*map(str, readable), *paths.OWN_FACTS, *paths.gpu_facts(wanted.nodes, None)],
            "write": ["/dev/null", *map(str, wanted.nodes)],
            "limits": dict(wanted.limits),
            "python_flags": list(paths.PYTHON_FLAGS),
        },
    }
    places = [str(INSIDE_SPOOL), str(ORDERS), str(ANSWERS)]
    module = [*paths.PYTHON_FLAGS, "-m", SUPERVISOR, wanted.role]
    return [wanted.inside.python, *module, *places, json.dumps(settings)]


def _environment(wanted: Wanted) -> dict[str, str]:
    """A container gets its image's variables too; the template gets only these."""
    return paths.environment(str(INSIDE_TMP), wanted.inside.python_path)


def _mounts(wanted: Wanted) -> list[Any]:
    from docker.types import Mount

    shared = wanted.shared
    places = [(path, path, True) for path in wanted.inside.mounts]
    places += [(shared.spool, INSIDE_SPOOL, False), (shared.orders, ORDERS, True)]
    places += [(shared.answers, ANSWERS, False)]
    return [
        Mount(
            type="bind",
            source=str(source),
            target=str(target),
            read_only=read_only,
            propagation="rprivate",
        )
        for source, target, read_only in places
    ]


def _all_gpus() -> Any:
    """``CUDA_VISIBLE_DEVICES``, which workers are told, counts among all of them."""
    from docker.types import DeviceRequest

    return DeviceRequest(count=-1, capabilities=[["gpu", "compute", "utility"]])


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
