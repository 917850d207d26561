"""Which winners an export takes, which it refuses and why: read from the lineage alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelsmith.errors import InputError
from kernelsmith.gate.judge import BITS
from kernelsmith.lineage import exports, queries, reviews, verdicts
from kernelsmith.lineage.definitions import definition
from kernelsmith.lineage.verdicts import CandidateRecord
from kernelsmith.model import Candidate, Gain, Task

REQUIRED = (*BITS, "latency", "declared_range", "confirm")
"""Checks whose passing an export demands, beside ``order``, which a task may give nothing to do: it
is then in the verdict's ``unchecked`` and goes into the certificate. One that is neither there nor
passed is missing evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """An approved winner with all that its certificate says of it. ``run``: its run's row;
    ``gain``: the final one, over the seed; ``trusted``: shipped seeds and search alone made it;
    ``task``: as the run began with it, None where the run kept no definition."""

    found: CandidateRecord
    review: reviews.Standing
    run: dict[str, Any]
    head: str
    seed: Candidate
    gain: Gain
    trusted: bool
    task: Task | None

    @property
    def op(self) -> str:
        return self.found.candidate.task

    @property
    def epoch(self) -> str:
        return _epoch(self.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """``chosen``: one an op and epoch, ops in alphabetical order; ``superseded``: (candidate,
    candidate approved after it for the same op and epoch)."""

    chosen: tuple[Chosen, ...]
    superseded: tuple[tuple[str, str], ...]


def select(connection: Any, run_id: str | None) -> Selection:
    """The approved winners, of one run or of all.

    Of several for one op in one epoch, the one that was approved last is taken.

    Raises:
        InputError: nothing is approved, or something approved may not be exported; each is named.
    """
    records = reviews.approved(connection, run_id)
    if not records:
        raise _nothing_approved(connection, run_id)
    found = [verdicts.candidate_record(connection, record) for record in records]
    refused = [(one, why_refused(connection, one)) for one in found]
    named = [f"{one.candidate.task} {one.candidate.id}: {why}" for one, why in refused if why]
    if named:
        raise InputError(
            f"not exported, and nothing else either: {'; '.join(named)}",
            hint="take the approval back with `kernelsmith review --undo ID`, or judge and time it "
            "anew: `kernelsmith gate --again ID`",
        )
    latest: dict[tuple[str, str], tuple[CandidateRecord, reviews.Standing]] = {}
    superseded = []
    by_decision = sorted(
        ((one, _approval(connection, one)) for one in found), key=lambda pair: pair[1].step
    )
    for one, review in by_decision:
        key = (one.candidate.task, _epoch(one))
        if key in latest and latest[key][0].candidate.id != one.candidate.id:
            superseded.append((latest[key][0].candidate.id, one.candidate.id))
        latest[key] = (one, review)
    chosen = [_chosen(connection, *latest[key]) for key in sorted(latest)]
    return Selection(chosen=tuple(chosen), superseded=tuple(superseded))


def why_refused(connection: Any, found: CandidateRecord) -> str | None:
    """Why a winner may not be exported, in words; None: it may."""
    standing = reviews.standing(connection, found.record)
    if standing is None or standing.decision != "approve":
        return "it is not approved"
    reason = reviews.why_not_approvable(connection, found.record)
    if reason:
        return reason
    verdict = found.verdict
    if verdict is None:
        return "it has no verdict"
    if found.final is None:
        return "it was not timed against the seed"
    if not found.final[0]:
        return "it is not faster than the seed by the final timing"
    status = {check.name: check.status for check in verdict.checks}
    required = [*REQUIRED, *(["order"] if "order" not in verdict.unchecked else [])]
    missing = [name for name in required if status.get(name) != "pass"]
    if missing:
        return f"evidence is missing: {', '.join(missing)}"
    if verdict.gain is None or found.raw_sessions == 0:
        return "evidence is missing: its timing sessions"
    return None


def waiting(connection: Any, run_ids: Sequence[str]) -> list[str]:
    """Accepted candidates of these runs that could be approved and are not, as "TASK ID"."""
    names = []
    for run_id in run_ids:
        for row in verdicts.accepted(connection, run_id):
            record = queries.find_candidate(connection, row["id"], run_id)
            undecided = reviews.standing(connection, record) is None
            if undecided and reviews.why_not_approvable(connection, record) is None:
                names.append(f"{row['task']} {row['id']}")
    return names


def _nothing_approved(connection: Any, run_id: str | None) -> InputError:
    runs = [run_id] if run_id else queries.run_ids(connection)
    names = waiting(connection, runs)
    where = f"run {run_id}" if run_id else "this database"
    if not names:
        return InputError(
            f"nothing to export: no candidate of {where} is approved, and none waits for it",
            hint="`kernelsmith runs` shows what was accepted",
        )
    return InputError(
        f"nothing to export: not approved yet: {', '.join(names[:4])}"
        + (", …" if len(names) > 4 else ""),
        hint=f"`kernelsmith review --approve {names[0].split()[-1]}`",
    )


def _approval(connection: Any, found: CandidateRecord) -> reviews.Standing:
    standing = reviews.standing(connection, found.record)
    if standing is None:  # ``approved`` gave the record in this transaction
        raise InputError(f"candidate {found.candidate.id} is not approved")
    return standing


def _epoch(found: CandidateRecord) -> str:
    return "" if found.verdict is None else found.verdict.epoch


def _chosen(connection: Any, found: CandidateRecord, review: reviews.Standing) -> Chosen:
    seed = queries.load_candidate(connection, queries.seed_record(connection, found.record))
    family = [found.record, *reviews.ancestors(connection, found.record)]
    authors = {queries.load_candidate(connection, record).author for record in family}
    if found.final is None:
        raise InputError(f"candidate {found.candidate.id} was not timed against the seed")
    run = queries.run_row(connection, found.run_id)
    return Chosen(
        found=found,
        review=review,
        run=run,
        head=exports.verdict_head(connection, found.record),
        seed=seed,
        gain=found.final[1],
        trusted=authors <= {"seed", "search"},
        task=definition(connection, run["options"], found.candidate.task),
    )
