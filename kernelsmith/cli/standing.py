"""How runs are shown: state, table, JSON fields."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.cli import printing
from kernelsmith.cli.conversations import brief_fields, usage_fields
from kernelsmith.cli.transcript import REHEARSAL, dollars, end_words
from kernelsmith.processes import is_alive

if TYPE_CHECKING:
    from rich.console import Console

    from kernelsmith.lineage.spending import AgentStanding
    from kernelsmith.lineage.standings import RunStanding, TaskStanding


def state_of(run: "RunStanding") -> str:
    """ "running", "stopping", "pausing", "paused", "finished", "interrupted" or "failed". A run
    whose process is gone without a word was killed: it is "interrupted"; on another machine it
    counts as running."""
    if run.ended:
        return run.last
    if was_killed(run):
        return "interrupted"
    if run.pausing:
        return "pausing"
    if run.paused:  # asked to stop before, it does so after the thaw
        return "paused"
    return "stopping" if run.stop_requested else "running"


def is_over(run: "RunStanding") -> bool:
    """Whether nobody drives it any more."""
    return run.ended or was_killed(run)


def was_killed(run: "RunStanding") -> bool:
    """Whether its process is gone without a word."""
    return not run.ended and is_alive(run.began["process"]) is False


def run_fields(run: "RunStanding") -> dict[str, Any]:
    """A run in the JSON contract of ``runs``."""
    return {
        "id": run.id,
        "state": state_of(run),
        "started_at": run.started_at,
        "device": run.device,
        "proposer": run.proposer,
        "elapsed_s": run.elapsed_s,
        "reason": run.last_payload.get("reason") or run.last_payload.get("error"),
        "tasks": [_task_fields(task) for task in run.tasks],
        "agent": None if run.agent is None else _agent_fields(run.agent),
    }


def _agent_fields(agent: "AgentStanding") -> dict[str, Any]:
    return {
        "model": agent.model,
        "rehearsal": agent.rehearsal,
        "budget_usd": agent.budget_usd,
        "budget_tokens": agent.budget_tokens,
        "calls": agent.calls,
        "usage": usage_fields(agent.usage),
        "cost_usd": agent.cost_usd,
        "ended_early": agent.ended or None,
        "sessions": [brief_fields(each) for each in agent.sessions],
    }


def _task_fields(task: "TaskStanding") -> dict[str, Any]:
    return {
        "task": task.task,
        "judged": task.judged,
        "accepted": task.accepted,
        "incumbent": task.incumbent,
        "incumbent_is_seed": task.incumbent == task.seed,
        "gain": printing.gain_fields(task.gain),
        "statuses": dict(task.statuses),
        "duplicates": task.duplicates,
        "set_aside": task.set_aside,
        "waiting": task.waiting,
        "unchecked": list(task.unchecked),
        "unsupported": list(task.unsupported),
    }


def summary(run: "RunStanding", db: Path | None = None) -> None:
    """:func:`summary_lines` on stdout."""
    console = printing.out()
    for line in summary_lines(run, db):
        printing.say(console, line)


def summary_lines(
    run: "RunStanding", db: Path | None = None, more: Sequence[str] = ()
) -> list[str]:
    """The table at a run's end and the next commands to type. ``db``: the file, where the user
    named it as an option and must again; ``more``: what is said before the commands."""
    state = state_of(run)
    header = ("task", "judged", "accepted", "incumbent", "gain over seed", "96 % interval")
    lines = [
        f"run {run.id}  {state} after {printing.duration(run.elapsed_s)}",
        *printing.aligned([header, *(row(task) for task in run.tasks)], (1, 2, 4)),
        *(f"{task.task}: {task_line(task, run.device)}" for task in run.tasks),
    ]
    if run.agent is not None:
        lines.append(f"agent: {agent_line(run.agent)}")
    where = printing.named_database(db)
    commands = [f"  {line}{where}" for line in next_commands(run, state)]
    return [*lines, *more, *(["next:", *commands] if commands else [])]


def row(task: "TaskStanding") -> tuple[str, ...]:
    """A task's cells: name, counts, incumbent, final gain and interval."""
    stands = task.incumbent != task.seed
    gain, interval = "–", "–"
    if task.gain is not None:
        gain = printing.times(task.gain.geomean)
        interval = f"{task.gain.low:.3f}–{task.gain.high:.3f}"
    elif stands:
        gain = "not timed yet"
    incumbent = task.incumbent if stands else "seed"
    return (task.task, str(task.judged), str(task.accepted), incumbent, gain, interval)


def task_line(task: "TaskStanding", device: str) -> str:
    """What stands, what was not checked, what became of the rest."""
    parts = [f"accepted ({device})" if task.incumbent != task.seed else "the seed stands"]
    if task.unchecked:
        parts[0] += f", unchecked: {', '.join(task.unchecked)}"
    rejected = {k: v for k, v in sorted(task.statuses.items()) if k != "ACCEPTED"}
    if rejected:
        counts = ", ".join(f"{count} {status}" for status, count in rejected.items())
        parts.append(f"rejected: {counts}")
    for count, words in (
        (task.duplicates, "dropped as duplicates"),
        (task.set_aside, "set aside because the machine failed"),
        (task.waiting, "waiting for a verdict"),
        (len(task.unsupported), "accepted, then not confirmed against the seed"),
    ):
        if count:
            parts.append(f"{count} {words}")
    return "; ".join(parts)


def agent_line(agent: "AgentStanding") -> str:
    """What the conversations of a run came to, in one line; of a rehearsal, that it is one."""
    usd = agent.budget_usd
    limit = "" if usd is None else f" of ${usd:,.2f}" if usd >= 1 else f" of {dollars(usd)}"
    parts = [
        f"{printing.counted(len(agent.sessions), 'session')} with {agent.model}",
        printing.counted(agent.calls, "call"),
        printing.counted(agent.usage.tokens, "token"),
        f"{dollars(agent.cost_usd)}{limit}",
    ]
    if agent.spent_budget:
        parts.append("budget spent")
    if agent.ended:
        parts.append(f"ended early: {agent.ended}")
    label = f"  ({REHEARSAL})" if agent.rehearsal else ""
    return ", ".join(parts) + label


def show_sessions(console: "Console", agent: "AgentStanding") -> None:
    """The table of a run's conversations."""
    if not agent.sessions:
        return
    header = ("session", "task", "turns", "submitted", "accepted", "tokens", "spend", "end")
    rows = [
        (
            each.id,
            each.task,
            str(each.turns),
            str(each.submissions),
            str(each.accepted),
            f"{each.usage.tokens:,}",
            dollars(each.cost_usd),
            end_words(brief_fields(each)),
        )
        for each in agent.sessions
    ]
    printing.say(console)
    for line in printing.aligned([header, *rows], (2, 3, 4, 5, 6)):
        printing.say(console, line)


def next_commands(run: "RunStanding", state: str) -> list[str]:
    """Commands to type next, with real ids."""
    lines = []
    for task in run.tasks:
        if task.incumbent != task.seed:
            lines += [f"kernelsmith show {task.incumbent}", f"kernelsmith diff {task.incumbent}"]
    if any(task.gain is not None for task in run.tasks):
        lines.append(f"kernelsmith review {run.id}")
    if run.agent is not None and run.agent.sessions:
        best = max(run.agent.sessions, key=lambda each: each.accepted)
        lines.append(f"kernelsmith show {best.id}")
    if state in ("interrupted", "failed") or run.last == "paused":
        lines.append(f"kernelsmith resume {run.id}")
    elif run.agent is not None and (kind := run.agent.spent_budget):
        lines.append(f"kernelsmith resume {run.id} --budget-{kind} MORE")
    elif run.agent is not None and run.agent.ended:
        lines.append(f"kernelsmith resume {run.id} --time-limit MORE")
    elif not lines:
        lines.append(f"kernelsmith show {run.id}")
    return lines
