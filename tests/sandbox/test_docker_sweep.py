"""Which containers are swept: those of dead hosts, never those of living ones."""

import json
import os
import subprocess
import sys

import pytest

from kernelsmith import letters, processes
from kernelsmith.errors import MissingError
from kernelsmith.sandbox import docker_engine
from kernelsmith.sandbox.docker_engine import LOCK_LABEL, PROCESS_LABEL, is_orphan

ASK = """
import json
from kernelsmith import processes
print(json.dumps(processes.this_process()))
"""


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "host"
    descriptor = letters.hold(path)
    yield path, descriptor
    os.close(descriptor)


def carried(path, facts) -> dict[str, str]:
    return {PROCESS_LABEL: json.dumps(facts), LOCK_LABEL: str(path)}


def dead_process() -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    facts: dict[str, object] = json.loads(done.stdout)
    return facts


def test_a_living_hosts_container_is_left_alone(lock) -> None:
    assert not is_orphan(docker_engine.labels(lock[0]))


def test_a_dead_hosts_container_is_swept_also_when_its_number_is_anothers_now(lock) -> None:
    assert is_orphan(carried(lock[0], dead_process()))
    again = processes.this_process()
    assert is_orphan(carried(lock[0], {**again, "started_ticks": again["started_ticks"] - 1}))


def test_where_the_process_cannot_be_seen_its_lock_decides(lock, tmp_path) -> None:
    elsewhere = {**processes.this_process(), "host": "another container"}
    assert not is_orphan(carried(lock[0], elsewhere))
    free = tmp_path / "free"
    free.touch()
    assert is_orphan(carried(free, elsewhere))
    assert not is_orphan(carried(tmp_path / "not here", elsewhere))


@pytest.mark.parametrize(
    "labels", [{}, {PROCESS_LABEL: "{", LOCK_LABEL: "/x"}, {PROCESS_LABEL: "[]", LOCK_LABEL: "/x"}]
)
def test_labels_that_say_nothing_leave_a_container_alone(labels) -> None:
    assert not is_orphan(labels)


def test_a_machine_without_an_engine_says_so(tmp_path) -> None:
    with pytest.raises(MissingError, match=r"docker\.sock: No such file") as caught:
        docker_engine.connect({}, tmp_path / "docker.sock")
    assert caught.value.exit_code == 3
    assert "systemctl start docker" in (caught.value.hint or "")
    with pytest.raises(MissingError, match="does not answer"):
        docker_engine.connect({"DOCKER_HOST": "tcp://127.0.0.1:9"})
