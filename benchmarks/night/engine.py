"""The Docker engine of a night: which containers a run has, and the engine killed and started."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent import night as agent_night

import docker

START_TIMEOUT_S = 60.0


def containers(pid: int) -> list[tuple[str, int]]:
    """(name, process on the host) of every container that the run of this process started."""
    client = docker.from_env(timeout=60)
    try:
        found = []
        for each in client.containers.list(filters={"name": f"kernelsmith-{pid}-"}):
            try:
                state: dict[str, Any] = client.api.inspect_container(each.id)["State"]
            except docker.errors.NotFound:
                continue
            if state["Pid"]:
                found.append((str(each.name), int(state["Pid"])))
        return found
    finally:
        client.close()


def pidfile() -> Path:
    """Where the engine of ``DOCKER_HOST`` has its process number, if it was started for tests.

    Raises:
        SystemExit: it has no private socket with a file beside it: not an engine to be killed.
    """
    host = os.environ.get("DOCKER_HOST", "")
    found = Path(host.removeprefix("unix://")).with_name("docker.pid")
    if not host.startswith("unix:///tmp/") or not found.exists():
        raise SystemExit("no engine of one's own: run this by tests/ci/engine.sh")
    return found


def kill_and_start() -> None:
    """SIGKILL for the engine, then the same command again."""
    kept = pidfile()
    pid = int(kept.read_text())
    command = [each for each in Path(f"/proc/{pid}/cmdline").read_text().split("\0") if each]
    run_root = Path(command[command.index("--exec-root") + 1])
    below = int((run_root / "containerd" / "containerd.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    until_s = time.monotonic() + START_TIMEOUT_S
    # containerd dies with it, a moment later; an engine that starts before would wait for it.
    while _lives(pid) or _lives(below):
        time.sleep(0.05)
    started = _start(command, kept)
    while subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
        if time.monotonic() > until_s:
            raise SystemExit("the engine did not start again")
        if started.poll() is not None:
            started = _start(command, kept)
        time.sleep(0.2)


def _start(command: list[str], kept: Path) -> "subprocess.Popen[bytes]":
    kept.unlink(missing_ok=True)
    started = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    agent_night.OWN.add(started.pid)
    return started


def _lives(pid: int) -> bool:
    """Whether there is such a process; one that has ended and is ours to reap is reaped."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return Path(f"/proc/{pid}").exists()
