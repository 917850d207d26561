"""What is computed in a container is what is computed behind bubblewrap, bit for bit."""

import pytest

from kernelsmith import devices
from kernelsmith.catalog import load_task
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.subject import Outcome, Subject, limits_on
from kernelsmith.library import digests
from kernelsmith.model import Verdict, seed_candidate
from kernelsmith.ports import Sandbox
from kernelsmith.sandbox.choose import choose
from kernelsmith.sandbox.docker import Docker

SECRET = 7
pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def bubblewrap():
    found = choose("bubblewrap", trusted_origin=True)
    yield found
    found.close()


def digests_in(sandbox: Sandbox, name: str) -> dict[str, dict[str, str]]:
    device = devices.get("cpu")
    task = load_task(name, "cpu", ())
    with Bench(task, device, sandbox, limits_on(device.name)) as bench:
        seed = Subject(candidate=seed_candidate(task), role="seed")
        found = digests.outputs(bench, seed, task.cases, SECRET)
    assert not isinstance(found, Outcome)
    return digests.digests(task, found)


@pytest.mark.parametrize("name", ["rms_norm", "linear", "swiglu", "logprob"])
def test_every_case_of_a_seed_has_the_same_digests(
    docker: Docker, bubblewrap: Sandbox, name: str
) -> None:
    found = digests_in(docker, name)
    assert found == digests_in(bubblewrap, name)
    assert len(found) > 1


def verdict_in(sandbox: Sandbox) -> Verdict:
    task = load_task("rms_norm", "cpu", ())
    gate = Gate(task, devices.get("cpu"), sandbox, SECRET)
    try:
        return gate.judge(seed_candidate(task), seed_candidate(task), 0)
    finally:
        gate.close()


def test_a_whole_verdict_is_the_same(docker: Docker, bubblewrap: Sandbox) -> None:
    inside, outside = verdict_in(docker), verdict_in(bubblewrap)
    assert (inside.status, inside.epoch) == (outside.status, outside.epoch)
    bits = [(check.name, check.status, check.evidence) for check in inside.checks]
    assert bits == [(check.name, check.status, check.evidence) for check in outside.checks]
