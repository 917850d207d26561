"""The adapters of a run: tasks, device, sandbox and gates, the gates proved."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith import proving
from kernelsmith.errors import InputError
from kernelsmith.lineage.past import PERSON
from kernelsmith.model import Candidate, Task, new_candidate, seed_candidate
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Device, Judge, Sandbox
from kernelsmith.wiring import Wiring, read_source

if TYPE_CHECKING:
    from kernelsmith.interrupts import Interrupts
    from kernelsmith.lineage.store import LineageStore
    from kernelsmith.watch.room import Rooms


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The adapters of one run."""

    device: Device
    sandbox: Sandbox
    tasks: tuple[Task, ...]
    judges: Mapping[str, Judge]
    proofs: Mapping[str, Any]
    pauses: Pauses


def load_tasks(
    wiring: Wiring, names: tuple[str, ...], device: str, folders: tuple[Path, ...]
) -> tuple[Task, ...]:
    """The tasks by name, each once.

    Raises:
        TaskError: one is not there or is wrong.
    """
    device_name = wiring.device_name(device)
    return tuple(wiring.load_task(name, device_name, folders) for name in dict.fromkeys(names))


def build(
    wiring: Wiring,
    tasks: tuple[Task, ...],
    device: Device,
    sandbox_name: str,
    trusted: bool,
    secret_seed: int,
    stack: ExitStack,
    interrupts: "Interrupts",
    notice: Callable[[str], None],
    pauses: Pauses,
) -> Parts:
    """Sandbox and gates, and the gates' proof of themselves on each task.

    Args:
        trusted: every source that will run comes from a shipped seed, by hand of the search.
        pauses: the run's.

    Raises:
        EvidenceError: a gate failed its own proof.
    """
    sandbox = wiring.sandbox(sandbox_name, trusted)
    stack.callback(sandbox.close)
    judges = {}
    began_s = time.monotonic()
    for task in tasks:
        judges[task.name] = wiring.judge(task, device, sandbox, secret_seed, pauses)
        stack.callback(judges[task.name].close)
    notice(f"the gate proves itself on {', '.join(judges)} …")
    with interrupts.interruptible():
        proofs = proving.prove_all(wiring.prove, judges)
    took_s = time.monotonic() - began_s
    notice(f"the gate proved itself in {took_s:.1f} s: {proving.proof_line(proofs)}")
    return Parts(
        device=device,
        sandbox=sandbox,
        tasks=tasks,
        judges=judges,
        proofs=proofs,
        pauses=pauses,
    )


def rooms(db: Path) -> "Rooms":
    """Where a run with this record needs room."""
    from kernelsmith.sandbox.spool import default_parents
    from kernelsmith.watch.room import Rooms

    return Rooms(database=db.expanduser().absolute().parent, spool=default_parents()[0])


def first_candidates(
    store: "LineageStore", name: str | None, tasks: tuple[Task, ...]
) -> dict[str, Candidate]:
    """The candidate of ``--from``: of the database by id, else a file for the one task."""
    if name is None:
        return {}
    from kernelsmith.lineage import queries

    if Path(name).is_file():
        if len(tasks) != 1:
            raise InputError("--from FILE needs a run of one task", hint="run the tasks apart")
        source = read_source(Path(name))
        author, task, note = "person", tasks[0].name, f"from {Path(name).name}"
    else:
        with store.database.reading() as connection:
            record = queries.find_candidate(connection, name)
            found = queries.load_candidate(connection, record)
        source, author, task = found.source, found.author, found.task
        note = f"from candidate {found.id} of an earlier run"
    chosen = next((each for each in tasks if each.name == task), None)
    if chosen is None:
        raise InputError(f"--from {name} is of task {task}, which this run does not have")
    parent = seed_candidate(chosen).id
    return {task: new_candidate(source, task, author=author, parents=(parent,), note=note)}


def recorded_candidate(
    store: "LineageStore", wiring: Wiring, name: str, task: Task
) -> dict[str, Candidate]:
    """A candidate on record, to be judged anew: the same source by the same author, of the same
    parents.

    Raises:
        InputError: there is no such candidate, it is of another task, or a seed.
    """
    from kernelsmith.lineage import queries

    with store.database.reading() as connection:
        record = queries.find_candidate(connection, name)
        found = queries.load_candidate(connection, record)
        run_id, _ = queries.place_of(connection, record)
    _require_task(found, task)
    if wiring.normal_hash(found.source) == wiring.normal_hash(task.seed_source):
        raise InputError(
            f"candidate {found.id} is the seed's own program: there is nothing to judge",
            hint="name a rewrite of it",
        )
    note = f"judged again, first in run {run_id}" + (f"\n{found.note}" if found.note else "")
    return {task.name: replace(found, note=note, origin="")}


def _require_task(found: Candidate, task: Task) -> None:
    if found.task != task.name:
        raise InputError(
            f"candidate {found.id} is of task {found.task}, not {task.name}",
            hint=f"leave --task out, or name {found.task}",
        )


def edited_candidate(
    store: "LineageStore",
    wiring: Wiring,
    file: Path,
    parent: str,
    task: Task,
    merged: tuple[str, ...] = (),
) -> dict[str, Candidate]:
    """A file that a person wrote, as the rewrite of a candidate on record or of the seed.

    Args:
        parent: a candidate's id, its beginning, or "seed".
        merged: ids of candidates on record that the file is a merge of: its parents then.

    Raises:
        InputError: the file changes nothing, or the parent is of another task.
    """
    from kernelsmith.lineage import queries

    source, seed = read_source(file), seed_candidate(task)
    origin = seed
    if parent != "seed":
        with store.database.reading() as connection:
            origin = queries.load_candidate(connection, queries.find_candidate(connection, parent))
    _require_task(origin, task)
    if wiring.normal_hash(source) == wiring.normal_hash(seed.source):
        raise InputError(
            f"{file} is the seed's own program: there is nothing to judge",
            hint="spacing and comments alone make no other program",
        )
    note = f"merged from {', '.join(merged)}" if merged else f"edited by hand: {file.name}"
    found = new_candidate(
        source, task.name, author=PERSON, parents=merged or (origin.id,), note=note
    )
    if found.id == origin.id:
        raise InputError(
            f"{file} is candidate {origin.id} itself: nothing was edited",
            hint=f"`kernelsmith gate --again {origin.id}` judges it anew",
        )
    return {task.name: found}
