"""Repeats a verdict from the database alone: same task, source, incumbent and secrets."""

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelsmith.errors import TaskError
from kernelsmith.model import CheckResult, Verdict
from kernelsmith.wiring import Wiring, versions

if TYPE_CHECKING:
    from kernelsmith.lineage.replays import RecordedVerdict

Outcome = Literal["same", "different", "undecidable"]
SPEED = ("ACCEPTED", "NOT_FASTER", "REGRESSES")
"""Statuses that part by timing alone: all of them kept the seed's bits."""
MEASURED_CHECKS = ("latency", "confirm")
SECONDS = re.compile(r"\b\d+(\.\d+)?(e[+-]?\d+)? s\b")
PROGRAMS = ("triton", "torch", "llvmlite", "numpy", "kernelsmith-rl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One fact that is not as it was. ``epoch``: bits may hang on it."""

    name: str
    recorded: Any
    here: Any
    epoch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What came out otherwise. ``what``: "status", "check" (the failing one) or "message"."""

    check: str
    what: str
    recorded: str
    here: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A verdict beside its repetition. ``changes`` come first: what they explain is no fault."""

    recorded: "RecordedVerdict"
    verdict: Verdict
    epoch: str
    changes: tuple[Change, ...]
    differences: tuple[Difference, ...]
    outcome: Outcome


def surroundings(wiring: Wiring, recorded: "RecordedVerdict") -> tuple[str, tuple[Change, ...]]:
    """The task's epoch here, and all that has changed since, what belongs to the epoch first.

    Raises:
        MissingError: the device, or Triton, is not here.
    """
    from kernelsmith.gate.epoch import epoch
    from kernelsmith.lineage.records import plain

    facts = plain(wiring.device(recorded.task.device).describe())
    here = epoch(recorded.task, facts)
    changes = []
    if here != recorded.epoch:
        changes += _changed(recorded.verdict.device, facts, epoch=True)
    now = versions()
    for name in PROGRAMS:
        then = recorded.versions.get(name)
        if then is not None and then != now.get(name):
            changed = Change(
                name=name, recorded=then, here=now.get(name), epoch=name in ("triton", "llvmlite")
            )
            changes.append(changed)
    if here != recorded.epoch and not any(change.epoch for change in changes):
        # The seed is the recorded one: nothing else is left that an epoch names.
        lang = Change(name="kernelsmith/lang.py", recorded="another", here="this", epoch=True)
        changes.append(lang)
    return here, tuple(sorted(changes, key=lambda change: not change.epoch))


def repeat(
    wiring: Wiring,
    recorded: "RecordedVerdict",
    sandbox_name: str,
    here: tuple[str, tuple[Change, ...]],
) -> Replay:
    """Judges again and compares.

    Args:
        here: what :func:`surroundings` says.

    Raises:
        MissingError: device or sandbox is not here.
        EvidenceError: the gate's evidence cannot be trusted; TaskError, where another epoch's
            seed no longer keeps what the task claims.
    """
    epoch, changes = here
    with ExitStack() as stack:
        device = wiring.device(recorded.task.device)
        sandbox = wiring.sandbox(sandbox_name, _is_trusted(wiring, recorded))
        stack.callback(sandbox.close)
        judge = wiring.judge(recorded.task, device, sandbox, recorded.secret_seed)
        stack.callback(judge.close)
        verdict = judge.judge(
            recorded.candidate, recorded.incumbent, recorded.confirms, recorded.number
        )
    differences = tuple(compare(recorded.verdict, verdict))
    return Replay(
        recorded=recorded,
        verdict=verdict,
        epoch=epoch,
        changes=changes,
        differences=differences,
        outcome=outcome(recorded.verdict, verdict, differences, epoch == recorded.epoch),
    )


def compare(then: Verdict, now: Verdict) -> list[Difference]:
    """Where two verdicts part: status, failing check, and the words of the checks about bits.
    Seconds, gains and the words about them are measured anew and not compared: how long a run may
    take hangs on how long the seed took, so the limit in the words of a TIMEOUT is one as well."""
    found = []
    last, last_now = _deciding(then), _deciding(now)
    if then.status != now.status:
        found.append(Difference(check="", what="status", recorded=then.status, here=now.status))
    if last.name != last_now.name:
        found.append(Difference(check="", what="check", recorded=last.name, here=last_now.name))
    others = {check.name: check for check in now.checks}
    for check in then.checks:
        other = others.get(check.name)
        if other is None or check.name in MEASURED_CHECKS:
            continue
        if check.status != other.status:
            found.append(
                Difference(
                    check=check.name, what="status", recorded=check.status, here=other.status
                )
            )
        elif _unmeasured(check.message) != _unmeasured(other.message):
            found.append(
                Difference(
                    check=check.name, what="message", recorded=check.message, here=other.message
                )
            )
    return found


def outcome(
    then: Verdict, now: Verdict, differences: tuple[Difference, ...], same_epoch: bool
) -> Outcome:
    """Whether the verdict was repeated. Where both kept their bits and part by speed alone,
    another epoch's timing says nothing of the recorded one."""
    if then.status == now.status:
        bits = [each for each in differences if each.check or each.what == "check"]
        return "different" if bits and same_epoch and then.status not in SPEED else "same"
    if not same_epoch and then.status in SPEED and now.status in SPEED:
        return "undecidable"
    return "different"


def _unmeasured(message: str) -> str:
    return SECONDS.sub("… s", message)


def _deciding(verdict: Verdict) -> CheckResult:
    return next((check for check in verdict.checks if check.status == "fail"), verdict.checks[-1])


def _changed(then: Mapping[str, Any], now: Mapping[str, Any], *, epoch: bool) -> list[Change]:
    return [
        Change(name=name, recorded=then.get(name), here=now.get(name), epoch=epoch)
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]


def _is_trusted(wiring: Wiring, recorded: "RecordedVerdict") -> bool:
    """Whether the source is the search's, from a seed that ships with this kernelsmith."""
    if not recorded.searched:
        return False
    try:
        shipped = wiring.load_task(recorded.task.name, recorded.task.device, ())
    except TaskError:
        return False
    return shipped.shipped and shipped.seed_source == recorded.task.seed_source


def open_recorded(db: Path, name: str, run: str | None) -> "RecordedVerdict":
    """The verdict of the candidate that ``name`` begins, as it is in ``run``.

    Raises:
        InputError: none or several; no verdict; no definition of its task.
        DatabaseError: there is no such database.
        EvidenceError: it was edited.
    """
    from kernelsmith.lineage import queries
    from kernelsmith.lineage.database import open_for_reading
    from kernelsmith.lineage.replays import recorded_verdict
    from kernelsmith.lineage.verify import require_intact

    database = open_for_reading(db)
    try:
        with database.reading() as connection:
            require_intact(connection)
            run_id = None if run is None else queries.find_run(connection, run)
            return recorded_verdict(connection, queries.find_candidate(connection, name, run_id))
    finally:
        database.close()
