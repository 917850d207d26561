"""Commands that check again what was decided before: ``replay``, ``verify``."""

import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kernelsmith import config
from kernelsmith.cli import options, printing

EXITS = {"same": 0, "different": 1, "undecidable": 5}


def replay(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(metavar="CANDIDATE", help="Candidate id, its beginning, or `latest`."),
    ],
    run_id: Annotated[
        str | None, typer.Option("--run", help="The candidate as it is in this run.")
    ] = None,
    sandbox: options.Sandbox = None,
    db: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Repeat a verdict from the record alone, on the inputs that it was reached on."""
    from kernelsmith import replay as repeating
    from kernelsmith.cli import repeated

    settings = config.load()
    wiring = context.obj
    recorded = repeating.open_recorded(db or settings.db, name, run_id)
    here = repeating.surroundings(wiring, recorded)
    console = printing.out()
    if not as_json:
        say = f"candidate  {recorded.candidate.id} of {recorded.task.name}, run {recorded.run_id}"
        printing.say(console, say)
        repeated.show_changes(console, here[1])
    chosen = options.chosen("--sandbox", sandbox, settings.sandbox)
    done = repeating.repeat(wiring, recorded, chosen, here)
    if as_json:
        printing.document("replay", repeated.replay_fields(done))
    else:
        repeated.show_replay(console, done)
    if EXITS[done.outcome]:
        raise typer.Exit(EXITS[done.outcome])


def verify(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An exported library.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Also demand the bits and files of the certificates.")
    ] = False,
    epoch: Annotated[
        str | None,
        typer.Option(help="This epoch, of every op that has it, or `all`; default: what is used."),
    ] = None,
    device: options.Device = None,
    sandbox: options.Sandbox = None,
    db: Annotated[
        Path | None,
        typer.Option(
            help="A lineage: also demand that an export on record wrote each certificate."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a library again: is each winner its seed, bit for bit, now and here?"""
    from kernelsmith.cli import verified
    from kernelsmith.library import epochs, findings, layout
    from kernelsmith.library.files import dispatch_drifts
    from kernelsmith.library.shadows import shadow_drifts
    from kernelsmith.library.verify import verify_op

    settings = config.load()
    library = layout.read(folder)
    chosen = epochs.chosen(folder, library, epoch)
    recorded = None if db is None else _recorded(db)
    wiring = context.obj
    here = wiring.device(wiring.device_name(options.chosen("--device", device, settings.device)))
    wall = wiring.sandbox(options.chosen("--sandbox", sandbox, settings.sandbox), False)
    found = []
    try:
        for op, name in chosen:
            _notice(f"verifying {op} in {name} …")
            secret = secrets.randbits(255)
            seen = verify_op(folder, op, name, here, wall, secret, recorded)
            found.append(replace(seen, current=name == library.ops[op].current))
    finally:
        wall.close()
    dispatch = (*dispatch_drifts(folder, library), *shadow_drifts(folder, library))
    code = findings.exit_code(found, dispatch, strict=strict)
    if as_json:
        printing.document("verify", verified.fields(found, dispatch, code, strict=strict))
    else:
        more = sum(len(entry.epochs) for entry in library.ops.values()) - len(found)
        verified.show(found, dispatch, code, strict=strict)
        verified.show_limits(more, recorded is not None)
    if code:
        raise typer.Exit(code)


def _recorded(db: Path) -> frozenset[str]:
    """Every certificate that a lineage knows, by its hash.

    Raises:
        DatabaseError: there is no such database.
        EvidenceError: it was edited.
    """
    from kernelsmith.cli.reading import opened
    from kernelsmith.lineage import exports
    from kernelsmith.lineage.verify import require_intact

    with opened(db) as connection:
        require_intact(connection)
        return exports.certificates(connection)


def _notice(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
