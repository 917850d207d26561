"""``kernelsmith audit``: is an RL run on-policy, and which layer broke?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelsmith.cli import options, printing
from kernelsmith.errors import EvidenceError, InputError

if TYPE_CHECKING:
    from kernelsmith.onpolicy.audit import Audit
    from kernelsmith.onpolicy.case import Case, Mode
    from kernelsmith.onpolicy.model import Dump
    from kernelsmith.onpolicy.three import Three

EXIT_OFF_POLICY = 1
CASES = Path("audit-cases")
_STYLES = {"on-policy": "bold green", "off-policy": "bold red", "undecidable": "bold yellow"}

Opened = Callable[[], "Dump"]

CaseFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Save what failed as a small case for `audit replay`; --three does so anyway, in "
        "audit-cases.",
    ),
]
Drawing = Annotated[
    Path | None, typer.Option(metavar="OUT", help="Also draw the histogram into this SVG.")
]
Junit = Annotated[Path | None, typer.Option(metavar="OUT", help="Also write JUnit XML, for a CI.")]
Remedies = Annotated[
    bool,
    typer.Option(
        "--remedies",
        help="Also weigh what recompute, TIS and IcePop would leave and hide (two dumps).",
    ),
]


def audit(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SAMPLER TRAINER",
            help="Two dumps of log-probs; with --three A B [C]; or `replay CASE [dumps]`.",
        ),
    ] = None,
    three: Annotated[
        bool,
        typer.Option(
            "--three",
            help="Three runs: two rollouts of the same prompts and weights, then the trainer's "
            "forward on the first one's ids.",
        ),
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Audit an unmodified transformers model, random weights.")
    ] = False,
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=NAME",
            help="Another field name: sampler, trainer (log-probs), tokens, mask, sequence, turn, "
            "…; `trainer.mask=NAME` for one side. May be given again.",
        ),
    ] = None,
    subset: Annotated[
        bool, typer.Option("--subset", help="Sequences that the trainer lacks are not missed.")
    ] = False,
    remedies: Remedies = False,
    svg: Drawing = None,
    junit: Junit = None,
    case: CaseFolder = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --demo: keep its two dumps here.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Is an RL run on-policy? Compare the sampler's and the trainer's log-probs bit by bit.

    At the first update the importance ratio must be exactly 1 for every token. Dumps are JSON
    lines, safetensors or parquet, with the field names of verl, prime-rl, TorchTitan, slime or
    kernelsmith.onpolicy.record. Exit code 0: on-policy; 1: off-policy; 5: undecidable.
    """
    from kernelsmith.onpolicy.fields import mapping

    words = list(files or ())
    folder = case or (CASES if three else None)
    options.can_be_written(svg, junit)
    asked = _Asked(svg=svg, junit=junit, folder=folder, as_json=as_json)
    mapped = mapping(field or ())
    replay = words[:1] == ["replay"]
    _expect(demo or keep is None, "--keep goes with --demo")
    if demo or three or replay:
        _expect(not subset and not remedies, "--subset and --remedies go with two dumps")
    if demo:
        _expect(not words and not three, "--demo takes no dumps")
        _demo(keep, asked)
    elif replay:
        _replay(words[1:], mapped, asked)
    elif three:
        _expect(len(words) in (2, 3), "--three takes two rollouts and the trainer's dump: A B C")
        _told_three(_openers(words, mapped, "three"), asked)
    else:
        _expect(len(words) == 2, "two dumps are needed: SAMPLER TRAINER")
        _told_two(_openers(words, mapped, "two"), asked, subset, remedies)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """How the answer is wanted. ``folder``: where what failed is saved."""

    svg: Path | None
    junit: Path | None
    folder: Path | None
    as_json: bool


def _expect(held: bool, message: str) -> None:
    if not held:
        raise InputError(message, hint="`kernelsmith audit --help`")


def _openers(words: Sequence[str], mapped: Any, mode: "Mode") -> list[Opened]:
    from kernelsmith.onpolicy.case import RUNS
    from kernelsmith.onpolicy.reading import open_dump

    return [
        partial(open_dump, Path(word), side, mapped, bare=mode == "three")
        for word, side in zip(words, RUNS[mode], strict=False)
    ]


def _told_two(
    opened: Sequence[Opened], asked: _Asked, subset: bool = False, weigh: bool = False
) -> None:
    from kernelsmith.onpolicy import remedies, report, text
    from kernelsmith.onpolicy.audit import audit as audit_dumps

    found = audit_dumps(opened[0](), opened[1](), subset=subset)
    saved = _saved("two", found, opened, asked)
    _write(asked, [("sampler beside trainer", found)])
    weighed = remedies.weighed(opened[0](), opened[1]()) if weigh else ()
    if asked.as_json:
        told = {"remedies": [remedies.fields(one) for one in weighed]} if weigh else {}
        printing.document("audit", {**report.fields(found), **told, "case": _path(saved)})
    else:
        rows = text.lines(found)
        if weigh:
            rows += ["", *remedies.HEADING, *(f"  {remedies.line(one)}" for one in weighed)]
        _say(found.verdict, text.headline(found), rows, saved)
    _leave(found.verdict)


def _told_three(opened: Sequence[Opened], asked: _Asked) -> None:
    from kernelsmith.onpolicy.three import three as audit_three

    found = audit_three(opened[0], opened[1], opened[2] if len(opened) > 2 else None)
    saved = _saved("three", found, opened, asked)
    _write(asked, found.comparisons)
    if asked.as_json:
        printing.document("audit", {**_three_fields(found), "case": _path(saved)})
    else:
        _say_three(found, saved)
    _leave(found.verdict)


def _saved(
    mode: "Mode", found: "Audit | Three", opened: Sequence[Opened], asked: _Asked
) -> Path | None:
    """The case of what failed, if it is wanted and has a place."""
    from kernelsmith.onpolicy import case

    place = found.broken_place
    if asked.folder is None or place is None:
        return None
    one = case.case_of(mode, found.verdict, found.broken_layer, place, opened)
    return case.save(one, asked.folder)


def _three_fields(found: "Three") -> dict[str, Any]:
    """The contract's fields of the comparison that decides, then both comparisons."""
    from kernelsmith.onpolicy import report

    decides = found.forward or found.rollouts
    if found.broken_in is not None:
        decides = dict(found.comparisons)[found.broken_in]
    return {
        **report.fields(decides),
        "verdict": found.verdict,
        "broken_layer": found.broken_layer,
        "broken_in": found.broken_in,
        "layers": dict(found.layers),
        "notes": found.notes,
        "rollouts": report.fields(found.rollouts),
        "forward": None if found.forward is None else report.fields(found.forward),
    }


def _say_three(found: "Three", saved: Path | None) -> None:
    from kernelsmith.onpolicy import text

    where = f", {found.broken_in}" if found.broken_in else ""
    rows = [f"  {layer:<8} {status}" for layer, status in found.layers]
    rows += [f"  {note}" for note in found.notes]
    for name, one in found.comparisons:
        told = text.of_runs([text.headline(one), *text.lines(one)], name)
        rows += ["", f"{name}: {told[0]}", *told[1:]]
    _say(
        found.verdict, f"{text.verdict_line(found.verdict, found.broken_layer)}{where}", rows, saved
    )


def _replay(words: Sequence[str], mapped: Any, asked: _Asked) -> None:
    from kernelsmith.onpolicy import case

    _expect(bool(words), "replay takes a case")
    held = case.load(Path(words[0]))
    wanted = {"two": (2,), "three": (2, 3)}[held.mode]
    if words[1:]:
        names = "A B C" if held.mode == "three" else "SAMPLER TRAINER"
        _expect(len(words) - 1 in wanted, f"new dumps of this case: {names}")
        opened = _of_one(_openers(words[1:], mapped, held.mode), held)
    else:
        opened = [partial(_same, dump) for dump in held.dumps]
    layer = f", the {held.broken_layer} layer" if held.broken_layer else ""
    printing.say(
        printing.err(), f"case of sequence {held.sequence}; it was {held.verdict}{layer}", "dim"
    )
    (_told_three if held.mode == "three" else _told_two)(opened, asked)


def _same(dump: "Dump") -> "Dump":
    return dump


def _of_one(opened: Sequence[Opened], held: "Case") -> list[Opened]:
    from kernelsmith.onpolicy.case import Only

    def only(open_one: Opened) -> "Dump":
        return Only(dump=open_one(), sequence=held.sequence)

    return [partial(only, one) for one in opened]


def _demo(keep: Path | None, asked: _Asked) -> None:
    from kernelsmith.onpolicy import demo, demo_report

    found = demo.run(keep)
    _write(asked, [("demo", found.stock)])
    if asked.as_json:
        printing.document("audit_demo", demo_report.fields(found))
        return
    for line in demo_report.lines(found):
        printing.say(printing.out(), line)


def _write(asked: _Asked, comparisons: Sequence[tuple[str, "Audit"]]) -> None:
    """The files that were asked for."""
    from kernelsmith.onpolicy import distribution, report

    if asked.svg is not None:
        name, found = comparisons[-1]
        drawn = distribution.svg(found.bins, f"importance ratio, {name}: {found.verdict}")
        asked.svg.write_text(drawn, encoding="utf-8")
    if asked.junit is not None:
        asked.junit.write_text(report.junit(comparisons), encoding="utf-8")


def _say(verdict: str, headline: str, rows: Sequence[str], saved: Path | None) -> None:
    console = printing.out()
    printing.say(console, headline, _STYLES[verdict])
    for row in rows:
        printing.say(console, row)
    if saved is not None:
        printing.say(console)
        printing.say(console, f"saved as {saved}: `kernelsmith audit replay {saved}`")


def _path(saved: Path | None) -> str | None:
    return None if saved is None else str(saved)


def _leave(verdict: str) -> None:
    if verdict == "undecidable":
        raise EvidenceError(
            "undecidable: not every trained token could be compared",
            hint="what is missing is named above, under faults; --json has it too",
        )
    if verdict == "off-policy":
        raise typer.Exit(EXIT_OFF_POLICY)
