"""Commands that run the loop: ``run``, ``resume``."""

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelsmith import config
from kernelsmith.cli import detaching, morning, operating, options, printing
from kernelsmith.config import Operations
from kernelsmith.errors import InputError, KernelsmithError
from kernelsmith.interrupts import EXIT_PAUSED

if TYPE_CHECKING:
    from kernelsmith import loop, startup
    from kernelsmith.interrupts import Interrupts
    from kernelsmith.model import AgentSettings

MAX_SEED = 2**63 - 1  # what a column of the database holds
_LOG = logging.getLogger(__name__)


@detaching.detachable
@operating.with_operations
def run(
    context: typer.Context,
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help="What to make faster.")],
    proposer: Annotated[
        str | None,
        typer.Option(help="Who proposes: search (needs no model), agent, or search,agent."),
    ] = None,
    device: options.Device = None,
    sandbox: options.Sandbox = None,
    time_limit: Annotated[
        str | None, typer.Option(help="When to end, final timing included: 90s, 5m, 8h.")
    ] = None,
    max_candidates: Annotated[
        int | None, typer.Option(min=1, help="Judge at most this many.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_SEED, help="The proposer's seed; drawn when not given."),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option("--from", help="Candidate id or file to begin with; it is judged first."),
    ] = None,
    model: options.Model = None,
    budget_usd: options.BudgetUsd = None,
    budget_tokens: options.BudgetTokens = None,
    concurrency: options.Concurrency = None,
    task_folders: options.TaskFolders = None,
    db: options.Database = None,
    as_json: options.AsJson = False,
    *,
    operations: Operations,
    ready: detaching.Ready,
) -> None:
    """Make kernels faster: propose, judge, record."""
    from kernelsmith import startup

    settings = config.load()
    chosen = options.chosen("--proposer", proposer, settings.proposer)
    spending = {
        "model": model,
        "budget_usd": budget_usd,
        "budget_tokens": budget_tokens,
        "concurrency": concurrency,
    }
    request = startup.Request(
        tasks=tuple(tasks),
        proposer=chosen,
        agent=_agent(chosen, settings.agent, spending),
        device=options.chosen("--device", device, settings.device),
        sandbox=options.chosen("--sandbox", sandbox, settings.sandbox),
        time_limit_s=config.seconds(
            options.chosen("--time-limit", time_limit, settings.time_limit)
        ),
        max_candidates=max_candidates,
        seed=seed,
        first=first,
        task_folders=options.folders(task_folders, settings),
        db=db or settings.db,
    )
    start(context, request, db, as_json, operations, ready)


def _agent(
    proposer: str, table: Mapping[str, Any], spending: Mapping[str, Any]
) -> "AgentSettings | None":
    """The agent's settings; None where the proposer does not name it.

    Raises:
        InputError: there is no agent, and an option is for it.
    """
    from kernelsmith.wiring import proposer_names

    if "agent" in proposer_names(proposer):
        return config.agent_settings(table, **spending)
    for name, value in spending.items():
        if value is not None:
            raise InputError(
                f"--{name.replace('_', '-')} is for the agent, which this run does not have",
                hint="add --proposer agent, or leave it out",
            )
    return None


def start(
    context: typer.Context,
    request: "startup.Request",
    named: Path | None,
    as_json: bool,
    operations: Operations,
    ready: detaching.Ready = lambda run_id: None,
) -> None:
    """Starts a new run and drives it to its end. ``named``: the database, if named as an option;
    ``ready`` is told the run's id."""
    from kernelsmith import startup

    def open_run(interrupts: "Interrupts") -> "AbstractContextManager[loop.Setup]":
        return startup.new_run(context.obj, request, interrupts, notice)

    tell = partial(_say_how_it_ended, request.db, named, as_json)
    drive(open_run, request.db, named, tell, operations, ready)


@detaching.detachable
@operating.with_operations
def resume(
    context: typer.Context,
    run_id: options.RunId,
    time_limit: Annotated[
        str | None, typer.Option(help="This much more time; else what was left.")
    ] = None,
    max_candidates: Annotated[
        int | None, typer.Option(min=1, help="This many more; else what was left.")
    ] = None,
    budget_usd: Annotated[
        str | None, typer.Option(help="The agent may spend this much more; else what was left.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(min=1, help="This many more; else what was left.")
    ] = None,
    db: options.Database = None,
    as_json: options.AsJson = False,
    *,
    operations: Operations,
    ready: detaching.Ready,
) -> None:
    """Go on with a run where its record ends."""
    from kernelsmith import startup

    path = db or config.load().db
    more = startup.More(
        time_limit_s=None if time_limit is None else config.seconds(time_limit),
        max_candidates=max_candidates,
        budget_usd=None if budget_usd is None else config.dollars(budget_usd),
        budget_tokens=budget_tokens,
    )

    def open_run(interrupts: "Interrupts") -> "AbstractContextManager[loop.Setup]":
        return startup.resumed_run(context.obj, path, run_id, more, interrupts, notice)

    drive(open_run, path, db, partial(_say_how_it_ended, path, db, as_json), operations, ready)


def drive(
    open_run: "Callable[[Interrupts], AbstractContextManager[loop.Setup]]",
    path: Path,
    named: Path | None,
    tell: Callable[[str], None],
    operations: Operations,
    ready: detaching.Ready = lambda run_id: None,
) -> None:
    """Runs the loop with its display, then has ``tell`` say of the run how it ended, and sends the
    summary where ``operations`` wants it. ``named``: the database, if the user named it."""
    begun: list[str] = []
    with operating.telling(operations, path) as telling:
        try:
            code = _driven(open_run, path, named, telling, ready, begun)
        finally:
            for run_id in begun:
                for problem in morning.send(path, run_id, named, operations):
                    notice(problem)
    if not begun:
        notice("interrupted before the run began: nothing is on record")
        raise typer.Exit(code)
    tell(begun[0])
    if code:
        where = printing.named_database(named)
        notice(
            f"{'paused' if code == EXIT_PAUSED else 'interrupted'}; all verdicts are on record. "
            f"To go on: kernelsmith resume {begun[0]}{where}"
        )
        raise typer.Exit(code)


def _driven(
    open_run: "Callable[[Interrupts], AbstractContextManager[loop.Setup]]",
    path: Path,
    named: Path | None,
    telling: operating.Telling,
    ready: detaching.Ready,
    begun: list[str],
) -> int:
    """The loop with its display; its exit code. ``begun`` gets the run's id once there is one."""
    from kernelsmith import loop
    from kernelsmith.cli import display
    from kernelsmith.interrupts import listening

    with listening() as interrupts:
        try:
            with open_run(interrupts) as setup:
                run_id, device = setup.run_id, setup.tasks[0].device
                begun.append(run_id)
                telling.name_run(run_id, partial(_left_s, setup))
                notice(f"run {run_id} is on record in {path}")
                ready(run_id)
                with display.progress(device, pauses=setup.pauses) as report:
                    loop.run(replace(setup, report=report))
        except KeyboardInterrupt:
            return interrupts.exit_code
        except KernelsmithError:
            if begun:
                where = printing.named_database(named)
                notice(f"the run broke off; to go on: kernelsmith resume {begun[0]}{where}")
            raise
    return 0


def _left_s(setup: "loop.Setup") -> float:
    gone_s = setup.before.elapsed_s + setup.clock() - setup.started_s
    return max(0.0, setup.budget.time_limit_s - gone_s)


def _say_how_it_ended(path: Path, named: Path | None, as_json: bool, run_id: str) -> None:
    from kernelsmith.cli.reading import opened
    from kernelsmith.cli.standing import run_fields, summary
    from kernelsmith.lineage.standings import run_standing

    with opened(path) as connection:
        standing = run_standing(connection, run_id)
    if as_json:
        printing.document("runs", {"runs": [run_fields(standing)]})
    else:
        summary(standing, named)


def notice(text: str) -> None:
    """One line of progress on stderr, and in the log."""
    _LOG.info(text, extra={"event": "notice"})
    print(text, file=sys.stderr, flush=True)
