"""Starts a run or takes one up again: everything built, its start on record, all closed after."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.errors import InputError
from kernelsmith.model import Candidate, Task, Verdict, new_candidate, seed_candidate
from kernelsmith.ports import Device, Judge, Proposer, Sandbox
from kernelsmith.wiring import Wiring, read_source, versions

if TYPE_CHECKING:
    from kernelsmith import loop
    from kernelsmith.interrupts import Interrupts
    from kernelsmith.lineage.standings import RunStanding
    from kernelsmith.lineage.store import LineageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a run is asked to do. ``first``: a candidate of the database or a file to start from
    (it is judged first); ``seed``: the proposer's, None draws one."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """One file to judge."""

    file: Path
    task: str
    device: str
    sandbox: str
    task_folders: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The adapters of one run."""

    device: Device
    sandbox: Sandbox
    tasks: tuple[Task, ...]
    judges: Mapping[str, Judge]
    proposer: Proposer
    proofs: Mapping[str, Any]


@contextmanager
def new_run(
    wiring: Wiring,
    request: Request,
    interrupts: "Interrupts",
    notice: Callable[[str], None],
) -> "Iterator[loop.Setup]":
    """Everything for a new run; its start is on record. Closes all on the way out.

    Raises:
        InputError, MissingError, InfrastructureError: before anything is recorded.
        EvidenceError: the gate failed its own proof; nothing is recorded.
    """
    from kernelsmith import loop
    from kernelsmith.lineage.past import Before
    from kernelsmith.lineage.store import open_store
    from kernelsmith.processes import this_process

    started_s = time.monotonic()
    seed = secrets.randbelow(1 << 31) if request.seed is None else request.seed
    secret_seed = secrets.randbits(128)
    tasks = load_tasks(wiring, request.tasks, request.device, request.task_folders)
    with ExitStack() as stack:
        store = open_store(request.db)
        stack.callback(store.close)
        store.database.require_writable()  # before the proof, not after it
        first = _first(store, request.first, tasks)
        device = wiring.device(wiring.device_name(request.device))
        parts = _build(wiring, request, tasks, device, seed, secret_seed, stack, interrupts, notice)
        seeds = [seed_candidate(task) for task in tasks]
        run_id = store.append(
            "",
            "run",
            {
                "proposer": request.proposer,
                "seed": seed,
                "secret_seed": secret_seed,
                "device": parts.device.name,
                "device_facts": parts.device.describe(),
                "sandbox": parts.sandbox.describe(),
                "versions": versions(),
                "options": {**_options(request), "epochs": _epochs(tasks, device)},
                "seeds": seeds,
                "normal_hashes": [wiring.normal_hash(each.source) for each in seeds],
                "process": this_process(),
            },
        )
        store.append(run_id, "proved", {"proofs": parts.proofs})
        budget = loop.Budget(
            time_limit_s=request.time_limit_s, max_candidates=request.max_candidates
        )
        setup = _setup(wiring, run_id, parts, store, budget, interrupts, started_s)
        yield replace(setup, before=Before(), first=first)


@contextmanager
def resumed_run(
    wiring: Wiring,
    db: Path,
    prefix: str,
    more_s: float | None,
    more_candidates: int | None,
    interrupts: "Interrupts",
    notice: Callable[[str], None],
) -> "Iterator[loop.Setup]":
    """Everything to go on with a run where its record ends. ``more_s`` and ``more_candidates``
    are counted from here; without them what was left of the run's own budget holds.

    Raises:
        InputError: it is running; it is finished and no more is given; another seed or epoch.
    """
    from kernelsmith import loop
    from kernelsmith.lineage import queries, standings
    from kernelsmith.lineage.database import open_for_reading
    from kernelsmith.lineage.store import open_store
    from kernelsmith.processes import this_process

    started_s = time.monotonic()
    open_for_reading(db).close()  # never creates one
    with ExitStack() as stack:
        store = open_store(db)
        stack.callback(store.close)
        with store.database.reading() as connection:
            run_id = queries.find_run(connection, prefix)
            row = queries.run_row(connection, run_id)
            standing = standings.run_standing(connection, run_id)
            before = standings.before(connection, run_id)
        _require_resumable(standing, more_s, more_candidates)
        options = row["options"]
        request = Request(
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
        )
        tasks = load_tasks(wiring, request.tasks, request.device, request.task_folders)
        _require_same_seeds(tasks, row["seeds"])
        secret = int(row["secret_seed"])
        device = wiring.device(wiring.device_name(request.device))
        _require_same_epoch(tasks, device, row)
        store.database.require_writable()
        parts = _build(
            wiring, request, tasks, device, row["seed"], secret, stack, interrupts, notice
        )
        judged = sum(each.judged for each in before.tasks.values())
        limit_s = standing.began.get("time_limit_s", request.time_limit_s)
        count = standing.began.get("max_candidates", request.max_candidates)
        budget = loop.Budget(
            time_limit_s=limit_s if more_s is None else before.elapsed_s + more_s,
            max_candidates=count if more_candidates is None else judged + more_candidates,
        )
        facts = {"process": this_process(), "elapsed_s": before.elapsed_s, "proofs": parts.proofs}
        limits = {
            "time_limit_s": budget.time_limit_s,
            "max_candidates": budget.max_candidates,
            "versions": versions(),
        }
        store.append(run_id, "resumed", {**facts, **limits})
        setup = _setup(wiring, run_id, parts, store, budget, interrupts, started_s)
        yield replace(setup, before=before)


def judge_file(wiring: Wiring, single: Single) -> Verdict:
    """Judges one file against its task's seed, with fresh secrets and without a record.

    Raises:
        InputError: the file or the task is wrong.
    """
    source = read_source(single.file)
    (task,) = load_tasks(wiring, (single.task,), single.device, single.task_folders)
    seed = seed_candidate(task)
    candidate = new_candidate(
        source, task.name, author="person", parents=(seed.id,), note=single.file.name
    )
    with ExitStack() as stack:
        device = wiring.device(task.device)
        trusted = task.shipped and candidate.id == seed.id
        sandbox = wiring.sandbox(single.sandbox, trusted)
        stack.callback(sandbox.close)
        judge = wiring.judge(task, device, sandbox, secrets.randbits(128))
        stack.callback(judge.close)
        return judge.judge(candidate, seed, 0)


def load_tasks(
    wiring: Wiring, names: tuple[str, ...], device: str, folders: tuple[Path, ...]
) -> tuple[Task, ...]:
    """The tasks by name, each once.

    Raises:
        TaskError: one is not there or is wrong.
    """
    device_name = wiring.device_name(device)
    return tuple(wiring.load_task(name, device_name, folders) for name in dict.fromkeys(names))


def _build(
    wiring: Wiring,
    request: Request,
    tasks: tuple[Task, ...],
    device: Device,
    seed: int,
    secret_seed: int,
    stack: ExitStack,
    interrupts: "Interrupts",
    notice: Callable[[str], None],
) -> Parts:
    """Adapters, and the gate's proof of itself on each task."""
    proposer = wiring.proposer(request.proposer, seed)
    trusted = request.first is None and all(task.shipped for task in tasks)
    sandbox = wiring.sandbox(request.sandbox, trusted)
    stack.callback(sandbox.close)
    judges, proofs = {}, {}
    began_s = time.monotonic()
    for task in tasks:
        judge = wiring.judge(task, device, sandbox, secret_seed)
        stack.callback(judge.close)
        judges[task.name] = judge
        notice(f"the gate proves itself on {task.name} …")
        with interrupts.interruptible():
            proofs[task.name] = wiring.prove(judge)
    took_s = time.monotonic() - began_s
    notice(f"the gate proved itself in {took_s:.1f} s: {proof_line(proofs)}")
    return Parts(
        device=device,
        sandbox=sandbox,
        tasks=tasks,
        judges=judges,
        proposer=proposer,
        proofs=proofs,
    )


def proof_line(proofs: Mapping[str, Any]) -> str:
    """What a self-proof showed, over all tasks."""
    parts = []
    for kind in ("cheats", "mutants"):
        without = [task for task, proof in proofs.items() if kind in proof.get("unchecked", ())]
        if without:
            parts.append(f"{kind} of {', '.join(without)} unchecked")
        if len(without) == len(proofs):
            continue
        tried = sum(proof[kind]["tried"] for proof in proofs.values())
        rejected = sum(proof[kind]["rejected"] for proof in proofs.values())
        parts.append(f"{rejected} of {tried} {kind} rejected")
    return ", ".join([*parts, "the seed passes every bit check"])


def _setup(
    wiring: Wiring,
    run_id: str,
    parts: Parts,
    store: "LineageStore",
    budget: "loop.Budget",
    interrupts: "Interrupts",
    started_s: float,
) -> "loop.Setup":
    from kernelsmith import loop
    from kernelsmith.lineage.past import Before

    return loop.Setup(
        run_id=run_id,
        tasks=parts.tasks,
        seeds={task.name: seed_candidate(task) for task in parts.tasks},
        proposer=parts.proposer,
        judges=parts.judges,
        store=store,
        normal_hash=wiring.normal_hash,
        budget=budget,
        before=Before(),
        interrupts=interrupts,
        started_s=started_s,
    )


def _options(request: Request) -> dict[str, Any]:
    return {
        "time_limit_s": request.time_limit_s,
        "max_candidates": request.max_candidates,
        "sandbox": request.sandbox,
        "first": request.first,
        "task_folders": [str(folder.absolute()) for folder in request.task_folders],
    }


def _first(
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


def _require_resumable(
    standing: "RunStanding", more_s: float | None, more_candidates: int | None
) -> None:
    from kernelsmith.processes import is_alive

    ended = standing.last in ("finished", "interrupted", "failed")
    if not ended and is_alive(standing.began["process"]) is not False:
        process = standing.began["process"]
        raise InputError(
            f"run {standing.id} is running (process {process['pid']} on {process['host']})",
            hint=f"`kernelsmith stop {standing.id}` asks it to end",
        )
    if standing.last == "finished" and more_s is None and more_candidates is None:
        raise InputError(
            f"run {standing.id} is finished",
            hint=f"give it more: `kernelsmith resume {standing.id} --time-limit 1h`",
        )


def _require_same_seeds(tasks: tuple[Task, ...], seeds: Mapping[str, str]) -> None:
    for task in tasks:
        now = seed_candidate(task).id
        if now != seeds[task.name]:
            raise InputError(
                f"the seed of {task.name} has changed since the run began: "
                f"{now}, was {seeds[task.name]}",
                hint="start a new run, or restore the seed",
            )


def _epochs(tasks: tuple[Task, ...], device: Device) -> dict[str, str]:
    from kernelsmith.gate.epoch import epoch

    return {task.name: epoch(task, device.describe()) for task in tasks}


def _require_same_epoch(tasks: tuple[Task, ...], device: Device, row: Mapping[str, Any]) -> None:
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
    for task, epoch in _epochs(tasks, device).items():
        if epoch != recorded.get(task):
            raise InputError(
                f"this is not the epoch the run began in: {task} is in {epoch}, "
                f"was in {recorded.get(task)} (Triton or kernelsmith/lang.py changed)",
                hint=hint,
            )
