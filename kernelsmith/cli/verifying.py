"""Commands that check again what was decided before: ``replay``, ``verify``."""

import secrets
import sys
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
    device: options.Device = None,
    sandbox: options.Sandbox = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a library again: is each winner its seed, bit for bit, now and here?"""
    from kernelsmith.cli import verified
    from kernelsmith.library import files, findings, layout
    from kernelsmith.library.verify import verify_op

    settings = config.load()
    library = layout.read(folder)
    wiring = context.obj
    here = wiring.device(wiring.device_name(options.chosen("--device", device, settings.device)))
    wall = wiring.sandbox(options.chosen("--sandbox", sandbox, settings.sandbox), False)
    found = []
    try:
        for op, entry in sorted(library.ops.items()):
            _notice(f"verifying {op} in {entry.current} …")
            found.append(verify_op(folder, op, entry.current, here, wall, secrets.randbits(255)))
    finally:
        wall.close()
    dispatch = tuple(files.dispatch_drifts(folder, library))
    code = findings.exit_code(found, dispatch, strict=strict)
    if as_json:
        printing.document("verify", verified.fields(found, dispatch, code, strict=strict))
    else:
        verified.show(found, dispatch, code, strict=strict)
    if code:
        raise typer.Exit(code)


def _notice(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
