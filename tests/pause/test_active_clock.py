"""Seconds that count: not those of a pause, a suspend or a jump."""

from kernelsmith.active_clock import SLACK_S, SLICE_S, ActiveClock, Countdown


class Hands:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_stopped_clock_stands_still_and_goes_on_where_it_stood() -> None:
    hands = Hands()
    clock = ActiveClock(base=hands)
    hands.now_s += 5
    assert clock() == 105.0
    clock.stop()
    hands.now_s += 1000
    clock.stop()  # twice is once
    assert clock() == 105.0
    assert clock.go() == 1000.0
    assert clock.go() == 0.0
    hands.now_s += 2
    assert clock() == 107.0
    clock.stop()
    hands.now_s += 7
    clock.go()
    assert clock() == 107.0


def waited(limit_s: float, takes: list[float]) -> tuple[float, float]:
    """Waits as long as ``takes`` says: (seconds by the hands, the last slice given)."""
    hands = Hands()
    left = Countdown(left_s=limit_s, clock=hands)
    slice_s = left.slice_s()
    for took_s in takes:
        hands.now_s += took_s
        slice_s = left.slice_s()
    return hands.now_s - 100.0, slice_s


def test_time_is_up_after_the_limit_and_not_before() -> None:
    assert waited(1.0, [SLICE_S] * 3)[1] == SLICE_S
    assert waited(1.0, [SLICE_S] * 4)[1] == 0.0
    assert waited(0.0, [])[1] == 0.0
    assert waited(0.1, [])[1] == 0.1


def test_early_and_late_wakes_count_as_what_they_took() -> None:
    assert waited(1.0, [0.05] * 19)[1] > 0.0
    assert waited(1.0, [0.05] * 20)[1] < 1e-9
    late_s = SLICE_S + SLACK_S
    assert waited(2 * late_s, [late_s] * 2)[1] == 0.0


def test_a_slice_that_took_far_longer_counts_as_a_slice() -> None:
    """A freeze, a suspend, a clock that jumps: an honest job has its time all the same."""
    assert waited(1.0, [3600.0] * 3)[1] == SLICE_S
    assert waited(1.0, [3600.0] * 4)[1] == 0.0


def test_a_clock_that_runs_backwards_gives_nothing_back() -> None:
    assert waited(0.5, [0.25, -50.0])[1] == SLICE_S
    assert waited(0.5, [0.25, -50.0, 0.25])[1] == 0.0


def test_a_countdown_on_a_stopped_clock_waits() -> None:
    hands = Hands()
    clock = ActiveClock(base=hands)
    left = Countdown(left_s=1.0, clock=clock)
    assert left.slice_s() == SLICE_S
    clock.stop()
    for _ in range(20):
        hands.now_s += SLICE_S
        assert left.slice_s() == SLICE_S
    clock.go()
    for _ in range(4):
        hands.now_s += SLICE_S
        left.slice_s()
    assert left.slice_s() == 0.0
