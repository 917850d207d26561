"""A timing session on the stand-in: the same answers as on the CPU, timed by graphs."""

import dataclasses
import gc
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelsmith.errors import GpuError, InfrastructureError
from kernelsmith.model import TimedCase, TimeJob, TimeResult
from kernelsmith.worker import session, session_pool_gpu
from tests.cuda.native import compile_kind, plan_of
from tests.cuda.stand_in import Fake, StandInDevice
from tests.native_ir import draw, inputs_of

ELEMENTS = 4096


def a_case(**changes: Any) -> TimedCase:
    case = TimedCase(
        key="case",
        a=plan_of(ELEMENTS),
        b=plan_of(ELEMENTS),
        inputs=inputs_of(ELEMENTS),
        floor_us=0.0,
        cold=True,
        octets=3,
        window_ms=0.2,
    )
    return dataclasses.replace(case, **changes)


def timed(fake: Fake, folder: Path, a: str, b: str, *cases: TimedCase) -> TimeResult:
    device = StandInDevice(library=fake.path, compiles=compile_kind)
    objects, object_of = {}, {}
    for side, kind in (("a", a), ("b", b)):
        made = device.compile_ttir(kind)
        (folder / f"{made.info.id}.obj").write_bytes(made.code)
        objects[made.info.id] = made.info
        object_of |= {f"{side}:k": made.info.id, f"{side}:k-unaligned": made.info.id}
    job = TimeJob(
        cases=cases,
        objects=objects,
        object_of=object_of,
        device="cuda:90",
        placement=3,
        verify=4,
    )
    return session.run(job, folder, device=device, draw=draw)


def test_a_session_answers_as_the_cpus_does(fake: Fake, tmp_path: Path) -> None:
    result = timed(fake, tmp_path, "slow", "double", a_case(), a_case(key="warm", cold=False))
    assert result.failure is None
    cold, warm = result.cases
    assert (len(cold.warm), len(cold.cold)) == (3, 3)
    assert (len(warm.warm), len(warm.cold)) == (3, 0)
    assert {len(octet) for octet in cold.windows_ns} == {8}
    assert len(cold.windows_ns) == 6
    # The slow side does eight times the stores.
    assert min(cold.warm) > math.log(1.5)
    assert {replay.side for replay in cold.replays} == {"a", "b"}
    data = (tmp_path / "out.bin").read_bytes()
    wanted = (draw(inputs_of(ELEMENTS))["x"] * np.float32(2)).tobytes()
    for replay in (*cold.replays, *warm.replays):
        for place in replay.outputs:
            assert data[place.offset_bytes :][: place.nbytes] == wanted
    assert result.facts["timed_by"] == ["graph"]
    assert result.facts["pools"]["case"]["cold_slots"] >= 2
    left = fake.leaks()
    left.pop("modules", None)  # code goes with the context
    assert left == {}
    gc.collect()
    assert fake.calls()[-1] == "cuDevicePrimaryCtxRelease_v2"


def test_every_renewal_resets_the_cache_and_a_cold_one_writes_through_it(
    fake: Fake, tmp_path: Path
) -> None:
    timed(fake, tmp_path, "double", "double", a_case())
    calls = fake.calls()
    assert calls.count("cuCtxResetPersistingL2Cache") == calls.count("cuMemcpyDtoDAsync_v2")
    assert 0 < calls.count("cuMemsetD8Async") < calls.count("cuMemcpyDtoDAsync_v2")
    assert "cuCtxSetLimit" in calls
    # What persisted would outlive what is written through the cache after it.
    steps = ("cuCtxResetPersistingL2Cache", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async")
    told = [steps.index(call) for call in calls if call in steps]
    assert re.fullmatch(r"(?:01|012)+", "".join(map(str, told)))


def test_a_gpu_without_lines_that_persist_is_timed_all_the_same(fake: Fake, tmp_path: Path) -> None:
    fake.fail("cuCtxResetPersistingL2Cache", 801)
    assert timed(fake, tmp_path, "double", "double", a_case(cold=False)).failure is None


def test_a_replay_finds_the_poison_of_a_checked_run(fake: Fake, tmp_path: Path) -> None:
    # It returns what scratch holds: another replay's, or none of a checked run's, would differ.
    result = timed(fake, tmp_path, "reads_scratch", "reads_scratch", a_case(cold=False))
    data = (tmp_path / "out.bin").read_bytes()
    firsts = {
        data[place.offset_bytes :][:4]
        for replay in result.cases[0].replays
        for place in replay.outputs
    }
    assert len(firsts) == 1


def test_inputs_are_changed_in_place_between_calibration_and_measuring() -> None:
    image = np.arange(ELEMENTS, dtype=np.float32).view(np.uint8)
    turned = session_pool_gpu.turned(a_case(), {"x": image})["x"]
    assert list(turned.view(np.float32)[:2]) == [ELEMENTS - 1, ELEMENTS - 2]
    padded = np.zeros(image.size + 64, np.uint8)
    assert session_pool_gpu.turned(a_case(), {"x": padded})["x"] is padded


def test_a_kernel_that_faults_while_timed_names_side_and_case(fake: Fake, tmp_path: Path) -> None:
    result = timed(fake, tmp_path, "double", "traps", a_case())
    assert result.cases == ()
    assert result.failure is not None
    assert (result.failure.status, result.failure.where) == ("CRASH", "b:case")
    assert "ILLEGAL_ADDRESS" in result.failure.message


def test_a_kernel_that_writes_its_inputs_ends_the_session(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="wrote its inputs"):
        timed(fake, tmp_path, "double", "spoils_input", a_case())


def test_without_graphs_events_time_and_the_record_says_so(fake: Fake, tmp_path: Path) -> None:
    fake.fail("cuGraphInstantiateWithFlags", 801)
    result = timed(fake, tmp_path, "double", "double", a_case(cold=False))
    assert result.failure is None
    assert result.facts["timed_by"] == ["events"]
    fake.fail("cuEventElapsedTime", 999)
    with pytest.raises(GpuError, match="999"):
        timed(fake, tmp_path, "double", "double", a_case(cold=False))
