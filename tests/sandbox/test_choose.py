"""The rule of ``--sandbox``, with walls that stand and walls that cannot."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsmith.errors import MissingError
from kernelsmith.sandbox import bubblewrap
from kernelsmith.sandbox.choose import choose, survey

# What bwrap says where user namespaces are switched off (0.11.0, captured).
NO_NAMESPACES = (
    "bwrap: Creating new namespace failed: nesting depth or "
    "/proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
)
FORBID = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
UNSHARE = ["unshare", "--user", "--map-root-user", "sh", "-c", FORBID, "sh"]
ASK = """
from kernelsmith.errors import MissingError
from kernelsmith.sandbox.choose import choose
for trusted in (True, False):
    try:
        sandbox = choose("auto", trusted_origin=trusted)
        print(sandbox.describe()["name"])
        sandbox.close()
    except MissingError as error:
        print(error.exit_code, error.hint)
"""


@pytest.fixture(autouse=True)
def no_engine(tmp_path, monkeypatch) -> None:
    """Whatever engine this machine has, here none answers."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")


@pytest.fixture
def broken(tmp_path) -> Path:
    """A bwrap that cannot start."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho '{NO_NAMESPACES}' >&2\nexit 1\n")
    program.chmod(0o700)
    return program


def test_auto_falls_to_the_process_wall_for_sources_of_our_own(broken):
    sandbox = choose("auto", trusted_origin=True, program=broken)
    assert sandbox.describe()["name"] == "process"
    sandbox.close()


def test_auto_refuses_foreign_sources_without_namespaces(broken):
    with pytest.raises(MissingError, match="needs a wall of namespaces") as caught:
        choose("auto", trusted_origin=False, program=broken)
    assert caught.value.exit_code == 3
    assert "unprivileged_userns_clone" in (caught.value.hint or "")


def test_bubblewrap_by_name_never_falls_to_less(broken):
    with pytest.raises(MissingError, match=r"max_.*namespaces exceeded"):
        choose("bubblewrap", trusted_origin=True, program=broken)


def test_the_process_wall_is_refused_for_foreign_sources():
    with pytest.raises(MissingError, match="is for shipped seeds") as caught:
        choose("process", trusted_origin=False)
    assert caught.value.exit_code == 3


def test_docker_by_name_without_an_engine_says_so_and_never_falls_to_less():
    with pytest.raises(MissingError, match="no Docker engine answers") as caught:
        choose("docker", trusted_origin=True)
    assert caught.value.exit_code == 3
    assert "set DOCKER_HOST" in (caught.value.hint or "")


def test_a_missing_program_is_named(tmp_path):
    assert "No such file" in bubblewrap.trial(tmp_path / "bwrap")


def test_survey_tells_every_wall_and_why(tmp_path):
    found = {wall["name"]: wall for wall in survey()}
    assert set(found) == {"docker", "bubblewrap", "process"}
    assert not found["docker"]["available"]
    assert "only for shipped seeds" in found["process"]["detail"]


def test_where_user_namespaces_are_denied_auto_does_what_the_rule_says():
    probe = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("unshare cannot make a namespace to forbid namespaces in")
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", ASK], capture_output=True, text=True, check=False
    )
    process, refusal = done.stdout.splitlines()
    assert process == "process"
    assert refusal.startswith("3 allow unprivileged user namespaces")


def test_an_ordinary_user_can_start_bubblewrap():
    command = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    probe = subprocess.run([*command, "true"], capture_output=True, check=False)
    if os.geteuid() != 0 or probe.returncode != 0:
        pytest.skip("this process is an ordinary user already, or cannot become one")
    ask = "from kernelsmith.sandbox.bubblewrap import *; print(repr(trial(find_program())))"
    found = subprocess.run(
        [*command, sys.executable, "-c", ask], capture_output=True, text=True, check=False
    )
    assert found.stdout.strip() == "''", found.stderr
