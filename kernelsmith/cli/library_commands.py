"""``kernelsmith library``: which epochs an exported folder has, and which is used."""

from pathlib import Path
from typing import Annotated, Any

import typer

from kernelsmith.cli import options, printing

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="An exported library.")]


def library_app() -> typer.Typer:
    """The group of commands."""
    app = typer.Typer(help="The epochs of an exported library.")
    app.callback()(_group)
    app.command("list")(list_epochs)
    app.command("rollback")(roll_back)
    return app


def _group() -> None:
    """The epochs of an exported library."""


def list_epochs(folder: Folder, as_json: options.AsJson = False) -> None:
    """Every op with its epochs, oldest first; which is used, what each was certified on."""
    from kernelsmith.library.epochs import epochs

    found = epochs(folder)
    if as_json:
        listed: dict[str, list[dict[str, Any]]] = {}
        for each in found:
            listed.setdefault(each.op, []).append(_fields(each))
        ops = [{"op": op, "epochs": own} for op, own in listed.items()]
        printing.document("library", {"ops": ops})
        return
    console = printing.out()
    rows: list[tuple[str, ...]] = [
        ("op", "epoch", "", "winner", "certified on", "gain", "approved by")
    ]
    rows += [_row(each) for each in found]
    for line in printing.aligned(rows) if found else ["no ops yet"]:
        printing.say(console, line)
    for each in found:
        if each.problem:
            printing.say(console, each.problem, "red")


def roll_back(
    epoch: Annotated[
        str, typer.Argument(metavar="EPOCH", help="Its id, or a beginning that only one has.")
    ],
    folder: Folder,
) -> None:
    """Use this epoch, in every op that has it."""
    from kernelsmith.library.epochs import rollback

    name, switched = rollback(folder, epoch)
    console = printing.out()
    for op, before in sorted(switched.items()):
        printing.say(console, f"{op}: uses {name}, used {before}")
    if not switched:
        printing.say(console, f"{name} is what is used already")


def _fields(listing: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "epoch": listing.name.removeprefix("e"),
        "current": listing.current,
        "problem": listing.problem or None,
    }
    certificate = listing.certificate
    if certificate is not None:
        fields |= {
            "candidate": certificate.candidate,
            "device": certificate.device,
            "device_facts": certificate.device_facts,
            "versions": certificate.versions,
            "gain": certificate.gain.model_dump(mode="json"),
            "unchecked": certificate.unchecked,
            "review": certificate.review.model_dump(mode="json"),
            "record": certificate.record,
        }
    return fields


def _row(listing: Any) -> tuple[str, ...]:
    current = "current" if listing.current else ""
    certificate = listing.certificate
    if certificate is None:
        return (listing.op, listing.name, current, "?", "?", "?", "?")
    triton = certificate.versions.get("triton", "?")
    return (
        listing.op,
        listing.name,
        current,
        certificate.candidate,
        f"{certificate.device}, Triton {triton}",
        printing.times(certificate.gain.geomean),
        certificate.review.reviewer,
    )
