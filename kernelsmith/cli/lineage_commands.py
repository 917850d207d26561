"""``kernelsmith lineage``: the record about itself."""

import dataclasses

import typer

from kernelsmith.cli import options, printing
from kernelsmith.cli.reading import opened

EXIT_TOUCHED = 5


def lineage_app() -> typer.Typer:
    """The group of commands."""
    app = typer.Typer(help="The record about itself.")
    app.callback()(_group)
    app.command("verify")(verify)
    return app


def _group() -> None:
    """The record about itself."""


def verify(
    head: str | None = typer.Option(None, help="A head that was noted before; it must be there."),
    db: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Find rows that were edited, deleted or added behind the record's back."""
    from kernelsmith.lineage.verify import verify as verify_lineage

    with opened(db) as connection:
        report = verify_lineage(connection, head)
    if as_json:
        printing.document("lineage", {"intact": not report.findings, **dataclasses.asdict(report)})
    else:
        for found in report.findings:
            print(found.line())
        words = "intact" if not report.findings else f"{len(report.findings)} finding(s)"
        print(f"{report.steps} steps, {report.rows} rows: {words}")
        print(f"head {report.head}")
    if report.findings:
        raise typer.Exit(EXIT_TOUCHED)
