"""How the findings about a library are shown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernelsmith.cli import printing
from kernelsmith.library.findings import EPOCH_KINDS, Drift, OpFindings

if TYPE_CHECKING:
    from rich.console import Console

MOST_SHOWN = 5
FACT = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "yellow")}


def fields(
    found: Sequence[OpFindings], dispatch: Sequence[Drift], code: int, *, strict: bool
) -> dict[str, Any]:
    """The JSON document."""
    return {
        "verified": code == 0,
        "strict": strict,
        "kernels": [
            {
                "op": each.op,
                "epoch": {"certified": each.epoch.removeprefix("e"), "here": each.epoch_here},
                "current": each.current,
                "candidate": each.candidate,
                "device": each.device,
                "equals_seed_here": each.equals_seed_here,
                "matches_certificate": each.matches_certificate,
                "cases": each.cases,
                "drifts": each.drifts,
            }
            for each in found
        ],
        "drifts": tuple(dispatch),
    }


def show(
    found: Sequence[OpFindings], dispatch: Sequence[Drift], code: int, *, strict: bool
) -> None:
    """For people: both facts of each op, and each drift by name."""
    console = printing.out()
    for each in found:
        words = f"{each.op}  {each.epoch}  winner {each.candidate or '?'} on {each.device or '?'}"
        printing.say(console, words, "bold")
        _say_fact(console, each.equals_seed_here, _equal_words(each))
        _say_fact(console, each.matches_certificate, _match_words(each))
        _show_drifts(console, each.drifts)
    _show_drifts(console, dispatch)
    good = sum(each.equals_seed_here is True for each in found)
    asked = ", --strict" if strict else ""
    if dispatch and code == 5:
        asked += ", and an import may run something else"
    words = "verified" if code == 0 else "not verified"
    printing.say(
        console,
        f"{words}: {good} of {len(found)} winners equal their seeds here{asked}",
        "bold green" if code == 0 else "bold red",
    )


def show_limits(epochs_left: int, recorded: bool) -> None:
    """What was not looked at."""
    console = printing.out()
    if epochs_left > 0:
        words = f"not verified: {printing.counted(epochs_left, 'other epoch')} (--epoch all)"
        printing.say(console, words, "dim")
    if not recorded:
        words = "seeds and certificates are the folder's own word (--db compares with the record)"
        printing.say(console, words, "dim")


def _equal_words(found: OpFindings) -> str:
    compared = [case for case in found.cases if case.equals_seed_here is not None]
    if found.equals_seed_here is None:
        return "not shown to equal its seed here"
    if found.equals_seed_here:
        return f"equals its seed here, in all of {len(compared)} cases"
    wrong = [case for case in compared if not case.equals_seed_here]
    if not compared:
        return "does not equal its seed here"
    return f"does not equal its seed here, in {len(wrong)} of {len(compared)} cases compared"


def _match_words(found: OpFindings) -> str:
    if found.matches_certificate is None:
        return "not compared with its certificate"
    if found.matches_certificate:
        return "matches its certificate"
    return "does not match its certificate"


def _say_fact(console: "Console", fact: bool | None, words: str) -> None:
    mark, colour = FACT[fact]
    printing.say(console, f"  {mark} {words}", colour)


def _show_drifts(console: "Console", drifts: Sequence[Drift]) -> None:
    for kind in dict.fromkeys(each.kind for each in drifts):
        own = [each for each in drifts if each.kind == kind]
        colour = "yellow" if kind in EPOCH_KINDS else "red"
        for each in own[:MOST_SHOWN]:
            printing.say(console, f"    {kind}: {each.message}", colour)
        if len(own) > MOST_SHOWN:
            more = len(own) - MOST_SHOWN
            printing.say(console, f"    {kind}: {more} more, all of them with --json", colour)
