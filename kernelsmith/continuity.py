"""What must still hold when a run is taken up again: nobody runs it, same tasks, same epoch."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kernelsmith.errors import InputError
from kernelsmith.model import Task, seed_candidate
from kernelsmith.ports import Device

if TYPE_CHECKING:
    from kernelsmith.lineage.standings import RunStanding


def require_resumable(standing: "RunStanding", more: bool) -> None:
    """Refuses what must not go on.

    Raises:
        InputError: it is running, or finished and no ``more`` is given.
    """
    from kernelsmith.processes import is_alive

    if not standing.ended and is_alive(standing.began["process"]) is not False:
        process = standing.began["process"]
        state, command = ("paused", "thaw") if standing.paused else ("running", "stop")
        does = "lets it go on" if standing.paused else "asks it to end"
        raise InputError(
            f"run {standing.id} is {state} (process {process['pid']} on {process['host']})",
            hint=f"`kernelsmith {command} {standing.id}` {does}",
        )
    if standing.last == "finished" and not more:
        raise InputError(
            f"run {standing.id} is finished",
            hint=f"give it more: `kernelsmith resume {standing.id} {_more_of(standing)}`",
        )


def _more_of(standing: "RunStanding") -> str:
    """The options that give a finished run more of what ended it."""
    spent = "" if standing.agent is None else standing.agent.spent_budget
    more = {"usd": ["--budget-usd 5"], "tokens": ["--budget-tokens 1000000"]}.get(spent, [])
    reason = standing.last_payload.get("reason")
    if reason == "candidates":
        more.append("--max-candidates 100")
    elif reason == "time" or not more:
        more.append("--time-limit 1h")
    return " ".join(more)


def require_same_seeds(tasks: tuple[Task, ...], seeds: Mapping[str, str]) -> None:
    """Refuses another seed than the run began with.

    Raises:
        InputError: a seed has changed.
    """
    for task in tasks:
        now = seed_candidate(task).id
        if now != seeds[task.name]:
            raise InputError(
                f"the seed of {task.name} has changed since the run began: "
                f"{now}, was {seeds[task.name]}",
                hint="start a new run, or restore the seed",
            )


def require_same_definitions(tasks: tuple[Task, ...], recorded: Mapping[str, Task | None]) -> None:
    """Refuses other cases, ranges or limits than the run began with: its verdicts would no longer
    mean the same. A run of a version that kept no definitions passes.

    Raises:
        InputError: a definition has changed; names its first field that did.
    """
    for task in tasks:
        then = recorded.get(task.name)
        if then is None:
            continue
        for field in fields(task):
            decides = field.name not in ("summary", "shipped")
            if decides and getattr(task, field.name) != getattr(then, field.name):
                raise InputError(
                    f"the task {task.name} has changed since the run began: its {field.name}",
                    hint="start a new run, or restore the task's file",
                )


def epochs(tasks: tuple[Task, ...], device: Device) -> dict[str, str]:
    """Each task's epoch on this device."""
    from kernelsmith.gate.epoch import epoch

    return {task.name: epoch(task, device.describe()) for task in tasks}


def require_same_epoch(tasks: tuple[Task, ...], device: Device, row: Mapping[str, Any]) -> None:
    """``row``: the run as recorded. The device's facts are compared first: they can be named."""
    from kernelsmith.lineage.records import plain

    hint = "bits are comparable within one epoch only: start a new run"
    now, then = plain(device.describe()), row["device_facts"]
    differ = sorted(k for k in {*now, *then} if now.get(k) != then.get(k))
    if differ:
        name = differ[0]
        raise InputError(
            f"this is not the epoch the run began in: {name} is {now.get(name)!r}, "
            f"was {then.get(name)!r}",
            hint=hint,
        )
    recorded = row["options"].get("epochs", {})
    for task, epoch in epochs(tasks, device).items():
        if epoch != recorded.get(task):
            raise InputError(
                f"this is not the epoch the run began in: {task} is in {epoch}, "
                f"was in {recorded.get(task)} (Triton or kernelsmith/lang.py changed)",
                hint=hint,
            )
