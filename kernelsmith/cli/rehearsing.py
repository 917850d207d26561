"""``kernelsmith rehearse``: the agent for a minute, with scripted replies in a model's place."""

import sys
from decimal import Decimal
from typing import Annotated

import typer

from kernelsmith import config
from kernelsmith.cli import operating, options, running
from kernelsmith.model import AgentSettings, Price, Rates

DEFAULT_TASK = "rms_norm"
DEFAULT_TIME_LIMIT = "4m"  # it ends by itself; a slow machine needs more than a minute
_FREE = Rates(
    input=Decimal(0),
    output=Decimal(0),
    cache_read=Decimal(0),
    cache_write_5m=Decimal(0),
    cache_write_1h=Decimal(0),
)


@operating.with_operations
def rehearse(
    context: typer.Context,
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="TASK...", help="rms_norm, linear or both.")
    ] = None,
    time_limit: Annotated[
        str, typer.Option(help="When to end, final timing included.")
    ] = DEFAULT_TIME_LIMIT,
    sandbox: options.Sandbox = None,
    db: options.Database = None,
    as_json: options.AsJson = False,
    *,
    operations: config.Operations,
) -> None:
    """Run the agent on recorded replies: no model, no key, no cost; all else is real."""
    from kernelsmith import startup
    from kernelsmith.rehearsal.script import require_played

    settings = config.load()
    named = tuple(dict.fromkeys(tasks or [DEFAULT_TASK]))
    require_played(named)
    request = startup.Request(
        tasks=named,
        proposer="agent",
        agent=rehearsal_settings(len(named)),
        device="cpu",  # what the script says of bits and speed is about this device
        sandbox=options.chosen("--sandbox", sandbox, settings.sandbox),
        time_limit_s=config.seconds(time_limit),
        max_candidates=None,
        seed=None,
        first=None,
        task_folders=(),
        db=db or settings.db,
    )
    _say_loudly()
    try:
        running.start(context, request, db, as_json, operations)
    finally:
        _say_loudly()


def rehearsal_settings(sessions: int) -> AgentSettings:
    """How the agent runs in a rehearsal: one conversation a task, at no price."""
    from kernelsmith.rehearsal import MODEL

    return AgentSettings(
        model=MODEL,
        concurrency=1,
        sessions_max=sessions,
        budget_usd=None,
        prices={MODEL: Price(rates=_FREE)},
        rehearsal=True,
    )


def _say_loudly() -> None:
    from kernelsmith.rehearsal import LABEL

    words = f"REHEARSAL: {LABEL}. What the gate measures is real."
    rule = "=" * len(words)
    print(f"{rule}\n{words}\n{rule}", file=sys.stderr, flush=True)
