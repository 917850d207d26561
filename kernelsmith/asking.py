"""What a run is asked to do: by a command, or, when it is taken up again, by its own record."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith import config
from kernelsmith.errors import InputError
from kernelsmith.model import AgentSettings, Task
from kernelsmith.wiring import proposer_names

if TYPE_CHECKING:
    from kernelsmith import loop
    from kernelsmith.lineage.past import Before
    from kernelsmith.lineage.standings import RunStanding


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a run is asked to do. ``first``: a candidate of the database or a file to start from
    (it is judged first); ``parent``: what the file ``first`` is a person's rewrite of, a candidate
    of the database or "seed"; ``merged``: all candidates of the database that the file is a merge
    of, ``parent`` the first; ``again``: ``first`` is a candidate of the database, and it is judged
    anew as what it was; ``seed``: the proposer's, None draws one; ``agent``: how the agent
    talks to its model and what it may spend, where the proposer names it."""

    tasks: tuple[str, ...]
    proposer: str
    device: str
    sandbox: str
    time_limit_s: float
    max_candidates: int | None
    seed: int | None
    first: str | None
    task_folders: tuple[Path, ...]
    db: Path
    agent: AgentSettings | None = None
    parent: str | None = None
    merged: tuple[str, ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class More:
    """What a resumed run is given on top of what is on record; None: what was left holds."""

    time_limit_s: float | None = None
    max_candidates: int | None = None
    budget_usd: Decimal | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """One file to judge."""

    file: Path
    task: str
    device: str
    sandbox: str
    task_folders: tuple[Path, ...]


def options_of(request: Request) -> dict[str, Any]:
    """The options as they are recorded with the run."""
    options: dict[str, Any] = {
        "time_limit_s": request.time_limit_s,
        "max_candidates": request.max_candidates,
        "sandbox": request.sandbox,
        "first": request.first,
        "parent": request.parent,
        "task_folders": [str(folder.absolute()) for folder in request.task_folders],
    }
    if request.agent is not None:
        agent = request.agent
        used = {agent.model: agent.price} if agent.price is not None else {}
        options["agent"] = replace(agent, prices=used)
    return options


def is_trusted(request: Request, tasks: tuple[Task, ...]) -> bool:
    """Whether all sources come from shipped seeds by hand of the search."""
    shipped = request.first is None and all(task.shipped for task in tasks)
    return shipped and "agent" not in proposer_names(request.proposer)


def endpoint_of(proposer: str, agent: AgentSettings | None) -> config.Endpoint | None:
    """The model server, before anything else is done; None where no model or only a rehearsal's
    is called.

    Raises:
        InputError: there is no such proposer.
        MissingError: no key.
    """
    if "agent" not in proposer_names(proposer) or (agent is not None and agent.rehearsal):
        return None
    return config.endpoint()


def request_again(db: Path, row: Mapping[str, Any], standing: "RunStanding", more: More) -> Request:
    """What the run was asked to do, from its own row."""
    options = row["options"]
    return Request(
        tasks=tuple(row["seeds"]),
        proposer=row["proposer"],
        device=row["device"],
        sandbox=options["sandbox"],
        time_limit_s=options["time_limit_s"],
        max_candidates=options["max_candidates"],
        seed=row["seed"],
        first=options["first"],  # judged already, but its origin still decides the wall
        task_folders=tuple(Path(folder) for folder in options["task_folders"]),
        db=db,
        parent=options.get("parent"),
        agent=_agent_again(options.get("agent"), standing, more),
    )


def _agent_again(
    recorded: Mapping[str, Any] | None, standing: "RunStanding", more: More
) -> AgentSettings | None:
    """The agent's settings on record, its budgets as last set, or as much more as is given now on
    top of what was spent."""
    if recorded is None:
        if more.budget_usd is not None or more.budget_tokens is not None:
            raise InputError("this run has no agent: it spends nothing", hint="leave budgets out")
        return None
    began, spent = standing.began, standing.agent
    budgets = {name: began.get(name, recorded[name]) for name in ("budget_usd", "budget_tokens")}
    settings = config.settings_of({**recorded, **budgets}, {})
    usd, tokens = settings.budget_usd, settings.budget_tokens
    if more.budget_usd is not None:
        usd = more.budget_usd + ((spent and spent.cost_usd) or Decimal(0))
    if more.budget_tokens is not None:
        tokens = more.budget_tokens + (spent.usage.tokens if spent else 0)
    return replace(settings, budget_usd=usd, budget_tokens=tokens)


def budget_again(
    request: Request, began: Mapping[str, Any], before: "Before", more: More
) -> "loop.Budget":
    """When the run is to stop, by what was last set and what is given on top of it."""
    from kernelsmith import loop

    judged = sum(each.judged for each in before.tasks.values())
    limit_s = began.get("time_limit_s", request.time_limit_s)
    count = began.get("max_candidates", request.max_candidates)
    return loop.Budget(
        time_limit_s=limit_s if more.time_limit_s is None else before.elapsed_s + more.time_limit_s,
        max_candidates=count if more.max_candidates is None else judged + more.max_candidates,
    )
