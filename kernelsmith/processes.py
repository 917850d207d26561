"""Who runs a run: enough to tell later, on the same machine, whether that process still lives."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """Facts that no other process on this machine shares, now or after a reboot."""
    return {
        "host": platform.node(),
        "boot": _read("/proc/sys/kernel/random/boot_id"),
        "namespace": _namespace(),
        "pid": os.getpid(),
        "started_ticks": _started_ticks(os.getpid()),
    }


def is_alive(facts: Mapping[str, Any]) -> bool | None:
    """Whether the process of :func:`this_process` still runs; None when this machine (or this
    container) cannot tell."""
    if facts.get("host") != platform.node():
        return None
    if facts.get("boot") != _read("/proc/sys/kernel/random/boot_id"):
        return False
    if facts.get("namespace") != _namespace():
        return None
    ticks = _started_ticks(int(facts.get("pid", -1)))
    return ticks is not None and ticks == facts.get("started_ticks")


def ignores(facts: Mapping[str, Any], signum: int) -> bool:
    """Whether the living process of these facts ignores a signal, as what ``nohup`` or a script
    started in the background does."""
    for line in _read(f"/proc/{facts['pid']}/status").splitlines():
        if line.startswith("SigIgn:"):
            return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started_ticks(pid: int) -> int | None:
    """Clock ticks after boot at which ``pid`` started; None when it is gone or a zombie."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])
