"""All that a verdict hung on, read back so that it can be repeated."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from kernelsmith.errors import DatabaseError, InputError
from kernelsmith.lineage import queries, verdicts
from kernelsmith.lineage.definitions import definition
from kernelsmith.lineage.models import CandidateRow, Event, Retiming, VerdictRow
from kernelsmith.model import Candidate, Task, Verdict

SCREEN = " screen"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedVerdict:
    """A verdict as it was reached. ``confirms``: candidates that had reached confirm before;
    ``number``: which judgement of its gate it was, on which hidden shapes and placements hang;
    None where nothing was drawn by it. ``epoch``: the run's for this task; ``searched``: its
    source is the search's own, and so were all of the run's."""

    record: str
    run_id: str
    judged_at: str
    candidate: Candidate
    incumbent: Candidate
    verdict: Verdict
    task: Task
    secret_seed: int
    confirms: int
    number: int | None
    epoch: str
    versions: Mapping[str, str]
    searched: bool


def recorded_verdict(connection: Connection, record: str) -> RecordedVerdict:
    """Reads what is needed to repeat the verdict of a candidate.

    Raises:
        InputError: it has none, or its run kept no task definitions.
        DatabaseError: what is on record cannot be read, or is not whole.
    """
    found = verdicts.candidate_record(connection, record)
    name = found.candidate.id
    if found.verdict is None or found.verdict_id is None or found.judged_at is None:
        seed = found.candidate.author == "seed"
        why = "it is a seed" if seed else found.set_aside or "it still waits for one"
        raise InputError(
            f"candidate {name} has no verdict to repeat: {why}",
            hint="`kernelsmith show RUN` lists what was judged",
        )
    run = queries.run_row(connection, found.run_id)
    task = definition(connection, run["options"], found.candidate.task)
    if task is None:
        raise InputError(
            f"run {found.run_id} keeps no definition of task {found.candidate.task}: it was "
            "recorded before verdicts could be repeated",
            hint="judge the source again: `kernelsmith gate FILE --task TASK`",
        )
    label, against = _drawn_by(connection, found.verdict_id)
    step = connection.execute(
        select(VerdictRow.step).where(VerdictRow.id == found.verdict_id)
    ).scalar_one()
    return RecordedVerdict(
        record=record,
        run_id=found.run_id,
        judged_at=found.judged_at,
        candidate=found.candidate,
        incumbent=_incumbent(connection, found, step, against),
        verdict=found.verdict,
        task=task,
        secret_seed=int(run["secret_seed"]),
        confirms=_confirms(connection, found.run_id, found.verdict, step),
        number=_number(name, label),
        epoch=run["options"].get("epochs", {}).get(task.name, found.verdict.epoch),
        versions=run["versions"],
        searched=found.candidate.author == run["proposer"] == "search"
        and run["options"].get("first") is None,
    )


def _drawn_by(connection: Connection, verdict_id: str) -> tuple[str, str]:
    """The label of the verdict's timing sessions and whom they timed against, "" where none is
    kept: the judgement ended before it was timed."""
    samples = verdicts.raw_sessions(connection, verdict_id)
    first = samples[0] if samples else {}
    return str(first.get("session", "")), str(first.get("against", ""))


def _number(candidate_id: str, label: str) -> int | None:
    words = label.removesuffix(SCREEN).split(" ")
    if len(words) != 2 or words[0] != candidate_id or not words[1].isdigit():
        return None
    return int(words[1])


def _incumbent(
    connection: Connection, found: verdicts.CandidateRecord, step: int, against: str
) -> Candidate:
    """What the candidate had to beat: by its own timing sessions, else the latest that was
    accepted before and not found unsupported before, else the seed."""
    run_id, task = found.run_id, found.candidate.task
    query = select(CandidateRow.record).where(CandidateRow.task == task)
    if against:
        query = query.where(CandidateRow.id == against).order_by(
            (CandidateRow.run_id == run_id).desc(), CandidateRow.step.desc()
        )
    else:
        unsupported = select(Retiming.record).where(
            Retiming.run_id == run_id, Retiming.step < step, Retiming.holds == 0
        )
        query = (
            query.join(VerdictRow, VerdictRow.record == CandidateRow.record)
            .where(
                CandidateRow.run_id == run_id,
                VerdictRow.status == "ACCEPTED",
                VerdictRow.step < step,
                CandidateRow.record.not_in(unsupported),
            )
            .order_by(VerdictRow.step.desc())
        )
    record = connection.execute(query.limit(1)).scalar()
    if record is None and against:
        raise DatabaseError(
            f"candidate {found.candidate.id} was timed against {against}, which is not on record",
            hint="`kernelsmith lineage verify` says whether something was deleted",
        )
    seed = queries.seed_record(connection, found.record)
    return queries.load_candidate(connection, record or seed)


def _confirms(connection: Connection, run_id: str, verdict: Verdict, step: int) -> int:
    """By confirm's own evidence where it came to timing; else all that may have reached confirm
    before, those that the machine failed on included."""
    for check in verdict.checks:
        if check.name == "confirm" and "k" in check.evidence:
            return int(check.evidence["k"]) - 1
    before = (VerdictRow.run_id == run_id, VerdictRow.step < step)
    reached = connection.execute(
        select(func.coalesce(func.sum(VerdictRow.reached_confirm), 0)).where(*before)
    ).scalar_one()
    failed = connection.execute(
        select(func.count()).where(
            Event.run_id == run_id, Event.step < step, Event.kind.in_(("retry", "set_aside"))
        )
    ).scalar_one()
    return int(reached) + int(failed)
