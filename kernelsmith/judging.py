"""A candidate's verdict, or a winner's time against the seed, whatever the machine does meanwhile.

The gate tells a candidate that kills its worker from a machine that fails (``gate/blame``), and
blames it. What arrives here failed for no reason of the candidate's, or for none that can be told:
it is tried again, then set aside, while the seed still runs here. Where not even the seed does,
nothing is set aside: the run waits, tries again, and ends if that does not pass.
"""

import logging
from typing import Any

from kernelsmith.errors import EvidenceError, InfrastructureError
from kernelsmith.lane import Lane
from kernelsmith.lineage.past import PastCandidate
from kernelsmith.model import Candidate, Gain, Verdict
from kernelsmith.night import Setup, Tally, append, elapsed_s, tell

RETIMING_SESSIONS = 20
TRIES = 2
ROOM_WAIT_S = 5.0
_LOG = logging.getLogger(__name__)


def judge(
    setup: Setup, lanes: list[Lane], lane: Lane, candidate: Candidate, tally: Tally
) -> Verdict | None:
    """The verdict; None when it failed twice on a machine that runs the seed.

    Raises:
        InfrastructureError: the machine no longer runs the seed.
    """
    incumbent, tries = lane.incumbent, 0
    while True:
        try:
            with setup.interrupts.interruptible():
                return lane.judge.judge(candidate, incumbent, tally.confirms)
        except EvidenceError as error:
            message = f"judging {candidate.id} of {lane.task.name}: {error.message}"
            raise EvidenceError(message, hint=error.hint) from error
        except InfrastructureError as error:
            tally.confirms += 1  # it may have broken off inside confirm
            facts = {"task": lane.task.name, "candidate": candidate.id, "error": error.message}
            _note_cause(facts, error)
            tries += _is_sound(setup, lanes, lane, tally)
            if tries < TRIES:
                append(setup, "retry", {**facts, "elapsed_s": elapsed_s(setup)})
                continue
            append(setup, "set_aside", {**facts, "elapsed_s": elapsed_s(setup)})
            past = PastCandidate(
                candidate=candidate, status="UNJUDGED", gain_vs_seed=None, message=error.message
            )
            lane.history.append(past)
            tell(setup, lanes, "set_aside", lane, candidate=candidate, note=error.message)
            return None


def retime(
    setup: Setup, lanes: list[Lane], lane: Lane, candidate: Candidate, tally: Tally
) -> tuple[bool, Gain, dict[str, Any]]:
    """Whether a winner holds against the seed, its gain, and the evidence.

    Raises:
        InfrastructureError: it failed twice, or the machine no longer runs the seed.
    """
    tries = 0
    while True:
        # On record before it begins: one that is cut off has had its chance of an error too.
        begun = {"task": lane.task.name, "candidate": candidate.id}
        append(setup, "retiming_begun", {**begun, "elapsed_s": elapsed_s(setup)})
        lane.timings += 1
        try:
            with setup.interrupts.interruptible():
                return lane.judge.retime(candidate, RETIMING_SESSIONS, lane.timings - 1)
        except InfrastructureError as error:
            _note_cause({**begun, "error": error.message}, error)
            tries += _is_sound(setup, lanes, lane, tally)
            if tries == TRIES:
                raise


def _note_cause(facts: dict[str, str], error: InfrastructureError) -> None:
    """The record keeps what failed in words; the log, where."""
    place = {"task": facts["task"], "candidate": facts["candidate"]}
    _LOG.warning(error.message, exc_info=error, extra={"event": "judging_failed", "facts": place})


def _is_sound(setup: Setup, lanes: list[Lane], lane: Lane, tally: Tally) -> bool:
    """Whether the seed still runs here; waits a while where it does not.

    Raises:
        InfrastructureError: it has not for too long.
    """
    began_s = setup.clock()
    while (
        not has_room(setup, lanes, tally)
        and elapsed_s(setup) < setup.budget.time_limit_s
        and not setup.store.stop_requested(setup.run_id)
    ):
        wait_for_room(setup)
    with setup.interrupts.interruptible():
        fault = lane.judge.machine_fault()
    if fault:
        wait_s = tally.patience.bear(fault)
        note = f"this machine does not run the seed: {fault}; trying again in {wait_s:.0f} s"
        facts = {"task": lane.task.name, "message": note, "elapsed_s": elapsed_s(setup)}
        append(setup, "machine_fault", facts)
        tell(setup, lanes, "notice", lane, note=note)
        with setup.interrupts.interruptible():
            setup.sleep(wait_s)
    else:
        tally.patience.sound()
    tally.waited_s += setup.clock() - began_s  # by the run's clock: a pause is no wait
    return not fault


def note_slowed(
    setup: Setup, lanes: list[Lane], lane: Lane, tally: Tally, slowed: dict[str, Any] | None
) -> None:
    """Says once in a run that timing sessions were slowed from outside."""
    if tally.told or not slowed:
        return
    tally.told = True
    note = (
        f"timing sessions were slowed from outside ({slowed['why'][0]}); both sides of a session "
        "are slowed alike, so verdicts hold, but gains are less sharp and sessions take longer"
    )
    facts = {"task": lane.task.name, "message": note, "elapsed_s": elapsed_s(setup)}
    append(setup, "slowed", facts)
    tell(setup, lanes, "notice", lane, note=note)


def has_room(setup: Setup, lanes: list[Lane], tally: Tally) -> bool:
    """Whether there is room for another candidate; says so once when there is none, and again when
    there is."""
    short = setup.shortage()
    if bool(short) != bool(tally.short):
        note = f"waiting for room: {short}" if short else "there is room again"
        kind = "room_short" if short else "room_again"
        append(setup, kind, {"message": note, "elapsed_s": elapsed_s(setup)})
        tell(setup, lanes, "notice", lanes[0], note=note)
    tally.short = short
    return not short


def wait_for_room(setup: Setup) -> None:
    """Waits a little, or while the run is paused, before room is looked for again; a signal ends
    the wait."""
    with setup.interrupts.interruptible():
        setup.pauses.rest()
        setup.sleep(ROOM_WAIT_S)
