"""What goes into an image, and which image is refused; no engine is asked."""

import io
import tarfile

import pytest

from kernelsmith.errors import MissingError
from kernelsmith.sandbox import docker_build, docker_contents, docker_image
from kernelsmith.sandbox.docker_image import BASE_LABEL, CONTENTS_LABEL, KIND_LABEL


def test_an_image_with_packages_has_what_they_need_and_the_versions_of_here() -> None:
    found = docker_contents.versions()
    assert {"torch", "triton", "numpy", "llvmlite", "pydantic", "pydantic-core"} <= found.keys()
    assert "typing-extensions" in found  # needed by what is needed
    assert not {"anthropic", "sqlalchemy", "pytest", "docker"} & found.keys()


def test_of_the_project_an_image_has_the_package_and_how_triton_finds_it() -> None:
    names = {name for _, name in docker_contents._own()}
    assert "own/kernelsmith/worker/supervisor.py" in names
    assert any(name.endswith(".dist-info/entry_points.txt") for name in names)
    assert not [name for name in names if "__pycache__" in name or "_builtin" in name]


def test_a_bare_image_is_built_from_the_dockerfile_alone() -> None:
    out = io.BytesIO()
    docker_contents.write_context(out, "mounted")
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        assert tar.getnames() == ["Dockerfile"]
    text = docker_contents.dockerfile().decode()
    assert "ARG BASE=" in text
    stages = [line.split(" AS ")[1] for line in text.splitlines() if line.startswith("FROM")]
    assert stages == ["mounted", "installed"]


def test_files_in_an_image_belong_to_root_and_can_be_read_by_all() -> None:
    entry = tarfile.TarInfo("x")
    entry.uid, entry.mode = 1000, 0o600
    found = docker_contents._anybodys(entry)
    assert (found.uid, found.uname, found.mode) == (0, "root", 0o644)
    entry.mode = 0o700
    assert docker_contents._anybodys(entry).mode == 0o755


def test_an_image_that_holds_another_kernelsmith_is_refused() -> None:
    labels = {KIND_LABEL: "installed", BASE_LABEL: "python:3.11-slim"}
    with pytest.raises(MissingError, match="holds another kernelsmith") as caught:
        docker_image.of_labels("mine", "sha256:abc", {**labels, CONTENTS_LABEL: "older"})
    assert "doctor --build-image" in (caught.value.hint or "")
    fits = {**labels, CONTENTS_LABEL: docker_contents.contents()}
    image = docker_image.of_labels("mine", "sha256:abc", fits)
    assert image.inside == docker_image.INSTALLED
    assert image.inside.mounts == ()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        # Docker 20.10, captured.
        ([{"error": "pull access denied for nosuch, repository does not exist"}], "pull access"),
        (
            [
                {"stream": "the base has Python 3.9, not 3.11\n"},
                {"error": "The command '/bin/sh -c python3' returned a non-zero code: 1"},
            ],
            "the base has Python 3.9, not 3.11",
        ),
    ],
)
def test_a_base_that_does_not_do_is_said_in_the_engines_words(said, told) -> None:
    with pytest.raises(MissingError, match=told) as caught:
        docker_build._follow(said, "mine", "nosuch", lambda line: None)
    assert caught.value.exit_code == 3
    assert "--base IMAGE" in (caught.value.hint or "")


def test_steps_are_told_as_they_come() -> None:
    told: list[str] = []
    said = [{"stream": "Step 1/3 : ARG BASE\n"}, {"stream": " ---> abc\n"}, {"status": "Pulling"}]
    docker_build._follow(said, "mine", "base", told.append)
    assert told == ["Step 1/3 : ARG BASE"]
