"""What limits a case: bytes, flops, launches; the figures are the task's own."""

import pytest

from kernelsmith import catalog
from kernelsmith.proposers.agent import limits

V4 = {"level": "x86-64-v4"}


def of(name: str, device: str = "cpu", **seed_us: float) -> dict[str, limits.CaseLimit]:
    task = catalog.load_task(name, device)
    return {one.case: one for one in limits.limits_of(task, V4, seed_us)}


def test_every_input_is_read_and_every_output_written_once() -> None:
    one = of("linear")["train.bf16.M97-N256-K1024.normal"]
    assert one.moved_bytes == 2 * (97 * 1024 + 256 * 1024 + 97 * 256)
    assert one.flops == 2 * 97 * 256 * 1024
    assert one.intensity == pytest.approx(one.flops / one.moved_bytes)


def test_a_case_is_limited_by_what_takes_longest() -> None:
    linear = of("linear")
    assert linear["infer.bf16.M1-N512-K1024.normal"].limit == "bytes"
    assert linear["train.bf16.M97-N256-K1024.normal"].limit == "flops"
    cuda = of("rms_norm", "cuda")
    assert cuda["residual_infer.bf16.M16-N4096.normal"].limit == "launch"
    assert cuda["residual_train.bf16.M8191-N4096.normal"].limit == "bytes"


def test_launches_are_counted_in_the_seeds_host_code() -> None:
    rms_norm = of("rms_norm")
    assert rms_norm["residual_train.bf16.M257-N1024.normal"].launches == 1
    assert rms_norm["residual_backward.bf16.M257-N1024.normal"].launches == 3
    source = (
        "def inner(x):\n    k[(1,)](x)\n    k[(2,)](x)\n\n\n"
        "def outer(x):\n    inner(x)\n    k[(3,)](x)\n    outer(x)\n"
    )
    assert limits._launches(source) == {"inner": 2, "outer": 3}
    assert limits._launches("def f(:\n") == {}


def test_measured_times_of_the_seed_stand_beside_the_floors() -> None:
    name = "infer.bf16.M112-N128.normal"
    task = catalog.load_task("rms_norm", "cpu")
    found = limits.limits_of(task, V4, {name: 12.5})
    text = limits.table(found, limits.peaks("cpu", V4).says)
    assert "12.5 us" in next(line for line in text.splitlines() if line.startswith(name))
    assert text.count("not yet") == len(found) - 1
    assert "190 GFLOP/s" in text
    assert "30 GB/s" in text


def test_peaks_follow_the_devices_facts_and_the_gpu() -> None:
    assert "x86-64-v3" in limits.peaks("cpu", {"level": "x86-64-v3"}).says
    assert "A100" in limits.peaks("cuda", {"arch": "sm_86"}).says
    assert "H100" in limits.peaks("cuda", {}).says
    assert limits.facts_of("cuda") == {}, "no GPU is asked for"
    assert limits.facts_of("nowhere") == {}
    assert limits.facts_of("cpu")["device"] == "cpu"
