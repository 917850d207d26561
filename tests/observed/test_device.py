"""The observing build: what it finds, where it says it is, and what it leaves alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelsmith.devices.cpu import observe_run
from kernelsmith.errors import InputError
from kernelsmith.model import Finding
from tests.observed.conftest import Bound, Observe, line_of


def words(count: int, dtype: str = "int32") -> Any:
    return np.zeros(count, dtype)


def place(found: Finding) -> tuple[str, str, int, int]:
    """Kind, line without its folder, first and last byte."""
    return found.kind, Path(found.line).name, found.begin, found.end - 1


def met(found: Finding) -> tuple[int, str, int | None]:
    """Program, the other's line and program."""
    other = found.other_program[0] if found.other_program else None
    return found.program[0], Path(found.other_line).name, other


def test_a_kernel_that_keeps_to_its_elements_shows_nothing(observe: Observe) -> None:
    x, y = np.arange(100, dtype=np.int32), words(100)
    assert observe(("copy", (x, y, 100), 7)) == ()
    assert (x == y).all()


def test_a_tail_read_is_named_and_not_performed(observe: Observe) -> None:
    x, y = np.arange(100, dtype=np.int32), words(100)
    (found,) = observe(("tail_read", (x, y, 100), 7))
    assert place(found) == ("out_of_bounds", line_of("tail_read", "x = tl.load"), 400, 447)
    assert (found.program, found.argument, found.buffer) == ((6, 0, 0), "x_ptr", "buffer 0")
    assert (found.buffer_bytes, found.item_bytes, found.count) == (400, 4, 12)
    assert (x == y).all()


def test_a_write_past_the_end_never_happens(observe: Observe) -> None:
    """The bytes behind are another array's, which a bound by address alone would take for fine."""
    whole = words(200)
    x, y = np.arange(100, dtype=np.int32), whole[:100]
    (found,) = observe(("tail_write", (x, y, 100), 7))
    assert place(found) == ("out_of_bounds", line_of("tail_write", "tl.store"), 400, 447)
    assert (whole[100:] == 0).all()
    assert (whole[:100] == x).all()


def test_the_buffer_next_door_is_out_of_bounds_too(observe: Observe) -> None:
    whole = words(200)
    (found,) = observe(("tail_read", (whole[:100], whole[100:], 100), 7))
    assert (found.kind, found.buffer, found.begin) == ("out_of_bounds", "buffer 0", 400)


def test_two_programs_that_write_a_word_race_though_the_bits_agree(observe: Observe) -> None:
    (found,) = observe(("same_word", (words(4), words(4), 4), 5))
    assert place(found) == ("race", line_of("same_word", "tl.store"), 12, 15)
    assert met(found) == (1, line_of("same_word", "tl.store"), 0)
    assert found.count == 4
    assert found.other_does == "writes"


def test_one_program_alone_races_with_nobody(observe: Observe) -> None:
    assert observe(("same_word", (words(4), words(4), 4), 1)) == ()


def test_lanes_of_one_store_race_if_their_values_differ(observe: Observe) -> None:
    x, y = words(16, "float32"), words(8, "float32")
    x[:] = np.repeat(np.arange(8), 2)
    assert observe(("pairs", (x, y, 16), 1)) == ()
    x[4], x[11] = 7, -0.0
    (found,) = observe(("pairs", (x, y, 16), 1))
    assert place(found) == ("race", line_of("pairs", "tl.store"), 8, 23)
    assert (met(found), found.count) == ((0, line_of("pairs", "tl.store"), 0), 2)
    assert str(found).endswith("where lanes of one store write different values (2 accesses)")
    assert (y == 2 * x[1::2]).all()
    assert observe(("pairs", (x, y, 11), 1))[0].begin == 8  # lane 11 is masked off
    x[:] = np.nan
    x.view(np.uint32)[::2] ^= 0x80000001
    assert observe(("pairs", (x, y, 16), 1)) == ()  # all NaNs that a sum gives are one


def test_a_store_sees_memory_as_it_was_though_its_values_are_looked_at(observe: Observe) -> None:
    y = np.arange(17, dtype=np.int32)
    assert observe(("shifted_in_place", (words(1), y, 0), 1)) == ()
    assert y.tolist() == [0, *range(16)]


def test_a_read_races_with_a_write_before_and_after_it(observe: Observe) -> None:
    found = observe(("next_row", (words(1), words(4), 4), 4))
    line = line_of("next_row", "tl.store")
    assert {(place(one), one.does) for one in found} == {
        (("race", line, 0, 3), "reads"),  # the last program, after the first has written
        (("race", line, 4, 15), "writes"),
    }


def test_a_race_ends_with_its_launch(observe: Observe) -> None:
    launch = ("copy", (words(64), words(64), 64), 4)
    x, y = launch[1][:2]
    assert observe(launch, ("copy", (y, x, 64), 2)) == ()


def test_integer_atomics_that_commute_are_no_race(observe: Observe) -> None:
    y = words(4)
    assert observe(("count", (words(1), y, 4), 5)) == ()
    assert y.tolist() == [20] * 4


@pytest.mark.parametrize(
    ("kernel", "kind", "at"),
    [
        ("count_and_cap", "atomic_order", "tl.atomic_max"),
        ("last_wins", "atomic_order", "tl.atomic_xchg"),
        ("take_a_number", "atomic_order", "tl.atomic_add"),
        ("count_and_look", "race", "tl.load"),
    ],
)
def test_atomics_whose_order_shows(observe: Observe, kernel: str, kind: str, at: str) -> None:
    found = observe((kernel, (words(1), words(8), 4), 4))
    assert (kind, line_of(kernel, at), 0, 3) in [place(one) for one in found]


def test_a_float_atomic_is_named_with_line_and_bytes(observe: Observe) -> None:
    found = observe(("float_total", (words(64, "float32"), words(4, "float32"), 64), 4))
    line = line_of("float_total", "tl.atomic_add")
    assert {place(one) for one in found} == {("float_atomic", line, 8, 11)}
    assert {met(one)[2] for one in found} == {None, 0}


def test_what_nobody_wrote_is_unwritten(observe: Observe) -> None:
    (found,) = observe(("read_first", (words(4), words(40), 40), 3), holds=(0,))
    assert place(found) == ("unwritten", line_of("read_first", "tl.load"), 0, 159)


def test_what_an_earlier_launch_wrote_is_written(observe: Observe) -> None:
    x, y = words(40), words(40)
    assert observe(("copy", (x, y, 40), 3), ("read_first", (x, y, 40), 3), holds=(0,)) == ()
    (found,) = observe(("copy", (x, y, 30), 2), ("read_first", (x, y, 40), 3), holds=(0,))
    assert (found.begin, found.end, found.launch) == (120, 160, 1)


def test_the_gap_between_two_rows_belongs_to_nobody(observe: Observe) -> None:
    inside = np.ones(160, np.uint8)
    inside[80:96] = 0
    x, y = np.arange(40, dtype=np.int32), words(40)
    (found,) = observe(("copy", (x, y, 40), 3), inside={0: inside})
    assert place(found) == ("gap", line_of("copy", "tl.load"), 80, 95)
    assert y[20:24].tolist() == [0] * 4
    assert y[24] == 24


@pytest.mark.parametrize(
    ("kernel", "line", "program"),
    [("wait_for_next", "while", 0), ("lock", "while", 1), ("poll_by_adding", "while", 0)],
)
def test_waiting_for_another_program_is_stopped_and_named(
    observe: Observe, kernel: str, line: str, program: int
) -> None:
    found = observe((kernel, (words(1), words(8), 4), 4))[-1]
    assert place(found) == ("spin", line_of(kernel, line), 0, 3)
    assert (found.program, found.argument) == ((program, 0, 0), "y_ptr")


def test_a_loop_that_nobody_can_end_is_told_from_one_that_waits(observe: Observe) -> None:
    found = observe(("never", (words(1), words(4), 4), 4))
    assert [(one.kind, Path(one.line).name) for one in found] == [
        ("endless", line_of("never", "while"))
    ]


@pytest.mark.parametrize(("kernel", "line"), [("long_count", "while"), ("long_for", "for turn")])
def test_a_loop_that_goes_on_is_stopped_when_the_time_is_up(
    observe: Observe, kernel: str, line: str
) -> None:
    found = observe((kernel, (words(1), words(4), 4), 2), seconds=0.1)[-1]
    assert (found.kind, Path(found.line).name) == ("unfinished", line_of(kernel, line))
    assert found.count > 1000


def test_a_loop_that_ends_is_left_alone(observe: Observe) -> None:
    y = words(4)
    assert observe(("halves", (words(1), y, 1000), 4)) == ()
    assert y.tolist() == [9] * 4


def test_a_pointer_of_two_parameters_may_point_into_either(observe: Observe) -> None:
    x, y = words(8), words(16)
    found = observe(("either", (x, y, 8), 2), block=32)
    assert found == ()
    (found_one,) = observe(("either", (x, y, 16), 1), block=32)
    assert (found_one.kind, found_one.buffer) == ("out_of_bounds", "")


def test_accesses_across_granules_are_kept_by_the_byte(observe: Observe) -> None:
    y = words(8)
    (found,) = observe(("odd_word", (words(1), y, 4), 4))
    assert (found.kind, found.begin, found.end, met(found)[::2]) == ("race", 4, 5, (3, 0))


def test_a_function_that_is_called_is_observed(observe: Observe) -> None:
    (found,) = observe(("by_call", (words(1), words(8), 6), 3))
    assert place(found) == ("out_of_bounds", line_of("_put", "tl.store"), 32, 35)


def test_findings_are_those_of_a_model_that_keeps_all_accesses(observe: Observe) -> None:
    """Random rows of indices, masked ones among them: every byte that two programs touch."""
    draw = np.random.default_rng(7)
    for grid in (1, 2, 5, 9):
        index = draw.integers(0, 60, (2 * grid, 16)).astype(np.int32)
        index[draw.random(index.shape) < 0.3] = 1000
        index[draw.random(index.shape) < 0.05] = 63
        found = observe(("by_index", (index.reshape(-1), words(62), 0), grid), holds=(0, 1))
        reads = [set(row[row < 62].tolist()) for row in index[:grid]]
        writes = [set(row[row < 62].tolist()) for row in index[grid:]]
        raced = {
            word
            for p in range(grid)
            for q in range(grid)
            for word in writes[p] & (reads[q] | writes[q])
            if p != q
        }
        told = [one for one in found if one.kind == "race"]
        assert bool(told) == bool(raced)
        if raced:
            low, high = min(one.begin for one in told), max(one.end for one in told)
            assert (low, high) == (4 * min(raced), 4 * max(raced) + 4)
        outside = [one.count for one in found if one.kind == "out_of_bounds"]
        assert sum(outside) == int((index == 63).sum())


def test_the_observing_build_computes_the_same_bits() -> None:
    draw = np.random.default_rng(3)
    x = draw.standard_normal((19, 40)).astype(np.float32)
    w = draw.standard_normal((24, 40)).astype(np.float32)
    seen, usual = words(19 * 24, "float32"), words(19 * 24, "float32")
    sizes = {"M": 8, "N": 32, "K": 16}
    Bound("tile", (x, w, usual, 19, 24, 40), sizes).run(3)
    bound = Bound("tile", (x, w, seen, 19, 24, 40), sizes)
    step = bound.step(3, {id(x): 0, id(w): 1, id(seen): 2})
    watched = [
        observe_run.Watched(name="", address=a.ctypes.data, nbytes=a.nbytes, holds=a is not seen)
        for a in (x, w, seen)
    ]
    from kernelsmith.devices.cpu.arena import Arena

    arena = Arena(step.info.arena_bytes)
    found = observe_run.observe_steps(watched, [step], arena=arena.address, seconds=20)
    assert found == ()
    assert seen.tobytes() == usual.tobytes()
    assert np.abs(seen).max() > 0
    too_large = replace(watched[2], nbytes=observe_run.CELLS_MAX_BYTES)
    with pytest.raises(InputError, match="at most"):
        observe_run.observe_steps([*watched[:2], too_large], [step], arena=0, seconds=1)
