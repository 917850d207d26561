"""The agent's looks on a machine that fails: tried twice, then set aside, at last the run's end."""

import pytest

from kernelsmith.errors import InfrastructureError, StorageError
from kernelsmith.proposers.agent.agent import MAX_SET_ASIDE_IN_A_ROW
from tests.agent.night import Gate, Night, Script, machine_failure, settings


def failing_on(gate: Gate, sources: str) -> None:
    """The machine fails on every look at these."""
    gate.fail = lambda number: machine_failure() if gate.looks[-1][0] in sources else None


def test_a_look_that_fails_once_is_tried_again() -> None:
    gate = Gate(fail=lambda number: machine_failure() if number % 2 else None)
    night = Night(Script([[("bits", source) for source in "abcd"]]), gate)
    assert night.run() == ["toy"]
    assert [answer[:9] for answer in night.journal.answers] == ["look None"] * 4
    assert len(gate.looks) == 8


def test_a_candidate_on_which_the_machine_fails_twice_is_not_looked_at_again() -> None:
    gate = Gate()
    failing_on(gate, "a")
    steps = [("bits", "a"), ("bits", "a"), ("time", "a"), ("bits", "b")]
    night = Night(Script([steps, [("bits", "a")]]), gate, settings(sessions_max=2))
    assert night.run() == ["toy"]
    assert [answer[:9] for answer in night.journal.answers] == [
        *["the templ"] * 3,
        "look None",
        "the templ",
    ]
    assert [source for source, _, _ in gate.looks] == ["a", "a", "b"]


def test_only_several_candidates_in_a_row_end_the_run() -> None:
    gate = Gate()
    failing_on(gate, "abcde")
    order = "aaaabxcdde"  # a look at x goes well and begins the count again
    night = Night(Script([[("bits", source) for source in order]]), gate)
    with pytest.raises(InfrastructureError, match="template died"):
        night.run()
    assert [source for source, _, _ in gate.looks] == list("aabbxccddee")
    assert len("cde") == MAX_SET_ASIDE_IN_A_ROW
    assert len(night.journal.answers) == len(order) - 1  # the last goes on when the run does


def test_a_full_disk_in_a_look_ends_the_run_at_once() -> None:
    gate = Gate(fail=lambda number: StorageError("disk full"))
    night = Night(Script([[("bits", "a")] * 4]), gate)
    with pytest.raises(StorageError):
        night.run()
    assert len(gate.looks) == 1
