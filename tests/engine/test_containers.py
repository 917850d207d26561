"""Workers in containers: how they are made, how they end, frozen and thawed, left by dead hosts."""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from kernelsmith.model import CompileJob, CompileResult
from kernelsmith.sandbox import docker_engine
from kernelsmith.sandbox.docker import Docker
from kernelsmith.sandbox.docker_line import Letters
from kernelsmith.sandbox.pool import Leased
from tests.engine.conftest import opened
from tests.sandbox.conftest import job_of, submit

NOTHING = CompileJob(ttirs={}, device="cpu")
WAIT_S = 60.0
HOST = """
import sys, time
from kernelsmith.model import CompileJob
from kernelsmith.sandbox.docker import open_docker
sandbox = open_docker()
worker = sandbox.start("launcher")
worker.submit(CompileJob(ttirs={}, device="cpu")).close()
if sys.argv[1] == "frozen":
    sandbox.pause()
print(worker.worker.line.begun.result(), flush=True)
time.sleep(600)
"""


def container_of(worker: Leased) -> str:
    line = worker.worker.line
    assert isinstance(line, Letters)
    return line.begun.result()


def containers(docker: Docker) -> set[str]:
    found = docker.engine.client.api.containers(
        all=True, filters={"label": docker_engine.PROCESS_LABEL}
    )
    return {each["Id"] for each in found}


def test_each_role_has_a_container_of_its_own_with_all_its_limits(docker: Docker) -> None:
    roles = ("frontend", "launcher", "seed")
    workers = [docker.start(role) for role in roles]
    ids = [container_of(worker) for worker in workers]
    assert len(set(ids)) == 3
    for container in ids:
        found = docker.engine.client.api.inspect_container(container)
        host: dict[str, Any] = found["HostConfig"]
        assert (host["NetworkMode"], host["IpcMode"]) == ("none", "private")
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert host["Memory"] == host["MemorySwap"] > 0
        assert host["PidsLimit"] > 0
        assert found["Image"] == docker.image.digest
        assert found["Config"]["User"].split(":")[0] != "0"


def test_the_record_names_the_image_by_its_digest(docker: Docker) -> None:
    told = docker.describe()
    assert told["name"] == "docker"
    assert told["image_digest"].startswith("sha256:")
    assert told["engine"]["version"]
    assert told["uid_inside"] != 0


def test_what_a_candidate_finds_inside_is_nobodys_user_no_network_and_no_engine(
    docker: Docker,
) -> None:
    source = """
import os
def forward(x):
    links = [line.split(":")[0].strip() for line in open("/proc/self/net/dev") if ":" in line]
    raise ValueError(repr((os.getuid(), links, os.path.exists("/var/run/docker.sock"))))
"""
    failure = submit(docker.start("frontend"), source).failure
    assert failure is not None
    uid = os.getuid() or 65534
    assert f"({uid}, ['lo'], False)" in failure.message


def test_a_container_that_is_killed_between_jobs_is_started_anew(docker: Docker) -> None:
    worker = docker.start("launcher")
    worker.submit(NOTHING).close()
    killed = container_of(worker)
    docker.engine.client.api.kill(killed)
    reply = worker.submit(NOTHING)
    assert reply.result == CompileResult(objects={})
    assert container_of(worker) != killed
    reply.close()


def test_time_in_which_a_job_was_frozen_is_not_the_jobs(docker: Docker) -> None:
    worker = docker.start("frontend")
    submit(worker, "def forward(x):\n    return x.new_empty((2, 2))\n")
    source = "import time\ntime.sleep(1.0)\ndef forward(x):\n    return x.new_empty((2, 2))\n"
    found: list[object] = []
    asking = threading.Thread(
        target=lambda: found.append(worker.submit(job_of(source, timeout_s=2.5)).result)
    )
    asking.start()
    time.sleep(0.3)
    docker.pause()
    docker.pause()
    time.sleep(3.0)
    assert not found
    docker.resume()
    docker.resume()
    asking.join(WAIT_S)
    assert getattr(found[0], "failure", "none") is None


@pytest.mark.parametrize("how", ["running", "frozen"])
def test_nothing_of_a_host_that_was_killed_stays(docker: Docker, how: str) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, how], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    container = host.stdout.readline().strip()
    assert container in containers(docker)
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    host.stdout.close()
    if how == "frozen":  # it cannot notice; the next start of a sandbox does
        assert container in containers(docker)
        opened().close()
    until_s = time.monotonic() + WAIT_S
    while container in containers(docker) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert container not in containers(docker)


def test_a_living_hosts_containers_survive_anothers_start(docker: Docker) -> None:
    worker = docker.start("seed")
    worker.submit(NOTHING).close()
    opened().close()
    assert container_of(worker) in containers(docker)
    worker.submit(NOTHING).close()


def test_a_frozen_sandbox_can_be_closed_and_leaves_nothing() -> None:
    docker = opened()
    worker = docker.start("launcher")
    worker.submit(NOTHING).close()
    container = container_of(worker)
    docker.pause()
    path = docker.pool.spool.path
    docker.close()
    assert not path.exists()
    again = opened()
    assert container not in containers(again)
    again.close()
