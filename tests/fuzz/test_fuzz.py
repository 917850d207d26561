"""Hostile sources, traces, IR, files, lines and answers: the same examples on every machine.

``make proof-fuzz`` draws others, for as long as it is told to.
"""

import json
from dataclasses import dataclass, replace
from typing import get_args

import pytest

from kernelsmith.errors import EvidenceError
from kernelsmith.gate import sessions
from kernelsmith.model import CaseTimes, Status, TimedReplay, TimeResult
from kernelsmith.model.messages import FailureStatus
from kernelsmith.sandbox.answers import MAX_MESSAGE_CHARS, result_of
from tests.fuzz.every import PROPERTIES
from tests.fuzz.plan_properties import WELL, traced
from tests.fuzz.properties import Property, tried


@pytest.mark.parametrize("one", PROPERTIES, ids=lambda one: one.name)
def test_it_holds_for_all_that_is_drawn(one: Property) -> None:
    assert tried(one, one.examples) > 0


def test_the_traces_that_are_garbled_are_sound_before() -> None:
    _, chosen, job, text = traced("linear")
    assert len(chosen) == len(job.calls) > 1
    assert "tt.func" in text


def answer(status: str, text: str = "no") -> bytes:
    failure = {"status": status, "message": text, "where": ""}
    return json.dumps({"plans": {}, "classes": {}, "failure": failure}).encode()


def test_no_process_behind_the_wall_can_say_accepted() -> None:
    _, _, job, _ = traced("linear")
    for status in get_args(Status):
        found = result_of(job, WELL, answer(status), "here").failure
        assert found is not None
        may = status in get_args(FailureStatus)
        assert found.status == (status if may else "CRASH")
        assert ("not valid" in found.message) != may


def test_what_a_process_says_of_a_failure_is_one_line() -> None:
    _, _, job, _ = traced("linear")
    found = result_of(job, WELL, answer("TRACE", "a\nb\r" * 9999), "here").failure
    assert found is not None
    assert found.message.startswith("a b a b")
    assert len(found.message) == MAX_MESSAGE_CHARS


@dataclass
class Asked:
    key: str = "k"
    octets: int = 3


@pytest.mark.parametrize(
    "windows", [(), ((float("nan"),) * 8,) * 6, ((0.0,) * 8,) * 6, ((1.0,) * 7,) * 6]
)
def test_a_session_whose_windows_are_no_times_is_no_evidence(
    windows: tuple[tuple[float, ...], ...],
) -> None:
    sides = (TimedReplay(side="a", outputs=()), TimedReplay(side="b", outputs=()))
    times = CaseTimes(
        key="k",
        warm=(0.1,) * 3,
        cold=(0.1,) * 3,
        windows_ns=((1.0,) * 8,) * 6,
        replays_per_window=(1, 1),
        below_floor=False,
        replays=sides,
    )
    good = TimeResult(cases=(times,), seconds=1.0)
    sessions._require_complete(good, [Asked()])  # type: ignore[list-item]
    bad = replace(good, cases=(replace(times, windows_ns=windows),))
    with pytest.raises(EvidenceError, match="window"):
        sessions._require_complete(bad, [Asked()])  # type: ignore[list-item]
