"""Starts a run or takes one up again: everything built, its start on record, all closed after."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith import assembly, config, continuity
from kernelsmith.asking import (
    More,
    Request,
    Single,
    budget_again,
    endpoint_of,
    is_trusted,
    options_of,
    request_again,
)
from kernelsmith.assembly import Parts
from kernelsmith.errors import InputError
from kernelsmith.lineage.past import PERSON
from kernelsmith.model import Candidate, Task, Verdict, new_candidate, seed_candidate
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Proposer
from kernelsmith.wiring import ProposerParts, Wiring, read_source, versions

if TYPE_CHECKING:
    from kernelsmith import loop
    from kernelsmith.interrupts import Interrupts
    from kernelsmith.lineage.past import Before
    from kernelsmith.lineage.store import LineageStore
    from kernelsmith.pausing import Keeper

__all__ = ["More", "Request", "Single", "judge_file", "new_run", "resumed_run"]


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
    from kernelsmith.lineage.database import RUN_PATIENCE_S, Patience
    from kernelsmith.lineage.store import open_store

    pauses = Pauses()
    started_s = pauses.clock()
    seed = secrets.randbelow(1 << 31) if request.seed is None else request.seed
    secret_seed = secrets.randbits(128)
    endpoint = endpoint_of(request.proposer, request.agent)
    tasks = assembly.load_tasks(wiring, request.tasks, request.device, request.task_folders)
    with ExitStack() as stack:
        store = open_store(request.db, patience=Patience(seconds=RUN_PATIENCE_S, notice=notice))
        stack.callback(store.close)
        store.database.require_writable()  # before the proof, not after it
        first, before = _beginning(wiring, store, request, tasks)
        device = wiring.device(wiring.device_name(request.device))
        parts = assembly.build(
            wiring,
            tasks,
            device,
            request.sandbox,
            is_trusted(request, tasks),
            secret_seed,
            stack,
            interrupts,
            notice,
            pauses,
        )
        run_id = store.append("", "run", _begun(wiring, request, parts, seed, secret_seed))
        store.append(run_id, "proved", {"proofs": parts.proofs})
        budget = loop.Budget(
            time_limit_s=request.time_limit_s, max_candidates=request.max_candidates
        )
        proposer = stack.enter_context(
            wiring.proposer(_proposer_parts(request, parts, run_id, seed, endpoint, wiring))
        )
        setup = _setup(
            wiring, run_id, parts, proposer, store, budget, before, first, interrupts, started_s
        )
        with _keeper(setup, parts, request.db, notice).keeping():
            yield setup


@contextmanager
def resumed_run(
    wiring: Wiring,
    db: Path,
    prefix: str,
    more: More,
    interrupts: "Interrupts",
    notice: Callable[[str], None],
) -> "Iterator[loop.Setup]":
    """Everything to go on with a run where its record ends. ``more`` is counted from here; without
    it what was left of the run's own budget holds.

    Raises:
        InputError: it is running; it is finished and no more is given; another seed or epoch.
    """
    from kernelsmith.lineage import queries, standings
    from kernelsmith.lineage.database import RUN_PATIENCE_S, Patience
    from kernelsmith.lineage.definitions import definition
    from kernelsmith.lineage.store import open_existing

    pauses = Pauses()
    started_s = pauses.clock()
    with ExitStack() as stack:
        store = open_existing(db, Patience(seconds=RUN_PATIENCE_S, notice=notice))
        stack.callback(store.close)
        with store.database.reading() as connection:
            run_id = queries.find_run(connection, prefix)
            row = queries.run_row(connection, run_id)
            standing = standings.run_standing(connection, run_id)
            before = standings.before(connection, run_id)
            judged_by = {
                name: definition(connection, row["options"], name) for name in row["seeds"]
            }
        continuity.require_resumable(standing, more != More())
        request = request_again(db, row, standing, more)
        if request.agent is not None and request.agent.rehearsal:
            from kernelsmith.rehearsal import LABEL

            notice(f"REHEARSAL: {LABEL}. What the gate measures is real.")
        endpoint = endpoint_of(request.proposer, request.agent)
        tasks = assembly.load_tasks(wiring, request.tasks, request.device, request.task_folders)
        continuity.require_same_seeds(tasks, row["seeds"])
        continuity.require_same_definitions(tasks, judged_by)
        secret = int(row["secret_seed"])
        device = wiring.device(wiring.device_name(request.device))
        continuity.require_same_epoch(tasks, device, row)
        store.database.require_writable()
        trusted = is_trusted(request, tasks)
        parts = assembly.build(
            wiring,
            tasks,
            device,
            request.sandbox,
            trusted,
            secret,
            stack,
            interrupts,
            notice,
            pauses,
        )
        budget = budget_again(request, standing.began, before, more)
        store.append(run_id, "resumed", _taken_up(request, parts, before, budget))
        proposer = stack.enter_context(
            wiring.proposer(_proposer_parts(request, parts, run_id, row["seed"], endpoint, wiring))
        )
        setup = _setup(
            wiring, run_id, parts, proposer, store, budget, before, {}, interrupts, started_s
        )
        with _keeper(setup, parts, db, notice).keeping():
            yield setup


def _begun(
    wiring: Wiring, request: Request, parts: Parts, seed: int, secret_seed: int
) -> dict[str, Any]:
    """What the record says of a new run: by whom, of what and with what."""
    from kernelsmith.processes import this_process

    seeds = [seed_candidate(task) for task in parts.tasks]
    epochs = continuity.epochs(parts.tasks, parts.device)
    return {
        "proposer": request.proposer,
        "seed": seed,
        "secret_seed": secret_seed,
        "device": parts.device.name,
        "device_facts": parts.device.describe(),
        "sandbox": parts.sandbox.describe(),
        "versions": versions(),
        "options": {**options_of(request), "epochs": epochs},
        "definitions": parts.tasks,
        "seeds": seeds,
        "normal_hashes": [wiring.normal_hash(each.source) for each in seeds],
        "process": this_process(),
    }


def _taken_up(
    request: Request, parts: Parts, before: "Before", budget: "loop.Budget"
) -> dict[str, Any]:
    """What the record says of a run that goes on: by whom, with what, and what it may still use."""
    from kernelsmith.processes import this_process

    facts: dict[str, Any] = {
        "process": this_process(),
        "elapsed_s": before.elapsed_s,
        "proofs": parts.proofs,
        "sandbox": parts.sandbox.describe(),
        "versions": versions(),
        "time_limit_s": budget.time_limit_s,
        "max_candidates": budget.max_candidates,
    }
    if request.agent is not None:
        facts["budget_usd"] = request.agent.budget_usd
        facts["budget_tokens"] = request.agent.budget_tokens
    return facts


def judge_file(wiring: Wiring, single: Single) -> Verdict:
    """Judges one file against its task's seed, with fresh secrets and without a record.

    Raises:
        InputError: the file or the task is wrong.
    """
    source = read_source(single.file)
    (task,) = assembly.load_tasks(wiring, (single.task,), single.device, single.task_folders)
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


def _beginning(
    wiring: Wiring, store: "LineageStore", request: Request, tasks: tuple[Task, ...]
) -> "tuple[dict[str, Candidate], Before]":
    """What a new run judges first, and what it must count as having been before it: what people
    send in by hand is one series, however many runs it makes."""
    from kernelsmith.lineage import standings
    from kernelsmith.lineage.past import Before

    if request.proposer != PERSON:
        return assembly.first_candidates(store, request.first, tasks), Before()
    edited = request.parent is not None or request.again
    if request.first is None or not edited or len(tasks) != 1:
        raise InputError(
            "a person proposes one file", hint="`kernelsmith gate FILE --parent ID` judges it"
        )
    if request.again:
        first = assembly.recorded_candidate(store, wiring, request.first, tasks[0])
    else:
        first = assembly.edited_candidate(
            store, wiring, Path(request.first), request.parent or "", tasks[0], request.merged
        )
    with store.database.reading() as connection:
        confirms = standings.confirms_by_hand(connection, tasks[0].name)
    return first, Before(confirms=confirms)


def _setup(
    wiring: Wiring,
    run_id: str,
    parts: Parts,
    proposer: Proposer,
    store: "LineageStore",
    budget: "loop.Budget",
    before: "Before",
    first: Mapping[str, Candidate],
    interrupts: "Interrupts",
    started_s: float,
) -> "loop.Setup":
    from kernelsmith import loop

    return loop.Setup(
        run_id=run_id,
        tasks=parts.tasks,
        seeds={task.name: seed_candidate(task) for task in parts.tasks},
        proposer=proposer,
        judges=parts.judges,
        store=store,
        normal_hash=wiring.normal_hash,
        budget=budget,
        before=before,
        first=first,
        interrupts=interrupts,
        started_s=started_s,
        clock=parts.pauses.clock,
        pauses=parts.pauses,
        shortage=assembly.rooms(store.database.path).shortage,
    )


def _keeper(setup: "loop.Setup", parts: Parts, db: Path, notice: Callable[[str], None]) -> "Keeper":
    """Who looks after the run's pauses."""
    from kernelsmith.lineage.pauses import open_book
    from kernelsmith.night import elapsed_s
    from kernelsmith.pausing import Keeper

    return Keeper(
        open_book=partial(open_book, db, setup.run_id),
        pauses=parts.pauses,
        sandbox=parts.sandbox,
        judges=parts.judges,
        interrupts=setup.interrupts,
        elapsed_s=partial(elapsed_s, setup),
        say=notice,
    )


def _proposer_parts(
    request: Request,
    parts: Parts,
    run_id: str,
    seed: int,
    endpoint: config.Endpoint | None,
    wiring: Wiring,
) -> ProposerParts:
    return ProposerParts(
        name=request.proposer,
        seed=seed,
        run_id=run_id,
        db=request.db,
        tasks=parts.tasks,
        judges=parts.judges,
        device_facts=parts.device.describe(),
        normal_hash=wiring.normal_hash,
        agent=request.agent,
        endpoint=endpoint,
        pauses=parts.pauses,
    )
