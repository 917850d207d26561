"""The Docker engine of a night: which containers a run has, and the engine killed and started."""

import os
import signal
import subprocess
import time
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
    os.kill(pid, signal.SIGKILL)
    until_s = time.monotonic() + START_TIMEOUT_S
    while _lives(pid):
        time.sleep(0.05)
    kept.unlink(missing_ok=True)
    started = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    agent_night.OWN.add(started.pid)
    while subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
        if time.monotonic() > until_s:
            raise SystemExit("the engine did not start again")
        time.sleep(0.2)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
