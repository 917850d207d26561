"""``kernelsmith proxy``: records the calls of any client that speaks to a model over HTTP."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from kernelsmith import config
from kernelsmith.cli import options
from kernelsmith.cli.reading import opened
from kernelsmith.errors import MissingError
from kernelsmith.interrupts import listening

_USE = """\
listening on {base}, calls go to {upstream}, the record is {db}
point a client at it: ANTHROPIC_BASE_URL={base}/k/RUN/SESSION
RUN and SESSION are yours to name: letters, digits, '.', '_' and '-'. Ctrl-C ends it."""


def proxy(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 0,
    upstream: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where calls go; default $ANTHROPIC_BASE_URL, https://api.anthropic.com.",
        ),
    ] = None,
    db: options.Database = None,
) -> None:
    """Record every model call of other clients, byte for byte, until Ctrl-C."""
    from kernelsmith.capture import running
    from kernelsmith.lineage.journal import open_journal

    url = config.server_address(options.chosen("--upstream", upstream, _default_upstream()))
    path = db or config.load().db
    journal = open_journal(path)
    try:
        with (
            listening() as interrupts,
            running(journal, url, port=port, is_run=lambda name: _is_run(path, name)) as base,
        ):
            print(_USE.format(base=base, upstream=url, db=path), flush=True)
            with suppress(KeyboardInterrupt), interrupts.interruptible():
                threading.Event().wait()
        print("ended")
    finally:
        journal.close()


def _is_run(db: Path, name: str) -> bool:
    """Whether a run of the database has this name, also one that began just now."""
    from kernelsmith.lineage import queries

    with opened(db) as connection:
        return name in queries.run_ids(connection, name)


def _default_upstream() -> str:
    """The server that the environment names. No key is needed here: the client sends its own."""
    try:
        return config.endpoint().base_url
    except MissingError:
        return config.DEFAULT_BASE_URL
