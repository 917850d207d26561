"""What a run's loop holds, what it counts, what it tells."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kernelsmith.interrupts import Interrupts
from kernelsmith.lane import Lane, Progress
from kernelsmith.lineage.past import Before
from kernelsmith.model import Candidate, Task, Verdict
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Judge, Proposer, Store
from kernelsmith.watch.patience import Patience


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When to stop: active seconds of the run, the final timing included; judged candidates."""

    time_limit_s: float
    max_candidates: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One event for display. ``kind``: "waiting", "proposed", "judged", "duplicate", "set_aside",
    "agent_ended", "retiming", "retimed", "exploring_done", "notice" (``note`` says it all).
    ``standing``: the proposer's own line."""

    kind: str
    task: str
    elapsed_s: float
    left_s: float
    tasks: tuple[Progress, ...]
    candidate: Candidate | None = None
    verdict: Verdict | None = None
    note: str = ""
    standing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that a run needs. ``seeds``: each task's seed as a candidate; ``first``: candidates to
    judge before any proposal (``--from``); ``started_s``: the clock when the command began;
    ``shortage``: what there is too little room of for another candidate, "" if there is enough."""

    run_id: str
    tasks: tuple[Task, ...]
    seeds: Mapping[str, Candidate]
    proposer: Proposer
    judges: Mapping[str, Judge]
    store: Store
    normal_hash: Callable[[str], str]
    budget: Budget
    before: Before
    interrupts: Interrupts
    started_s: float
    report: Callable[[Happening], None] = lambda happening: None
    first: Mapping[str, Candidate] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    pauses: Pauses = field(default_factory=Pauses)
    sleep: Callable[[float], None] = time.sleep
    shortage: Callable[[], str] = lambda: ""


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts over all tasks of the run. ``short`` of room now; ``told`` of slowed sessions;
    ``waited_s``: for the machine, in the middle of a judgement."""

    confirms: int
    agent_ended: str = ""
    short: str = ""
    told: bool = False
    waited_s: float = 0.0
    patience: Patience = field(default_factory=Patience)


def elapsed_s(setup: Setup) -> float:
    """Active seconds of the run, those of its earlier processes included."""
    return setup.before.elapsed_s + setup.clock() - setup.started_s


def append(setup: Setup, kind: str, payload: Mapping[str, Any]) -> None:
    """Puts one step of the run on record."""
    setup.store.append(setup.run_id, kind, payload)


def tell(setup: Setup, lanes: list[Lane], kind: str, lane: Lane, **rest: Any) -> None:
    """Tells whoever watches."""
    gone_s = elapsed_s(setup)
    happening = Happening(
        kind=kind,
        task=lane.task.name,
        elapsed_s=gone_s,
        left_s=max(0.0, setup.budget.time_limit_s - gone_s),
        tasks=tuple(each.progress() for each in lanes),
        standing=setup.proposer.standing(),
    )
    setup.report(replace(happening, **rest))
