"""The thread that keeps a run's pauses: what is asked, what it does, what it puts on record."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from kernelsmith.errors import EvidenceError, KernelsmithError
from kernelsmith.pauses import Pauses
from kernelsmith.pausing import REASON
from tests.operations.processes import TIMEOUT_S, until
from tests.pause.rigged import Broken, Calls, Rig, Word, resting


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_freeze_stops_workers_at_once_and_time_with_them(rig: Rig) -> None:
    with rig.keeping():
        rig.ask_pause("freeze")
        paused = rig.until("paused").payload
        assert (paused["level"], paused["epoch"], paused["elapsed_s"]) == ("freeze", 1, 7.0)
        assert paused["calls"] == {"under_way": 0, "cut": 0}
        assert paused["held"]["memory_bytes"] > 1 << 20
        assert rig.pauses.level == "freeze"
        stands_s = rig.pauses.clock()
        until(lambda: rig.sandbox.said.count("pause") > 2)  # also what was started since
        assert rig.pauses.clock() == stands_s
        rig.book.ask("thaw_requested")
        thawed = rig.until("thawed").payload
        assert thawed["recheck"]["toy"]["case"] == "m16"
        assert thawed["seconds"] > 0
        until(lambda: rig.pauses.level is None)
    assert rig.sandbox.said[-1] == "resume"
    assert rig.pauses.clock() > stands_s
    assert "thawed after 0 s: every worker answers with the bits on record" in rig.said


def test_a_resident_run_is_paused_when_its_loop_rests_and_its_calls_are_over(rig: Rig) -> None:
    calls = Calls(running=2)
    rig.pauses.join(calls)
    with rig.keeping():
        rig.ask_pause("resident")
        until(lambda: rig.pauses.level == "resident")
        assert "paused" not in [each.kind for each in rig.book.words]
        with resting(rig):
            time.sleep(0.05)
            assert "paused" not in [each.kind for each in rig.book.words]
            calls.running = 0
            assert rig.until("paused").payload["calls"] == {"under_way": 2, "cut": 0}
    assert rig.sandbox.said == []  # nothing of it stops


def test_calls_that_take_longer_than_the_grace_are_cut(rig: Rig) -> None:
    rig.pauses.join(Calls(running=3))
    with rig.keeping():
        rig.ask_pause("freeze", grace_s=0.05)
        assert rig.until("paused").payload["calls"] == {"under_way": 3, "cut": 3}


def test_a_pause_can_be_taken_back_before_it_is_one(rig: Rig) -> None:
    with rig.keeping():
        rig.ask_pause("resident")
        until(lambda: rig.pauses.level == "resident")
        rig.book.ask("thaw_requested")
        thawed = rig.until("thawed").payload
        assert (thawed["seconds"], thawed["recheck"]) == (0.0, {})
        until(lambda: rig.pauses.level is None)
    assert "paused" not in [each.kind for each in rig.book.words]


def test_workers_that_do_not_stop_fail_the_pause_and_the_run_goes_on(rig: Rig) -> None:
    rig.sandbox.stubborn = True
    with rig.keeping():
        rig.ask_pause("freeze")
        assert "do not stop" in rig.until("pause_failed").payload["error"]
        until(lambda: rig.pauses.level is None)
        assert rig.pauses.clock() < until(rig.pauses.clock)


def test_an_unknown_level_fails(rig: Rig) -> None:
    with rig.keeping():
        rig.ask_pause("coma")
        assert "coma" in rig.until("pause_failed").payload["error"]
    assert rig.pauses.level is None


def test_workers_that_come_back_as_others_end_the_run(rig: Rig) -> None:
    rig.judge.other = True
    with rig.keeping(), resting(rig) as got:
        rig.ask_pause("freeze")
        rig.until("paused")
        rig.book.ask("thaw_requested")
        assert "not what they were" in rig.until("thaw_failed").payload["error"]
        assert isinstance(until(lambda: got)[0], EvidenceError)
        with pytest.raises(EvidenceError):
            rig.pauses.admit()


def test_a_full_disk_delays_what_is_recorded_and_loses_nothing(rig: Rig) -> None:
    with rig.keeping():
        rig.book.full = 3
        rig.ask_pause("freeze")
        rig.until("paused")
        rig.book.full = 3
        rig.book.ask("thaw_requested")
        rig.until("thawed")
        until(lambda: rig.pauses.level is None)
    assert rig.said.count("pauses: cannot write database runs.db: disk full") == 2  # once each


def test_a_fault_of_ours_ends_a_run_that_waits_and_no_other(
    rig: Rig,
) -> None:
    rig.pauses.join(Broken())  # type: ignore[arg-type]
    with rig.keeping(), resting(rig) as got:
        rig.ask_pause("freeze")
        assert "ZeroDivisionError" in rig.until("thaw_failed").payload["error"]
        assert "pauses cannot be kept" in until(lambda: got)[0].message
    assert rig.sandbox.said[-1] == "resume"


def test_a_fault_of_ours_while_nothing_waits_costs_the_pauses_alone(rig: Rig) -> None:
    with rig.keeping():
        rig.book.words.append(Word("pause_requested", {}, 1))  # at no level
        rig.until("pause_failed")
    assert rig.pauses.admit() == 0


def test_a_pause_at_the_record_ends_the_run_as_sigterm_does(rig: Rig) -> None:
    with rig.keeping():
        rig.ask_pause("journal")
        until(lambda: rig.interrupts.requested)
    assert (rig.interrupts.reason, rig.interrupts.exit_code) == (REASON, 75)


@pytest.mark.parametrize("asked", ["by the record", "by a signal"])
def test_an_end_reaches_a_second_thread_of_the_gate_whose_job_stands_still(
    rig: Rig, asked: str
) -> None:
    """The main thread, which hears the signal, waits for it on its way out."""
    got: list[KernelsmithError] = []

    def beside_another() -> None:
        with pytest.raises(KernelsmithError) as caught:
            rig.pauses.admit()
        got.append(caught.value)

    with rig.keeping():
        rig.ask_pause("freeze")
        rig.until("paused")
        other = threading.Thread(target=beside_another)
        other.start()
        if asked == "by the record":
            rig.ask_pause("journal")
        else:
            rig.interrupts.requested = True
        other.join(TIMEOUT_S)
        assert [each.message for each in got] == ["the run was ended while it was paused"]
        assert rig.sandbox.said[-1] == "resume"


def test_a_machine_that_was_suspended_is_noticed(rig: Rig) -> None:
    """Whatever was measured meanwhile counts for nothing."""
    with rig.keeping():
        epoch = rig.pauses.admit()
        rig.uptime_s[0] = 3600.0
        assert rig.until("suspended").payload["seconds"] > 3500
        assert rig.pauses.overlapped(epoch)


def test_what_is_thrown_away_is_on_record(rig: Rig) -> None:
    with rig.keeping():
        rig.pauses.note("job_discarded", {"job": "TimeJob", "worker": "launcher"})
        discarded = rig.until("job_discarded").payload
    assert discarded == {"job": "TimeJob", "worker": "launcher", "elapsed_s": 7.0}


def test_a_devices_turn_is_let_go_while_workers_stand_still(tmp_path: Path) -> None:
    """Other runs of the machine get the device, and it is taken back before the job goes on."""
    place = tmp_path / "gpu.lock"

    @contextmanager
    def alone() -> Iterator[None]:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.close(descriptor)

    def is_free() -> bool:
        descriptor = os.open(place, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    pauses = Pauses()
    with pauses.turn(alone) as mine:
        assert mine
        assert not is_free()
        pauses.close("freeze")
        pauses.let_turns_go()
        assert is_free()
        with pauses.turn(alone) as late:
            assert not late  # whoever asks while all stand still
        assert is_free()
        pauses.take_turns()
        pauses.take_turns()  # a thaw that could not be recorded is tried again
        assert not is_free()
        pauses.open()
    assert is_free()


def test_a_freeze_that_fails_leaves_a_resident_run_paused(rig: Rig) -> None:
    with rig.keeping(), resting(rig):
        rig.ask_pause("resident")
        rig.until("paused")
        stands_s = rig.pauses.clock()
        rig.sandbox.stubborn = True
        rig.ask_pause("freeze")
        assert rig.until("pause_failed").payload["paused"] == "resident"
        until(lambda: rig.pauses.level == "resident")
        assert rig.pauses.clock() == stands_s
        rig.book.ask("thaw_requested")
        assert rig.until("thawed").payload["recheck"]["toy"]["case"] == "m16"


def test_of_two_who_ask_at_the_same_time_the_lesser_is_refused(rig: Rig) -> None:
    """Else workers would stand still that nobody lets go on."""
    with rig.keeping():
        rig.ask_pause("freeze")
        rig.until("paused")
        rig.ask_pause("resident")
        assert rig.until("pause_failed").payload["paused"] == "freeze"
        assert rig.pauses.level == "freeze"
        rig.book.ask("thaw_requested")
        rig.until("thawed")
    assert rig.sandbox.said[-1] == "resume"


def test_workers_are_asked_once_the_jobs_they_stood_still_in_are_over(rig: Rig) -> None:
    """While one has a job, another template of its role would answer in its stead."""
    with rig.keeping():
        with rig.pauses.turn(nullcontext):
            rig.ask_pause("freeze")
            rig.until("paused")
            rig.book.ask("thaw_requested")
            until(lambda: "resume" in rig.sandbox.said)
            time.sleep(0.05)
            assert "thawed" not in [each.kind for each in rig.book.words]
        rig.until("thawed")


def test_a_note_that_cannot_be_written_is_written_later(rig: Rig) -> None:
    rig.book.full = 2
    with rig.keeping():
        for number in range(2):
            rig.pauses.note("job_discarded", {"job": number})
        until(lambda: [each.payload.get("job") for each in rig.book.words][1:] == [0, 1])


def test_a_machine_suspended_while_its_last_judgement_ends_is_noticed(rig: Rig) -> None:
    with rig.keeping():
        epoch = rig.pauses.admit()
        rig.ask_pause("resident")
        until(lambda: rig.pauses.level == "resident")
        rig.uptime_s[0] = 3600.0
        until(lambda: rig.pauses.overlapped(epoch))
