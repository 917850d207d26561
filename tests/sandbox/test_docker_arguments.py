"""What a container is made of, without an engine: the limits, the mounts, what is not inherited."""

import json
from pathlib import Path

import pytest

from kernelsmith.errors import MissingError
from kernelsmith.sandbox import docker_container, docker_image, paths
from kernelsmith.sandbox.docker_container import Inside, Shared, Wanted

LIMITS = paths.limits_of({"memory_bytes": 1 << 30, "file_bytes": 1 << 20})
SHARED = Shared(spool=Path("/s/launcher"), orders=Path("/s/o"), answers=Path("/s/a"))


def wanted(role: str = "launcher", nodes: tuple[Path, ...] = ()) -> Wanted:
    return Wanted(
        role=role,
        image="sha256:abc",
        name="kernelsmith-1-launcher-ab",
        inside=Inside(python="/venv/bin/python", mounts=(Path("/venv"), Path("/code/kernelsmith"))),
        shared=SHARED,
        limits=LIMITS,
        cores=8,
        nodes=nodes,
        labels={"a": "b"},
    )


def test_a_container_has_every_limit_of_the_design() -> None:
    found = docker_container.arguments(wanted())
    assert (found["network_mode"], found["ipc_mode"]) == ("none", "private")
    assert found["read_only"] is True
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges"]
    assert (found["init"], found["privileged"]) == (False, False)
    assert found["mem_limit"] == found["memswap_limit"] == 3 << 30
    assert found["pids_limit"] == docker_container.PROCESSES_MAX
    assert {limit["Name"]: limit["Hard"] for limit in found["ulimits"]} == {
        "core": 0,
        "nofile": docker_container.FILES_MAX,
        "fsize": 1 << 20,
    }
    assert found["log_config"]["Type"] == "none"
    assert found["auto_remove"] is True
    uid, gid = found["user"].split(":")
    assert "0" not in (uid, gid)


def test_only_spool_answers_and_tmp_can_be_written() -> None:
    found = docker_container.arguments(wanted())
    writable = {mount["Target"] for mount in found["mounts"] if not mount["ReadOnly"]}
    assert writable == {"/spool", "/control/answers"}
    assert all(mount["Type"] == "bind" for mount in found["mounts"])
    assert list(found["tmpfs"]) == ["/tmp"]
    assert "noexec" in found["tmpfs"]["/tmp"]
    assert f"size={docker_container.TMP_BYTES}" in found["tmpfs"]["/tmp"]
    read_only = {mount["Target"] for mount in found["mounts"] if mount["ReadOnly"]}
    assert read_only == {"/venv", "/code/kernelsmith", "/control/orders"}


def test_a_job_may_write_nothing_but_its_own_folder_which_it_adds_itself() -> None:
    settings = json.loads(docker_container.arguments(wanted())["entrypoint"][-1])
    assert settings["template"]["write"] == ["/dev/null"]
    readable = settings["template"]["read"]
    assert readable[:2] == ["/venv", "/code/kernelsmith"]
    assert not {"/", "/spool", "/tmp", "/control", "/proc"} & set(readable)
    assert settings["template"]["landlock"] is True


def test_nothing_is_inherited_but_which_gpus_are_meant(monkeypatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@proxy")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = docker_container.arguments(wanted())
    settings = json.loads(found["entrypoint"][-1])
    assert found["environment"] == settings["environment"]
    assert found["environment"]["CUDA_VISIBLE_DEVICES"] == "1"
    assert found["use_config_proxy"] is False
    assert "a secret" not in str(found)
    assert "password" not in str(found)


def test_a_gpu_is_asked_for_only_where_machine_code_runs() -> None:
    found = docker_container.arguments(wanted(nodes=(Path("/dev/nvidia0"), Path("/dev/nvidiactl"))))
    (request,) = found["device_requests"]
    assert (request["Count"], request["Capabilities"]) == (-1, [["gpu", "compute", "utility"]])
    settings = json.loads(found["entrypoint"][-1])
    assert settings["template"]["write"][-2:] == ["/dev/nvidia0", "/dev/nvidiactl"]
    assert "device_requests" not in docker_container.arguments(wanted())
    assert paths.gpu_nodes("frontend") == []


def test_a_front_end_has_a_quota_of_processor_time_and_a_timing_session_none() -> None:
    assert docker_container.arguments(wanted("frontend"))["nano_cpus"] == 2 * 10**9
    assert "nano_cpus" not in docker_container.arguments(wanted("launcher"))


def test_a_trial_is_kept_until_its_few_lines_are_read() -> None:
    found = docker_container.for_trial(docker_container.arguments(wanted()))
    assert found["auto_remove"] is False
    assert found["log_config"]["Type"] == "json-file"
    assert found["log_config"]["Config"] == {"max-size": "64k", "max-file": "1"}


def test_an_image_that_shows_this_machines_python_is_known_by_its_label() -> None:
    image = docker_image.of_labels("mine", "sha256:abc", {docker_image.KIND_LABEL: "mounted"})
    assert image.inside.python == paths.python()
    assert paths.visible().package in image.inside.mounts


def test_an_image_of_somebody_elses_is_refused_with_what_mends_it() -> None:
    with pytest.raises(MissingError, match="not an image for workers") as caught:
        docker_image.of_labels("python:3.11", "sha256:abc", {"maintainer": "x"})
    assert "doctor --build-image" in (caught.value.hint or "")
