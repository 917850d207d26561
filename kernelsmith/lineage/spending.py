"""An agent's conversations in brief: how many, how they ended, what came of them, what they cost.

Spend is the sum over recorded answers; what was sent and never answered costs nothing here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, func, select

from kernelsmith import config
from kernelsmith.lineage import conversations
from kernelsmith.lineage.models import (
    CandidateRow,
    Event,
    ModelAnswer,
    ModelCall,
    SessionEndRow,
    SessionRow,
    Submission,
    VerdictRow,
)
from kernelsmith.model import SCRIPTED_HEADER, SCRIPTED_MODEL, Price, Usage, cost_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBrief:
    """A conversation in brief. ``ordinal`` None: a foreign client's, whose ``task`` and ``parent``
    are "". ``turns``: requests of a foreign client; ``answers``: calls that got one. ``cost_usd``
    None: its model has no price. ``rehearsal``: recorded replies were played, whatever the run was
    started as. ``end`` None: it has not ended."""

    id: str
    run_id: str
    task: str
    ordinal: int | None
    parent: str
    model: str
    started_at: str
    turns: int
    calls: int
    answers: int
    submissions: int
    accepted: int
    usage: Usage
    cost_usd: Decimal | None
    rehearsal: bool
    end: str | None
    end_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStanding:
    """All conversations of a run. ``rehearsal``: recorded replies were played in one or more.
    Budgets are those of the latest start or resume; None: not limited. ``ended``: why it ended
    since then and the run went on without it; "": it did not."""

    model: str
    rehearsal: bool
    budget_usd: Decimal | None
    budget_tokens: int | None
    calls: int
    usage: Usage
    cost_usd: Decimal | None
    sessions: tuple[SessionBrief, ...]
    ended: str = ""

    @property
    def spent_budget(self) -> str:
        """Which budget has ended the conversations, open ones included: usd, tokens, or ""."""
        tokens, usd, cost = self.budget_tokens, self.budget_usd, self.cost_usd
        if tokens is not None and self.usage.tokens >= tokens:
            return "tokens"
        return "usd" if usd is not None and cost is not None and cost >= usd else ""


def agent_standing(
    connection: Connection, run_id: str, options: Mapping[str, Any], began: Mapping[str, Any]
) -> AgentStanding | None:
    """How a run's conversations stand; None for a run without an agent. ``options``: the run's as
    recorded; ``began``: what its latest start or resume recorded."""
    recorded = options.get("agent")
    if recorded is None:
        return None
    budgets = {k: began.get(k, recorded[k]) for k in ("budget_usd", "budget_tokens")}
    settings = config.settings_of({**recorded, **budgets}, {})
    found = tuple(briefs(connection, run_id, settings.prices))
    return AgentStanding(
        model=settings.model,
        rehearsal=settings.rehearsal or any(each.rehearsal for each in found),
        budget_usd=settings.budget_usd,
        budget_tokens=settings.budget_tokens,
        calls=sum(each.calls for each in found),
        usage=sum((each.usage for each in found), start=Usage()),
        cost_usd=_sum([each.cost_usd for each in found]),
        sessions=found,
        ended=_ended(connection, run_id),
    )


def prices_of(options: Mapping[str, Any]) -> Mapping[str, Price]:
    """Prices that a run was started with, by model."""
    recorded = options.get("agent")
    return config.settings_of(recorded, {}).prices if recorded is not None else {}


def briefs(connection: Connection, run_id: str, prices: Mapping[str, Price]) -> list[SessionBrief]:
    """A run's conversations in order of their beginning."""
    calls = _calls(connection, run_id)
    answers = _answers(connection, run_id)
    submitted = _submitted(connection, run_id)
    own: dict[str, Mapping[str, Any]] = {
        each["id"]: {str(key): value for key, value in each.items()}
        for each in connection.execute(
            select(SessionRow, SessionEndRow.reason, SessionEndRow.message)
            .outerjoin(SessionEndRow, SessionEndRow.session_id == SessionRow.id)
            .where(SessionRow.run_id == run_id)
        ).mappings()
    }
    found = []
    for name in conversations.session_ids(connection, run_id):
        row: Mapping[str, Any] = own.get(name, {})
        got = answers.get(name, [])
        count, turns, first_at = calls.get(name, (0, 0, ""))
        submissions, accepted = submitted.get(name, (0, 0))
        model = row.get("model") or next((each.model for each in got if each.model), "")
        costs = [price_usd(each.usage, prices.get(row.get("model") or each.model)) for each in got]
        played = json.loads(row.get("facts", "{}")).get("rehearsal") is True
        brief = SessionBrief(
            id=name,
            run_id=run_id,
            task=row.get("task", ""),
            ordinal=row.get("ordinal"),
            parent=row.get("parent", ""),
            model=model,
            started_at=row.get("started_at") or first_at,
            turns=turns or (0 if row else count),
            calls=count,
            answers=len(got),
            submissions=submissions,
            accepted=accepted,
            usage=sum((each.usage for each in got), start=Usage()),
            cost_usd=_sum(costs),
            rehearsal=played or any(each.scripted for each in got),
            end=row.get("reason"),
            end_message=row.get("message") or "",
        )
        found.append(brief)
    return found


def brief(
    connection: Connection, run_id: str, session_id: str, prices: Mapping[str, Price]
) -> SessionBrief:
    """One of :func:`briefs`."""
    return next(each for each in briefs(connection, run_id, prices) if each.id == session_id)


def price_usd(usage: Usage, price: Price | None) -> Decimal | None:
    """What one answer cost; nothing for an answer without tokens; None without a price."""
    if not usage.tokens:
        return Decimal(0)
    return None if price is None else cost_usd(usage, price)


def _ended(connection: Connection, run_id: str) -> str:
    kinds = ("started", "resumed", "agent_ended")
    row = connection.execute(
        select(Event.kind, Event.payload)
        .where(Event.run_id == run_id, Event.kind.in_(kinds))
        .order_by(Event.step.desc())
        .limit(1)
    ).one()
    return str(json.loads(row.payload)["error"]) if row.kind == "agent_ended" else ""


def _sum(costs: Sequence[Decimal | None]) -> Decimal | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known, start=Decimal(0)) if len(known) == len(costs) else None


def _calls(connection: Connection, run_id: str) -> dict[str, tuple[int, int, str]]:
    """Session -> (calls, turns, time of the first)."""
    rows = connection.execute(
        select(
            ModelCall.session_id,
            func.count(),
            func.count(ModelCall.turn.distinct()),
            func.min(ModelCall.sent_at),
        )
        .where(ModelCall.run_id == run_id)
        .group_by(ModelCall.session_id)
    )
    return {name: (count, turns, first_at) for name, count, turns, first_at in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What an answer says of itself. ``scripted``: the rehearsal's server gave it."""

    model: str
    usage: Usage
    scripted: bool


def _answers(connection: Connection, run_id: str) -> dict[str, list[_Told]]:
    """Session -> what its answers say."""
    rows = connection.execute(
        select(ModelCall.session_id, ModelAnswer)
        .join(ModelCall, ModelCall.id == ModelAnswer.call_id)
        .where(ModelCall.run_id == run_id)
        .order_by(ModelAnswer.step)
    ).mappings()
    found: dict[str, list[_Told]] = {}
    for row in rows:
        told = _Told(
            model=row["model"],
            usage=conversations.usage_of(row),
            scripted=row["model"] == SCRIPTED_MODEL or _has_header(row["headers"], SCRIPTED_HEADER),
        )
        found.setdefault(row["session_id"], []).append(told)
    return found


def _has_header(headers: str, wanted: str) -> bool:
    """Whether it is among recorded ones, JSON text that is read only where the word occurs."""
    return wanted in headers and any(name == wanted for name, _ in json.loads(headers))


def _submitted(connection: Connection, run_id: str) -> dict[str, tuple[int, int]]:
    """Session -> (candidates it put on record, of them accepted)."""
    rows = connection.execute(
        select(
            Submission.session_id,
            func.count(),
            func.count(VerdictRow.status).filter(VerdictRow.status == "ACCEPTED"),
        )
        .join(SessionRow, SessionRow.id == Submission.session_id)
        .outerjoin(VerdictRow, VerdictRow.record == Submission.record)
        .where(SessionRow.run_id == run_id)
        .group_by(Submission.session_id)
    )
    return {name: (count, accepted) for name, count, accepted in rows}


def submissions(connection: Connection, session_id: str) -> list[dict[str, Any]]:
    """Candidates that a conversation put on record, in order: ``candidate`` (id),
    ``tool_use_id``, ``status`` (None: it waits for its verdict)."""
    rows = connection.execute(
        select(CandidateRow.id.label("candidate"), Submission.tool_use_id, VerdictRow.status)
        .join(CandidateRow, CandidateRow.record == Submission.record)
        .outerjoin(VerdictRow, VerdictRow.record == Submission.record)
        .where(Submission.session_id == session_id)
        .order_by(CandidateRow.step)
    ).mappings()
    return [{str(name): value for name, value in row.items()} for row in rows]
