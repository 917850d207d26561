"""What a run tells while it goes on: the options of it, and the parts behind them opened."""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelsmith import config
from kernelsmith.cli import options
from kernelsmith.config import Operations

if TYPE_CHECKING:
    from kernelsmith.operations.logs import JsonLines
    from kernelsmith.operations.metrics import Collector


def _options(
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A structured log: JSON lines, appended.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info (default), warning or error.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve metrics for Prometheus; 0: any free port."),
    ] = None,
    metrics_address: Annotated[
        str | None, typer.Option(help="Where they are served; default 127.0.0.1.")
    ] = None,
    metrics_to: Annotated[
        Path | None,
        typer.Option(metavar="FILE.prom", help="Write metrics for node exporter's textfiles."),
    ] = None,
    summary_to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a summary at the end; FILE.json: as JSON."),
    ] = None,
    summary_webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Post it as JSON with a `text`, as Slack takes it; better by "
            "$KERNELSMITH_SUMMARY_WEBHOOK: it is a secret.",
        ),
    ] = None,
    summary_command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="A shell command that gets it on stdin.")
    ] = None,
) -> None:
    """The options; only their signature is used."""


def with_operations(command: Callable[..., None], *, metrics: bool = True) -> Callable[..., None]:
    """A command with the options above beside its own; it takes them as ``operations``.
    ``metrics``: whether it serves or writes any."""
    asked = {
        name: option
        for name, option in options.of_signature(_options).items()
        if metrics or not name.startswith("metrics")
    }

    @functools.wraps(command)
    def called(**values: Any) -> None:
        given = {name: values.pop(name) for name in asked}
        operations = config.operations(config.load().operations, **given)
        if not metrics:
            operations = replace(operations, metrics_port=None, metrics_to=None)
        command(**values, operations=operations)

    return options.joined(called, command, asked.values(), "operations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """The parts that are open; they learn the run's name when it is on record."""

    lines: "JsonLines | None"
    collector: "Collector | None"

    def name_run(self, run_id: str, left_s: Callable[[], float] | None = None) -> None:
        """From here on everything is told of this run."""
        if self.lines is not None:
            self.lines.run_id = run_id
        if self.collector is not None:
            self.collector.run_id, self.collector.left_s = run_id, left_s


@contextmanager
def telling(operations: Operations, db: Path) -> Iterator[Telling]:
    """Opens the log and the metrics that are wanted, for as long as the block runs.

    Raises:
        InputError: a file cannot be written, or an address cannot be listened at.
    """
    lines, collector = None, None
    with ExitStack() as stack:
        if operations.log is not None:
            from kernelsmith.operations import logs

            lines = stack.enter_context(
                logs.opened(operations.log, operations.log_level, operations.secrets)
            )
        if operations.metrics_port is not None or operations.metrics_to is not None:
            from kernelsmith.operations import metrics

            collector = stack.enter_context(
                metrics.served(
                    db, operations.metrics_port, operations.metrics_address, operations.metrics_to
                )
            )
        yield Telling(lines=lines, collector=collector)
