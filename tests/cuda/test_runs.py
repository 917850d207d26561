"""A RunJob on the stand-in: the launcher's whole way, with native kernels behind the driver."""

import dataclasses
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelsmith.errors import GpuError, InputError
from kernelsmith.model import Run, RunJob, RunsResult
from kernelsmith.worker import launcher
from tests.cuda.native import compile_kind, plan_of
from tests.cuda.stand_in import Fake, StandInDevice
from tests.native_ir import draw, inputs_of

ELEMENTS = 1000


def a_run(key: str = "r", **changes: Any) -> Run:
    run = Run(key=key, plan=plan_of(ELEMENTS), inputs=inputs_of(ELEMENTS))
    return dataclasses.replace(run, **changes)


def execute(fake: Fake, folder: Path, kind: str, *runs: Run) -> RunsResult:
    device = StandInDevice(library=fake.path, compiles=compile_kind)
    made = device.compile_ttir(kind)
    (folder / f"{made.info.id}.obj").write_bytes(made.code)
    job = RunJob(
        runs=runs,
        objects={made.info.id: made.info},
        object_of={"k": made.info.id, "k-unaligned": made.info.id},
        device="cuda:90",
    )
    result = launcher.run(job, folder, device=device, draw=draw)
    assert isinstance(result, RunsResult)
    return result


def output(folder: Path, result: RunsResult, number: int = 0) -> bytes:
    place = result.runs[number].outputs[0]
    data = (folder / "out.bin").read_bytes()
    return data[place.offset_bytes : place.offset_bytes + place.nbytes]


def doubled(seed: int = 7) -> bytes:
    found: bytes = (draw(inputs_of(ELEMENTS, seed))["x"] * np.float32(2)).tobytes()
    return found


@pytest.mark.parametrize("guards", [True, False])
def test_a_clean_kernel_gives_its_output_under_every_poison_and_alignment(
    fake: Fake, tmp_path: Path, guards: bool
) -> None:
    fake.reset(guards=guards)
    runs = [
        a_run(f"{poison} {off} {order}", poison=poison, misalign_bytes=off, order=order)
        for poison in (0, 1, 2, 255)
        for off in (0, 8)
        for order in ("ascending", "beside:3")
    ]
    result = execute(fake, tmp_path, "double", *runs, a_run("stale", stale=True, poison=3))
    assert result.failure is None
    assert [run.key for run in result.runs] == [*(run.key for run in runs), "stale"]
    for number, run in enumerate(result.runs):
        assert output(tmp_path, result, number) == doubled()
        assert run.canaries == ()
        assert run.changed_inputs == ()
    assert ("cuMemAddressReserve" in fake.calls()) is guards
    left = fake.leaks()
    left.pop("modules", None)  # code goes with the context
    assert left == {}
    gc.collect()
    # Nothing of the context is touched once it is given back: that would end the process.
    assert fake.calls()[-1] == "cuDevicePrimaryCtxRelease_v2"


def test_a_runs_memory_is_freed_only_after_the_next_has_its_own(fake: Fake, tmp_path: Path) -> None:
    execute(fake, tmp_path, "double", a_run("1"), a_run("2"))
    words = {"cuMemAlloc_v2": "take", "cuMemFree_v2": "free"}
    told = [words[call] for call in fake.calls() if call in words]
    # Buffers of the first run, its scratch; buffers of the second, its scratch; then the first's.
    assert told == ["take", "take", "free", "take", "take", "free", "free", "free"]


@pytest.mark.parametrize(
    ("kind", "canary"), [("overrun", "output 0 after"), ("underrun", "output 0 before")]
)
def test_a_store_next_to_a_buffer_is_seen(
    fake: Fake, tmp_path: Path, kind: str, canary: str
) -> None:
    result = execute(fake, tmp_path, kind, a_run(poison=1))
    assert result.runs[0].canaries == (canary,)


def test_a_changed_input_is_seen(fake: Fake, tmp_path: Path) -> None:
    result = execute(fake, tmp_path, "spoils_input", a_run())
    assert result.runs[0].changed_inputs == ("x",)


def test_a_read_beyond_a_guarded_buffer_crashes_and_names_the_run(
    fake: Fake, tmp_path: Path
) -> None:
    # A count of floats whose bytes are whole lines of 64: the buffer ends where the guard begins.
    whole = {"plan": plan_of(1024), "inputs": inputs_of(1024)}
    runs = (
        a_run("fine", poison=1, **whole),
        a_run("at the guard", poison=0, **whole),
        a_run("never", **whole),
    )
    result = execute(fake, tmp_path, "reads_past", *runs)
    assert [run.key for run in result.runs] == ["fine"]
    assert result.failure is not None
    assert result.failure.status == "CRASH"
    assert result.failure.where == "at the guard"
    assert "ILLEGAL_ADDRESS" in result.failure.message


def test_what_scratch_held_shows_between_poisons(fake: Fake, tmp_path: Path) -> None:
    result = execute(fake, tmp_path, "reads_scratch", a_run("1", poison=1), a_run("2", poison=2))
    assert output(tmp_path, result, 0) != output(tmp_path, result, 1)


def test_a_kernel_that_traps_is_a_crash_and_a_gpu_that_fails_is_not(
    fake: Fake, tmp_path: Path
) -> None:
    result = execute(fake, tmp_path, "traps", a_run("trap"))
    assert result.failure is not None
    assert (result.failure.status, result.failure.where) == ("CRASH", "trap")
    fake.reset()
    fake.fail("cuMemcpyDtoH_v2", 214)
    with pytest.raises(GpuError, match="214"):
        execute(fake, tmp_path, "double", a_run())
    fake.reset()
    fake.fail("cuMemAlloc_v2", 2)
    with pytest.raises(GpuError, match="OUT_OF_MEMORY"):
        execute(fake, tmp_path, "double", a_run())


@pytest.mark.parametrize("order", ["descending", "shuffled:3", "threads:2", "beside:0", "beside:x"])
def test_an_order_that_a_gpu_does_not_have_is_refused(
    fake: Fake, tmp_path: Path, order: str
) -> None:
    with pytest.raises(InputError, match="no program order"):
        execute(fake, tmp_path, "double", a_run(order=order))


def test_co_runners_are_launched_in_a_stream_of_their_own(fake: Fake, tmp_path: Path) -> None:
    execute(fake, tmp_path, "double", a_run(order="beside:5"))
    assert fake.count("launches") == 6
    assert fake.calls().count("cuStreamCreate") == 2
