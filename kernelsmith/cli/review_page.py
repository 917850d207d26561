"""One candidate as whoever reviews it sees it: what changed, why it may be believed, how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.cli import believed, patches, printing, verdicts
from kernelsmith.cli.transcript import REHEARSAL

if TYPE_CHECKING:
    from rich.console import Console

    from kernelsmith.lineage.review_queue import ReviewItem
    from kernelsmith.lineage.verdicts import CandidateRecord

ANCESTORS_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is shown. ``item`` None: it was not accepted; ``ancestry``: ids from its parent back to
    the seed, with what was decided about each; ``exports``: where it went."""

    found: "CandidateRecord"
    item: "ReviewItem | None"
    patch: str
    ancestry: tuple[tuple[str, str], ...]
    decisions: tuple[dict[str, Any], ...]
    exports: tuple[dict[str, Any], ...]


def page_of(connection: Any, record: str) -> Page:
    """Reads all that a page shows."""
    from kernelsmith.cli.reading import patch_path
    from kernelsmith.lineage import queries, review_queue, reviews
    from kernelsmith.lineage.verdicts import candidate_record

    found = candidate_record(connection, record)
    seed = queries.load_candidate(connection, queries.seed_record(connection, record))
    path = patch_path(connection, record)
    return Page(
        found=found,
        item=review_queue.item_of(connection, record),
        patch=patches.patch(seed.source, found.candidate.source, path),
        ancestry=tuple(_ancestry(connection, record)),
        decisions=tuple(reviews.history(connection, record)),
        exports=tuple(review_queue.exports_of(connection, record)),
    )


def page_fields(page: Page) -> dict[str, Any]:
    """The JSON document: all of ``show CANDIDATE`` and what a review adds."""
    item = page.item
    checks = page.found.verdict.checks if page.found.verdict else ()
    return {
        **verdicts.record_fields(page.found),
        "place": None if item is None else item.place,
        "superseded_by": None if item is None else item.by,
        "approvable": item is not None and item.why_not is None,
        "why_not": why_not(page),
        "believed": [{"check": each.name, "because": believed.words(each)} for each in checks],
        "ancestry": [{"candidate": name, "what": what} for name, what in page.ancestry],
        "decisions": list(page.decisions),
        "exports": list(page.exports),
        "diff": page.patch,
    }


def why_not(page: Page) -> str | None:
    """Why it may not be approved; None: it may."""
    if page.item is not None:
        return page.item.why_not
    verdict = page.found.verdict
    return "it has no verdict" if verdict is None else f"its verdict is {verdict.status}"


def show_page(page: Page, db: Path | None) -> None:
    """The page for people. Nothing that its author wrote is obeyed by the terminal."""
    console = printing.out()
    candidate, where = page.found.candidate, printing.named_database(db)
    printing.say(console, f"candidate  {candidate.id} of {candidate.task}", "bold")
    printing.say(console, f"run        {page.found.run_id}")
    label = f" ({REHEARSAL})" if page.found.rehearsal else ""
    printing.say(
        console, f"author     {candidate.author}{label}, {page.found.proposed_at[:19]} UTC"
    )
    verdicts.say_origin(console, candidate, where, note="its note")
    _show_ancestry(console, page.ancestry)
    printing.say(console)
    printing.say(console, "what changed against the seed", "bold")
    for line in page.patch.removesuffix("\n").split("\n") if page.patch else ["nothing"]:
        printing.say(console, line, patches.colour(line))
    _show_belief(console, page)
    _show_gain(console, page)
    _show_standing(console, page)


def _show_ancestry(console: "Console", ancestry: Sequence[tuple[str, str]]) -> None:
    label = "descends   "
    for name, what in ancestry[:ANCESTORS_SHOWN]:
        printing.say(console, f"{label}from {name}  {what}")
        label = " " * len(label)
    if len(ancestry) > ANCESTORS_SHOWN:
        printing.say(console, f"{label}and {len(ancestry) - ANCESTORS_SHOWN} more, to the seed")


def _show_belief(console: "Console", page: Page) -> None:
    verdict = page.found.verdict
    printing.say(console)
    if verdict is None:
        printing.say(console, "it has no verdict: nothing was shown about it", "bold red")
        return
    device = str(verdict.device.get("device", "?"))
    words = printing.status_words(verdict.status, device)
    style = "bold" if verdict.accepted else "bold red"
    printing.say(console, f"why its bits are believed to be the seed's: {words}", style)
    for check in verdict.checks:
        mark, colour = verdicts.MARKS[check.status]
        if believed.is_missing(check):
            mark, colour = "?", "yellow"
        printing.say_all(console, f"  {mark} {check.name:<14} ", believed.words(check), colour)
    if verdict.unchecked:
        printing.say(console, f"unchecked  {', '.join(verdict.unchecked)}", "bold yellow")
    printing.say(console, f"epoch      {verdict.epoch}: says nothing about any other")


def _show_gain(console: "Console", page: Page) -> None:
    final = page.found.final
    printing.say(console)
    if final is None:
        printing.say(console, "its gain over the seed was not measured", "yellow")
    else:
        holds, gain = final
        words = "how much faster than the seed" if holds else "NOT faster than the seed"
        printing.say(console, f"{words}: {printing.gain_line(gain)}", "bold" if holds else "red")
        verdicts.show_cases(console, gain)


def _show_standing(console: "Console", page: Page) -> None:
    printing.say(console)
    if page.item is not None:
        printing.say(console, f"place      {place_words(page.item)}")
    for row in page.exports:
        printing.say(console, f"exported   to {row['folder']}, {row['at'][:16]} UTC")
    label = "review     "
    for row in page.decisions:
        what = {"approve": "approved", "reject": "rejected", "undo": "taken back"}
        words = f"{what[row['decision']]} by {row['reviewer']}, {row['at'][:16]} UTC"
        printing.say_all(console, label, f"{words}: {row['note']}" if row["note"] else words)
        label = " " * len(label)
    reason = why_not(page)
    if reason is not None:
        printing.say(console, f"it cannot be approved: {reason}", "yellow")


def place_words(item: "ReviewItem") -> str:
    """Where an accepted candidate stands in its run."""
    if item.place == "superseded":
        return f"superseded by {item.by}"
    if item.place == "unsupported":
        return f"unsupported: {item.why_not}"
    return {"stands": "stands", "not timed": "not timed against the seed yet"}[item.place]


def _ancestry(connection: Any, record: str) -> list[tuple[str, str]]:
    from kernelsmith.lineage import reviews
    from kernelsmith.lineage.verdicts import candidate_record

    found = []
    for each in reviews.ancestors(connection, record):
        ancestor = candidate_record(connection, each)
        verdict = ancestor.verdict
        words = "the seed" if ancestor.candidate.author == "seed" else "not judged"
        if verdict is not None:
            words = printing.status_words(verdict.status, str(verdict.device.get("device", "?")))
        if ancestor.decision is not None:
            words += f", {verdicts.decision_words(ancestor.decision)}"
        found.append((ancestor.candidate.id, words))
    return found
