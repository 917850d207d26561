"""A timing session: what it measures, what it brings back, what it refuses."""

import gc
import itertools
import json
import math
import os
import pickle
import random
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from kernelsmith.errors import InputError
from kernelsmith.model import TimedCase, TimeJob
from kernelsmith.worker import (
    buffers,
    buffers_guard,
    clock,
    session,
    session_octets,
    session_pool,
    session_slots,
)

ELEMENTS = 20_000
PAGE_BYTES = buffers_guard.PAGE_BYTES


@pytest.fixture(autouse=True)
def same_cores_afterwards():
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cores)


def a_case(bench, elements=ELEMENTS, **changes):
    case = TimedCase(
        key="case",
        a=bench.plan(elements),
        b=bench.plan(elements),
        inputs=bench.inputs(elements),
        floor_us=0.0,
        cold=False,
        octets=3,
        window_ms=0.3,
    )
    return replace(case, **changes)


def a_job(bench, a, b, *cases, **changes):
    kinds = {"a:k": a, "a:k-unaligned": a, "b:k": b, "b:k-unaligned": b}
    objects, object_of = bench.lay(kinds)
    job = TimeJob(
        cases=cases, objects=objects, object_of=object_of, device="cpu", placement=3, verify=4
    )
    return replace(job, **changes)


def timed(bench, a, b, *cases, **changes):
    job = a_job(bench, a, b, *cases, **changes)
    return session.run(job, bench.folder, device=bench.device, draw=bench.draw)


def outputs(bench, times):
    data = (bench.folder / "out.bin").read_bytes()
    return {
        (replay.side, index): data[place.offset_bytes : place.offset_bytes + place.nbytes]
        for index, replay in enumerate(times.replays)
        for place in replay.outputs
    }


def test_a_slower_side_shows_in_warm_and_cold_octets(bench):
    result = timed(bench, "slow", "double", a_case(bench, cold=True))
    (times,) = result.cases
    assert result.failure is None
    assert len(times.warm) == len(times.cold) == 3
    assert min(times.warm + times.cold) > math.log(1.5)
    assert len(times.windows_ns) == len(times.warm) + len(times.cold)
    assert {len(octet) for octet in times.windows_ns} == {8}
    assert times.replays_per_window[1] > times.replays_per_window[0] >= 1


def octet(a, b):
    sides = [side for quad in session_octets.QUADS for side in quad]
    return [(side, a if side == "a" else b) for side in sides]


def test_a_drift_cancels_in_an_octets_score():
    drifting = [(side, ns * 1.01**place) for place, (side, ns) in enumerate(octet(2.0, 1.0))]
    assert session_octets.log_ratio(drifting) == pytest.approx(math.log(2.0))


def test_exchanging_the_sides_turns_the_sign_of_a_score():
    times = list(zip("abbabaab", (3.0, 2.5, 2.0, 2.9, 2.6, 3.3, 3.1, 2.2), strict=True))
    exchanged = [("b" if side == "a" else "a", ns) for side, ns in times]
    assert session_octets.log_ratio(exchanged) == pytest.approx(-session_octets.log_ratio(times))


def test_many_cases_shorten_the_cold_windows():
    assert session_octets.cold_share(1, 3, 5.0) == 1.0
    assert session_octets.cold_share(12, 3, 5.0) == session_octets.COLD_SHARE_MIN


def test_outputs_of_timed_replays_of_both_sides_come_back(bench):
    result = timed(bench, "double", "slow", a_case(bench, cold=True))
    expected = (bench.draw(bench.inputs(ELEMENTS))["x"] * np.float32(2)).tobytes()
    found = outputs(bench, result.cases[0])
    assert {side for side, _ in found} == {"a", "b"}
    assert len(found) == 6
    assert set(found.values()) == {expected}


def test_a_kernel_that_skips_on_its_own_mark_gains_nothing_and_is_right_in_timed_replays(bench):
    """Its mark is gone before each replay, so it works each time; were it to find one, the
    output of that replay would be poison."""
    result = timed(bench, "double", "marks_scratch", a_case(bench))
    assert max(result.cases[0].warm) < math.log(1.5)
    expected = (bench.draw(bench.inputs(ELEMENTS))["x"] * np.float32(2)).tobytes()
    assert set(outputs(bench, result.cases[0]).values()) == {expected}


def test_a_replay_that_finds_its_mark_brings_poison_back(bench):
    pool, _ = a_pool(bench, "marks_scratch", slots=1)
    _, (first,) = session_octets.replay(pool, "a", 1, 0)
    # Not renewed: what a session without the rule would do.
    pool._place.region.bytes[pool.slots[0].private[0].start :][: 4 * ELEMENTS] = 0xEE
    pool.cursor = 0
    _, (second,) = session_octets.replay(pool, "a", 1, 0)
    pool.renew()
    _, (third,) = session_octets.replay(pool, "a", 1, 0)
    assert second == b"\xee" * (4 * ELEMENTS)
    assert first == third != second


def a_pool(bench, kind, slots, own_inputs=False):
    case = a_case(bench)
    job = a_job(bench, kind, kind, case)
    shape = session_slots.shape_of(case)
    entries = session._load(job, bench.folder, bench.device, random.Random(0))
    arena, address = session.launcher_bind.arena(4096)
    values = bench.draw(case.inputs)["x"].view(np.uint8)
    pool = session_pool.build(
        case,
        shape,
        address,
        random.Random(1),
        {"x": values},
        entries,
        job.object_of,
        slots=slots,
        own_inputs=own_inputs,
        poison=3,
    )
    return pool, (arena, values)


def test_both_sides_use_the_same_addresses_and_slots_do_not_overlap(bench):
    pool, _ = a_pool(bench, "double", slots=5, own_inputs=True)
    pages = [one for slot in pool.slots for one in (*slot.inputs.values(), *slot.private)]
    spans = sorted((one.begin, one.end) for one in pages)
    assert len(spans) == 15
    assert all(end + PAGE_BYTES <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    a, b = (
        [bytes(call.args[0])[:24] for calls in pool._calls[side] for call in calls]
        for side in ("a", "b")
    )
    assert a == b
    assert len(set(a)) == 5


def test_every_replay_has_a_slot_that_was_poisoned_since_its_last(bench):
    pool, _ = a_pool(bench, "double", slots=3)
    out = [slot.private[0].start for slot in pool.slots]
    session_octets.replay(pool, "a", 3)
    pool.renew()
    values = {pool._place.region.bytes[start : start + 4].tobytes() for start in out}
    assert len(values) == 1
    session_octets.replay(pool, "b", 4)
    written = [pool._place.region.bytes[start : start + 4].tobytes() for start in out]
    assert len(set(written)) == 2  # the first slot's output, and poison


def test_a_cold_pool_has_slots_for_two_windows_within_twice_the_cache(bench):
    shape = session_slots.shape_of(a_case(bench, elements=1 << 20))
    cache = 32 * 2**20
    slots = session_slots.cold_slots(shape, cache, 1000)
    assert slots * (shape.private_bytes + shape.input_bytes) >= 2 * cache
    assert session_slots.cold_slots(shape, cache, 2) == 4
    small = session_slots.shape_of(a_case(bench, elements=64))
    assert session_slots.cold_slots(small, cache, 1000) == session_slots.COLD_SLOTS_MAX


def test_memory_of_a_session_is_bounded_for_large_cases(bench):
    shape = session_slots.shape_of(a_case(bench, elements=1 << 25))
    assert session_slots.cold_slots(shape, 64 * 2**20, 1000) == 1
    assert session_slots.warm_slots(shape) == 1


def test_a_time_below_the_floor_flags_the_measurement(bench):
    assert timed(bench, "double", "double", a_case(bench, floor_us=1e6)).cases[0].below_floor
    assert not timed(bench, "double", "double", a_case(bench)).cases[0].below_floor


@pytest.mark.parametrize("kind", ["spoils_input", "reads_far", "traps"])
@pytest.mark.parametrize("bad", ["a", "b"])
def test_a_timed_replay_that_leaves_its_buffers_is_its_sides_crash(bench, kind, bad):
    """What stays within the open gaps of a timing pool is met by the checked runs, which have
    guards there."""
    sides = ("double", kind) if bad == "b" else (kind, "double")
    elements = 16 * 1024
    (bench.folder / "x.bin").write_bytes(np.ones(elements, np.float32).tobytes())
    inputs = bench.inputs(elements, 1, "x.bin")
    inputs = replace(inputs, tensors=(replace(inputs.tensors[0], recipe="zeros"),))
    inputs = replace(inputs, regime="normal")
    job = a_job(bench, *sides, a_case(bench, elements=elements, inputs=inputs))
    (bench.folder / "job.pkl").write_bytes(pickle.dumps(job))
    run = [sys.executable, "-m", "kernelsmith.worker.session", str(bench.folder)]
    assert subprocess.run(run, capture_output=True).returncode < 0
    assert (bench.folder / "progress").read_text().strip() == f"{bad}:case"


def test_a_timed_replay_finds_what_a_checked_run_finds(bench):
    pool, _ = a_pool(bench, "double", slots=9)
    held = buffers.allocate(bench.plan(ELEMENTS), misalign_bytes=0, poison=3)
    for _ in range(2):
        for index in (0, 1):
            found = {
                pool._place.region.bytes[one.start : one.start + one.nbytes].tobytes()
                for one in (slot.private[index] for slot in pool.slots)
            }
            assert found == {held.view(index + 1).tobytes()}
        session_octets.replay(pool, "b", 9)
        pool.renew()


def test_cases_come_back_in_job_order_and_the_collector_is_left_as_it_was(bench):
    cases = [a_case(bench, key=key, window_ms=0.05) for key in "abcdef"]
    result = timed(bench, "double", "slow", *cases)
    assert [times.key for times in result.cases] == list("abcdef")
    assert gc.isenabled()


def test_a_case_that_launches_nothing_is_an_input_error(bench):
    with pytest.raises(InputError, match="side a launches nothing"):
        timed(bench, "double", "double", a_case(bench, elements=0))


def test_a_session_process_imports_no_compiler(bench):
    (bench.folder / "x.bin").write_bytes(np.ones(ELEMENTS, np.float32).tobytes())
    inputs = bench.inputs(ELEMENTS, 1, "x.bin")
    spec = replace(inputs.tensors[0], recipe="zeros")
    inputs = replace(inputs, tensors=(spec,), regime="normal")
    job = a_job(bench, "double", "slow", a_case(bench, inputs=inputs))
    (bench.folder / "job.pkl").write_bytes(pickle.dumps(job))
    code = (
        "import sys, pathlib; from kernelsmith.worker import session;"
        "session.main(pathlib.Path(sys.argv[1]));"
        "print([m for m in ('torch', 'triton', 'scipy', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(bench.folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    result = json.loads((bench.folder / "result.json").read_text())
    assert result["failure"] is None
    assert result["cases"][0]["key"] == "case"


def test_a_job_that_does_not_fit_is_answered_as_an_error(bench):
    job = replace(a_job(bench, "double", "slow", a_case(bench)), device="abacus")
    (bench.folder / "job.pkl").write_bytes(pickle.dumps(job))
    assert session.main(bench.folder) == session.EXIT_ERROR
    error = json.loads((bench.folder / "result.json").read_text())["error"]
    assert error["kind"] == "InputError"
    assert "abacus" in error["message"]


def test_time_that_others_take_from_the_core_is_not_the_kernels():
    slept_ns = clock.time_ns([lambda: time.sleep(0.05)])
    assert slept_ns < 25_000_000


def test_a_session_says_on_which_core_and_with_what_share_of_it(bench):
    facts = timed(bench, "double", "slow", a_case(bench)).facts
    assert facts["core"] in os.sched_getaffinity(0) | {None}
    assert 0 < facts["processor_share"] <= 1.05
    assert facts["pools"]["case"]["warm_slots"] >= 2
