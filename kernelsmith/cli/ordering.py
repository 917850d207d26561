"""``kernelsmith order``: in which order a file sums, beside the seed."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelsmith import config
from kernelsmith.cli import options, printing
from kernelsmith.errors import EvidenceError

if TYPE_CHECKING:
    from rich.console import Console

    from kernelsmith.gate.order.shown import Sum
    from kernelsmith.numerics.order import Outcome
    from kernelsmith.ordering import Orders

EXIT_DIFFERS = 1
_GAP = 16


def order(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The seed or a rewrite of it.")],
    task: Annotated[str, typer.Option(help="The task it belongs to.")],
    reduction: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this declared sum; may be given again."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with this file, not with the seed.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Also draw the trees into this SVG file.")
    ] = None,
    device: options.Device = None,
    sandbox: options.Sandbox = None,
    task_folders: options.TaskFolders = None,
    as_json: options.AsJson = False,
) -> None:
    """Find the order in which a file sums, by probing, and compare it with the seed's.

    Each sum that the task declares is probed through the file's own launches, at one case for
    every compiled kernel that makes it. Exit code 0: all are in the seed's order; 1: one is not;
    5: of none can anything be said.
    """
    from kernelsmith import startup
    from kernelsmith.ordering import find_orders

    options.can_be_written(svg)
    settings = config.load()
    single = startup.Single(
        file=file,
        task=task,
        device=options.chosen("--device", device, settings.device),
        sandbox=options.chosen("--sandbox", sandbox, settings.sandbox),
        task_folders=options.folders(task_folders, settings),
    )
    found = find_orders(context.obj, single, against, tuple(reduction or ()))
    if svg is not None:
        svg.write_text(drawing(found), encoding="utf-8")
    if as_json:
        printing.document("order", fields(found))
    else:
        _show(printing.out(), found)
    if not found.known:
        raise EvidenceError(
            f"the order of no sum of {file} can be seen: {found.sums[0].sentence}",
            hint="is what the task declares of its reductions right?",
        )
    if found.differs:
        raise typer.Exit(EXIT_DIFFERS)


def fields(found: "Orders") -> dict[str, Any]:
    """The JSON document of ``kernelsmith order``."""
    return {
        "task": found.task,
        "candidate": found.candidate.id,
        "against": found.against.id,
        "device": found.device,
        "epoch": found.epoch,
        "equal": None if not found.known else not found.differs,
        "sums": [_sum_fields(one) for one in found.sums],
    }


def _sum_fields(one: "Sum") -> dict[str, Any]:
    place = one.place
    return {
        "reduction": place.reduction.name,
        "dtype": place.case.dtype,
        "case": place.case.id,
        "carrier": place.carrier,
        "units": place.units,
        "columns": list(place.columns) if place.partly else None,
        "carry": place.reduction.carry if place.carry else None,
        "equal": one.equal,
        "sentence": one.sentence,
        "here": _tree_fields(one.here, place.terms),
        "there": _tree_fields(one.there, place.terms),
    }


def _tree_fields(found: "Outcome", terms: tuple[int, ...] | None) -> dict[str, Any]:
    from kernelsmith.numerics.order import Revealed, describe

    told = {
        "found": type(found).__name__.lower(),
        "sentence": found.sentence,
        "queries": found.queries,
    }
    if isinstance(found, Revealed):
        told["shape"] = describe(found.tree, terms)
        told["arithmetic"] = found.arithmetic
        told["tree"] = str(found.tree)
        told["digest"] = found.tree.digest
    return told


def _show(console: "Console", found: "Orders") -> None:
    from kernelsmith.numerics.order import Revealed, draw_text

    where = found.device.get("device", "?")
    other = "the seed" if found.against.author == "seed" else found.against.note
    head = f"{found.candidate.note} beside {other}, task {found.task}, on {where}"
    printing.say(console, f"{head}, epoch {found.epoch}", "bold")
    for one in found.sums:
        printing.say(console)
        style = {True: "green", False: "bold red", None: "yellow"}[one.equal]
        mark = {True: "✓", False: "✗", None: "–"}[one.equal]
        printing.say(console, f"{mark} {title_of(one)}: {one.sentence}", style)
        parts = [("", one.here)] if one.equal else [("here: ", one.here), ("there: ", one.there)]
        for label, tree in parts:
            if isinstance(tree, Revealed):
                printing.say_all(
                    console, f"    {label}", draw_text(tree.tree, terms=one.place.terms)
                )
                printing.say(console, f"    {tree.arithmetic}; {tree.queries:,} queries", "dim")
            else:
                printing.say_all(console, f"    {label}", tree.sentence)


def title_of(one: "Sum") -> str:
    """``y_over_k (bfloat16), case …, 128 terms in x``."""
    place = one.place
    carry = f" and {place.reduction.carry}, the last unit" if place.carry else ""
    many = f"{len(place.columns)} of {place.length}" if place.partly else f"{place.length}"
    return (
        f"{place.reduction.name} ({place.case.dtype}), case {place.case.id}, "
        f"{many} terms in {place.carrier}{carry}"
    )


def drawing(found: "Orders") -> str:
    """All trees in one SVG document, one below the other; where two differ, both."""
    from kernelsmith.numerics.order import Revealed, draw_svg

    parts = []
    for one in found.sums:
        sides = [("", one.here)] if one.equal else [("here: ", one.here), ("there: ", one.there)]
        parts += [
            draw_svg(tree.tree, f"{label}{title_of(one)}", one.place.terms)
            for label, tree in sides
            if isinstance(tree, Revealed)
        ]
    nested, top, width = [], 0, 1
    for text in parts:
        size = re.search(r'width="(\d+)" height="(\d+)"', text)
        assert size is not None, "draw_svg gives its size"
        nested.append(text.replace("<svg ", f'<svg y="{top}" ', 1))
        width, top = max(width, int(size[1])), top + int(size[2]) + _GAP
    body = "\n".join(nested)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{max(top, 1)}">\n'
        f"{body}\n</svg>\n"
    )
