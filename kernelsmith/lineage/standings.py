"""How a run stands: counts, incumbents, final gains; and what a resumed run starts from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from kernelsmith.lineage.histories import gain_of, last_of, stop_requested
from kernelsmith.lineage.models import CandidateRow, Event, Retiming, Run, RunTask, VerdictRow
from kernelsmith.lineage.past import PERSON, Before, TaskBefore
from kernelsmith.lineage.queries import run_row
from kernelsmith.lineage.spending import AgentStanding, agent_standing
from kernelsmith.model import Gain

ENDS = ("finished", "interrupted", "failed", "paused")
LIFE = ("started", "resumed", *ENDS)
NEVER = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStanding:
    """A task of a run. ``gain``: the incumbent timed against the seed at the run's end; None
    until then. ``estimate``: its gain over the seed as a product of confirms, 1.0 for the seed.
    ``incumbent``: the seed's id when nothing stands; ``unsupported``: accepted candidates whose
    final timing failed."""

    task: str
    seed: str
    judged: int
    accepted: int
    statuses: Mapping[str, int]
    duplicates: int
    set_aside: int
    waiting: int
    incumbent: str
    estimate: float
    gain: Gain | None
    unchecked: tuple[str, ...]
    unsupported: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStanding:
    """A run as it stands. ``last``: its latest of ``LIFE``, "paused" only if the pause ended its
    process; ``began``: of its latest start or resume, who ran it (``process``) and its limits;
    ``elapsed_s``: active time; ``agent`` None: it has none; ``paused``: its process may live on;
    ``pausing``: it was asked and has not answered."""

    id: str
    started_at: str
    device: str
    proposer: str
    last: str
    last_payload: Mapping[str, Any]
    began: Mapping[str, Any]
    elapsed_s: float
    stop_requested: bool
    tasks: tuple[TaskStanding, ...]
    agent: AgentStanding | None = None
    paused: bool = False
    pausing: bool = False

    @property
    def ended(self) -> bool:
        """Whether its process said its last word; one that was killed says none."""
        return self.last in ENDS


def run_standing(connection: Connection, run_id: str) -> RunStanding:
    """One run with its tasks."""
    row = run_row(connection, run_id)
    rows = connection.execute(
        select(Event.kind, Event.payload)
        .where(Event.run_id == run_id, Event.kind.in_(LIFE))
        .order_by(Event.step.desc())
    )
    life = [(row.kind, json.loads(row.payload)) for row in rows]
    life = [(kind, facts) for kind, facts in life if kind != "paused" or _ends_process(facts)]
    began = [facts for kind, facts in life if kind in ("started", "resumed")]
    return RunStanding(
        id=run_id,
        started_at=row["started_at"],
        device=row["device"],
        proposer=row["proposer"],
        last=life[0][0],
        last_payload=life[0][1],
        began=began[0],
        elapsed_s=_elapsed_s(connection, run_id),
        stop_requested=stop_requested(connection, run_id),
        paused=_pause_word(connection, run_id) == "paused",
        pausing=_pause_word(connection, run_id, "pause_requested", "pause_failed")
        == "pause_requested",
        tasks=tuple(_task(connection, run_id, task, seed) for task, seed in row["seeds"].items()),
        agent=agent_standing(connection, run_id, row["options"], began[0]),
    )


def before(connection: Connection, run_id: str) -> Before:
    """What a resumed run starts from."""
    tasks = select(RunTask.task).where(RunTask.run_id == run_id)
    names = list(connection.execute(tasks).scalars())
    confirms = _confirms(connection, run_id)
    proposer = connection.execute(select(Run.proposer).where(Run.id == run_id)).scalar_one()
    if proposer == PERSON:
        confirms += sum(confirms_by_hand(connection, name, besides=run_id) for name in names)
    return Before(
        elapsed_s=_elapsed_s(connection, run_id),
        confirms=confirms,
        tasks={name: _task_before(connection, run_id, name) for name in names},
    )


def confirms_by_hand(connection: Connection, task: str, besides: str = "") -> int:
    """How many judgements of what people sent in by hand for a task reached confirm, or may have,
    in all runs besides one: they are one series, in which the chance of a false accept adds up."""
    runs = (
        select(Run.id)
        .join(RunTask, RunTask.run_id == Run.id)
        .where(Run.proposer == PERSON, RunTask.task == task, Run.id != besides)
    )
    return sum(_confirms(connection, run_id) for run_id in connection.execute(runs).scalars())


def _confirms(connection: Connection, run_id: str) -> int:
    """Judgements of a run that reached confirm, and those that may have: the machine failed on
    them, or their process ended before their verdict. Each has had its chance of a false accept,
    whoever ended it and however often it is judged again."""
    reached = func.coalesce(func.sum(VerdictRow.reached_confirm), 0)
    confirms = connection.execute(select(reached).where(VerdictRow.run_id == run_id)).scalar_one()
    failed = select(func.count()).where(
        Event.run_id == run_id, Event.kind.in_(("retry", "set_aside"))
    )
    resumed = select(Event.step).where(Event.run_id == run_id, Event.kind == "resumed")
    ends = [*connection.execute(resumed).scalars(), NEVER]
    cut_off = sum(_waits_at(connection, run_id, step) for step in ends)
    return int(confirms) + int(connection.execute(failed).scalar_one()) + cut_off


def _waits_at(connection: Connection, run_id: str, step: int) -> bool:
    """Whether a candidate was on record before this step, and neither its verdict nor that it was
    set aside. A process judges one at a time, so that at most one was cut off."""

    def before_step(table: Any, *where: Any) -> int:
        query = select(func.count()).where(table.run_id == run_id, table.step < step, *where)
        return int(connection.execute(query).scalar_one())

    proposed = before_step(CandidateRow, CandidateRow.position > 0)  # position 0: the seed
    aside = before_step(Event, Event.kind == "set_aside")
    return proposed > before_step(VerdictRow) + aside


def _task_before(connection: Connection, run_id: str, task: str) -> TaskBefore:
    hashes = connection.execute(
        select(CandidateRow.normal_hash, CandidateRow.id).where(
            CandidateRow.run_id == run_id, CandidateRow.task == task
        )
    )
    spent = func.coalesce(func.sum(VerdictRow.seconds), 0.0)
    longest = func.coalesce(func.max(VerdictRow.seconds), 0.0)
    used = connection.execute(
        select(func.count(), spent, longest).where(
            VerdictRow.run_id == run_id, VerdictRow.task == task
        )
    ).one()
    return TaskBefore(
        seen={row[0]: row[1] for row in hashes},
        judged=int(used[0]),
        used_s=float(used[1]),
        longest_s=float(used[2]),
        retimed=_retimed(connection, run_id, task),
        timings=_events(connection, run_id, task, "retiming_begun"),
    )


def _retimed(connection: Connection, run_id: str, task: str) -> dict[str, tuple[bool, Gain]]:
    """Final timings by candidate id, the latest of each."""
    rows = connection.execute(
        select(CandidateRow.id, Retiming.holds, Retiming.gain)
        .join(CandidateRow, CandidateRow.record == Retiming.record)
        .where(Retiming.run_id == run_id, Retiming.task == task)
        .order_by(Retiming.step)
    )
    found: dict[str, tuple[bool, Gain]] = {}
    for name, holds, text in rows:
        gain = gain_of(text)
        if gain is not None:
            found[name] = (bool(holds), gain)
    return found


def _task(connection: Connection, run_id: str, task: str, seed: str) -> TaskStanding:
    here = (VerdictRow.run_id == run_id, VerdictRow.task == task)
    counts = select(VerdictRow.status, func.count()).where(*here).group_by(VerdictRow.status)
    by_status = {row[0]: row[1] for row in connection.execute(counts)}
    proposed = connection.execute(  # positions count from 0, the seed's
        select(func.max(CandidateRow.position)).where(
            CandidateRow.run_id == run_id, CandidateRow.task == task
        )
    ).scalar_one()
    retimed = _retimed(connection, run_id, task)
    unsupported = tuple(name for name, (holds, _) in retimed.items() if not holds)
    winners = connection.execute(
        select(CandidateRow.id, VerdictRow.unchecked, VerdictRow.gain_vs_seed)
        .join(CandidateRow, CandidateRow.record == VerdictRow.record)
        .where(*here, VerdictRow.status == "ACCEPTED")
        .order_by(VerdictRow.step.desc())
        .limit(len(unsupported) + 1)
    ).all()
    standing = next((row for row in winners if row.id not in unsupported), None)
    incumbent = standing.id if standing else seed
    judged = sum(by_status.values())
    set_aside = _events(connection, run_id, task, "set_aside")
    return TaskStanding(
        task=task,
        seed=seed,
        judged=judged,
        accepted=by_status.get("ACCEPTED", 0),
        statuses=by_status,
        duplicates=_events(connection, run_id, task, "duplicate"),
        set_aside=set_aside,
        waiting=proposed - judged - set_aside,
        incumbent=incumbent,
        estimate=(standing.gain_vs_seed if standing else None) or 1.0,
        gain=retimed[incumbent][1] if incumbent in retimed else None,
        unchecked=tuple(json.loads(standing.unchecked)) if standing else (),
        unsupported=unsupported,
    )


def _events(connection: Connection, run_id: str, task: str, kind: str) -> int:
    query = select(func.count()).where(
        Event.run_id == run_id, Event.kind == kind, Event.task == task
    )
    return int(connection.execute(query).scalar_one())


def _elapsed_s(connection: Connection, run_id: str) -> float:
    """Active time at the latest record."""
    latest = []
    for table in (VerdictRow, Event, Retiming):
        query = (
            select(table.elapsed_s)
            .where(table.run_id == run_id, table.elapsed_s > 0)
            .order_by(table.step.desc())
            .limit(1)
        )
        latest.append(connection.execute(query).scalar() or 0.0)
    return max(latest)


def _pause_word(connection: Connection, run_id: str, *more: str) -> str | None:
    kinds = ("started", "resumed", "paused", "thawed", *more)
    return last_of(connection, run_id, kinds)


def _ends_process(paused: Mapping[str, Any]) -> bool:
    return bool(paused.get("level") == "journal")
