"""How runs are shown: state, table, JSON fields."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.cli import printing
from kernelsmith.processes import is_alive

if TYPE_CHECKING:
    from kernelsmith.lineage.standings import RunStanding, TaskStanding


def state_of(run: "RunStanding") -> str:
    """ "running", "stopping", "finished", "interrupted" or "failed". A run whose process is gone
    without a word was killed: it is "interrupted"; on another machine it counts as running."""
    if run.last in ("finished", "interrupted", "failed"):
        return run.last
    if is_alive(run.began["process"]) is False:
        return "interrupted"
    return "stopping" if run.stop_requested else "running"


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
    """The table at a run's end and the next commands to type, on stdout. ``db``: the file, where
    the user named it as an option and must again."""
    console = printing.out()
    state = state_of(run)
    console.print(f"run {run.id}  {state} after {printing.duration(run.elapsed_s)}", markup=False)
    header = ("task", "judged", "accepted", "incumbent", "gain over seed", "96 % interval")
    for line in printing.aligned([header, *(row(task) for task in run.tasks)], (1, 2, 4)):
        console.print(line, markup=False)
    for task in run.tasks:
        console.print(f"{task.task}: {task_line(task, run.device)}", markup=False)
    lines = next_commands(run, state)
    where = printing.named_database(db)
    if lines:
        console.print("next:")
    for line in lines:
        console.print(f"  {line}{where}", markup=False)


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


def next_commands(run: "RunStanding", state: str) -> list[str]:
    """Commands to type next, with real ids."""
    lines = []
    for task in run.tasks:
        if task.incumbent != task.seed:
            lines += [f"kernelsmith show {task.incumbent}", f"kernelsmith diff {task.incumbent}"]
    if state in ("interrupted", "failed"):
        lines.append(f"kernelsmith resume {run.id}")
    elif not lines:
        lines.append(f"kernelsmith show {run.id}")
    return lines
