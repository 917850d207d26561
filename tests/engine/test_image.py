"""An image with Python and packages of its own, built by a real engine; takes minutes and 2 GB."""

import pytest

from kernelsmith import wiring
from kernelsmith.sandbox.docker import Docker, open_docker
from tests.engine.test_bits import digests_in

pytestmark = pytest.mark.slow
NAME = "kernelsmith-worker-of-a-test"


def test_an_image_with_its_own_python_makes_the_same_bits(docker: Docker, monkeypatch) -> None:
    if docker.engine.facts["storage"] == "vfs":
        pytest.skip("the engine copies every layer: no room for this image")
    monkeypatch.setenv("KERNELSMITH_IMAGE", NAME)
    told: list[str] = []
    base = docker.image.base
    try:
        built = wiring.build_image(base, mount_python=False, notice=told.append)
        assert (built.kind, built.base) == ("installed", base)
        assert wiring.build_image(None, mount_python=False, notice=told.append) == built
        assert told[-1] == f"{NAME} is what it should be"
        inside = open_docker()
        try:
            assert inside.describe()["worker"] == "installed"
            assert digests_in(inside, "rms_norm") == digests_in(docker, "rms_norm")
        finally:
            inside.close()
    finally:
        docker.engine.client.images.remove(NAME, force=True)
