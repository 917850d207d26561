"""What a RunJob shows about a kernel: its outputs, and what it touched that is not its own."""

import contextlib
import faulthandler
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from kernelsmith.errors import InputError
from kernelsmith.model import Run, RunJob, RunsResult
from kernelsmith.worker import buffers_poison, launcher

ELEMENTS = 1000
ORDERS = ("ascending", "descending", "shuffled:5", "threads:2", "threads:7")


def execute(bench, kind, *runs, unaligned=None):
    kinds = {"k": kind, "k-unaligned": unaligned or kind}
    objects, object_of = bench.lay(kinds)
    job = RunJob(runs=runs, objects=objects, object_of=object_of, device="cpu")
    result = launcher.run(job, bench.folder, device=bench.device, draw=bench.draw)
    assert isinstance(result, RunsResult)
    assert result.failure is None
    return result.runs


def a_run(bench, key="r", elements=ELEMENTS, **changes):
    run = Run(key=key, plan=bench.plan(elements), inputs=bench.inputs(elements))
    return replace(run, **changes)


def output(bench, result, index=0):
    place = result.outputs[index]
    data = (bench.folder / "out.bin").read_bytes()
    return data[place.offset_bytes : place.offset_bytes + place.nbytes]


def doubled(bench, elements=ELEMENTS, seed=7):
    return (bench.draw(bench.inputs(elements, seed))["x"] * np.float32(2)).tobytes()


@pytest.mark.parametrize("order", ORDERS)
def test_a_clean_kernel_gives_its_output_in_every_program_order(bench, order):
    (result,) = execute(bench, "double", a_run(bench, order=order))
    assert output(bench, result) == doubled(bench)
    assert result.canaries == ()
    assert result.changed_inputs == ()


def test_program_order_reaches_the_kernel(bench):
    runs = [a_run(bench, key=order, order=order) for order in ("ascending", "descending")]
    up, down = execute(bench, "last_wins", *runs)
    last = -(-ELEMENTS // 64) - 1
    assert np.frombuffer(output(bench, up), np.float32)[0] == last
    assert np.frombuffer(output(bench, down), np.float32)[0] == 0


@pytest.mark.parametrize(
    ("kind", "canary"), [("overrun", "output 0 after"), ("underrun", "output 0 before")]
)
def test_a_store_next_to_a_buffer_names_buffer_and_side(bench, kind, canary):
    for poison in range(1, 5):
        (result,) = execute(bench, kind, a_run(bench, poison=poison))
        assert result.canaries == (canary,)


def died_of(bench, kind, **changes):
    """(signal of the process that makes one run, what its progress says)"""
    child = os.fork()
    if not child:
        faulthandler.disable()
        with contextlib.suppress(BaseException):
            # Distances are drawn: once in a while a read far beyond finds another buffer.
            execute(bench, kind, *[a_run(bench, **changes)] * 6)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), (bench.folder / "progress").read_text().strip()


def test_a_read_far_beyond_a_buffer_ends_the_process_and_names_the_run(bench):
    assert died_of(bench, "reads_past") == (-signal.SIGSEGV, "r")


@pytest.mark.parametrize(
    ("kind", "poison"), [("overrun", buffers_poison.ZEROS), ("underrun", buffers_poison.ONES)]
)
def test_under_constant_poison_the_next_element_is_a_guard(bench, kind, poison):
    # 1024 elements end at a page's end.
    changes = {"plan": bench.plan(1024), "inputs": bench.inputs(1024), "poison": poison}
    assert died_of(bench, kind, **changes) == (-signal.SIGSEGV, "r")
    assert died_of(bench, "double", **changes) == (0, "r")


def test_a_result_that_hangs_on_clear_scratch_shows(bench):
    runs = [a_run(bench, key=str(poison), poison=poison) for poison in (0, 255)]
    zeros, ones = (output(bench, result)[:4] for result in execute(bench, "reads_scratch", *runs))
    assert (zeros, ones) == (bytes(4), b"\xff" * 4)


def test_a_written_input_is_named(bench):
    (result,) = execute(bench, "spoils_input", a_run(bench))
    assert result.changed_inputs == ("x",)
    assert result.canaries == ()


@pytest.mark.parametrize("poison", [buffers_poison.ZEROS, buffers_poison.ONES])
def test_an_input_that_is_written_and_put_back_ends_the_process(bench, poison):
    (result,) = execute(bench, "restores_input", a_run(bench))
    assert result.changed_inputs == ()
    assert died_of(bench, "restores_input", poison=poison) == (-signal.SIGSEGV, "r")


def test_an_element_that_is_never_written_differs_under_two_poisons(bench):
    runs = [a_run(bench, key=str(poison), poison=poison) for poison in (1, 2, 3)]
    results = execute(bench, "leaves_tail", *runs)
    tails = {output(bench, result)[-4:] for result in results}
    assert len(tails) == 3
    assert {output(bench, result)[:-4] for result in results} == {doubled(bench)[:-4]}


def test_unwritten_scratch_reads_as_nan_and_as_large_numbers(bench):
    runs = [a_run(bench, key=str(poison), poison=poison) for poison in (1, 2)]
    nan, large = (
        np.frombuffer(output(bench, result), np.float32)[0]
        for result in execute(bench, "reads_scratch", *runs)
    )
    assert np.isnan(nan)
    assert abs(large) > 1e6


def test_a_kernel_that_skips_when_scratch_holds_its_mark_is_caught_by_a_stale_run(bench):
    fresh, stale = execute(
        bench, "marks_scratch", a_run(bench, "fresh"), a_run(bench, "stale", stale=True)
    )
    assert output(bench, fresh) == doubled(bench)
    assert output(bench, stale) != doubled(bench)


def test_a_stale_run_of_a_clean_kernel_gives_the_output_of_its_own_inputs(bench):
    (result,) = execute(bench, "double", a_run(bench, stale=True))
    assert output(bench, result) == doubled(bench)


@pytest.mark.parametrize(("misalign", "expected"), [(0, 2.0), (4, 0.0), (16, 2.0), (8, 0.0)])
def test_the_class_is_picked_by_the_pointers_that_are_passed(bench, misalign, expected):
    run = a_run(bench, misalign_bytes=misalign)
    (result,) = execute(bench, "double", run, unaligned="last_wins")
    ratio = (
        np.frombuffer(output(bench, result), np.float32)[0]
        / np.frombuffer(doubled(bench), np.float32)[0]
    )
    assert (ratio == 1.0) == (expected == 2.0)


def test_no_two_runs_in_a_row_share_an_address(bench):
    plan = bench.plan(ELEMENTS)
    first = launcher.buffers.allocate(plan, misalign_bytes=0, poison=1)
    second = launcher.buffers.allocate(plan, misalign_bytes=0, poison=1)
    assert {first.address(i) for i in range(3)}.isdisjoint({second.address(i) for i in range(3)})
    assert all(first.address(i) % 64 == 0 for i in range(3))


def test_a_file_overrides_a_drawn_input(bench):
    values = np.arange(ELEMENTS, dtype=np.float32)
    (bench.folder / "mine.bin").write_bytes(values.tobytes())
    (result,) = execute(bench, "double", a_run(bench, inputs=bench.inputs(ELEMENTS, 1, "mine.bin")))
    assert output(bench, result) == (values * 2).tobytes()


@pytest.mark.parametrize("name", ["../mine.bin", "short.bin"])
def test_a_file_that_is_elsewhere_or_too_short_is_an_input_error(bench, name):
    (bench.folder / "short.bin").write_bytes(bytes(8))
    with pytest.raises(InputError, match="input x"):
        execute(bench, "double", a_run(bench, inputs=bench.inputs(ELEMENTS, 1, name)))


def test_an_empty_batch_runs_nothing_and_returns_no_bytes(bench):
    (result,) = execute(bench, "double", a_run(bench, elements=0))
    assert result.outputs[0].nbytes == 0
    assert result.canaries == ()


def test_progress_names_the_last_run(bench):
    execute(bench, "double", a_run(bench, "a long first key"), a_run(bench, "second"))
    assert (bench.folder / "progress").read_text().strip() == "second"


def test_a_launch_that_does_not_fit_the_kernel_is_an_input_error(bench):
    plan = bench.plan(ELEMENTS)
    launch = replace(plan.launches[0], args=plan.launches[0].args[:-1])
    with pytest.raises(InputError, match="the launch passes"):
        execute(bench, "double", a_run(bench, plan=replace(plan, launches=(launch,))))
