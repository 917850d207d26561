"""``kernelsmith review``: what waits for a person's decision, and the decision."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelsmith import config
from kernelsmith.cli import options, printing
from kernelsmith.cli.reading import opened
from kernelsmith.errors import InputError

if TYPE_CHECKING:
    from kernelsmith.cli.review_page import Page
    from kernelsmith.lineage.review_queue import ReviewItem

MOST_SHOWN_CHARACTERS = 120
KEYS = {"a": "approve", "r": "reject", "s": "skip", "q": "quit"}


def review(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[RUN|CANDIDATE]", help="What to review, by its id; else all runs."),
    ] = None,
    approve: Annotated[
        str | None, typer.Option(metavar="ID", help="Approve this candidate.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="ID", help="Reject this candidate.")] = None,
    undo: Annotated[
        str | None, typer.Option(metavar="ID", help="Take the decision that stands back.")
    ] = None,
    note: Annotated[str, typer.Option(help="Why; kept with the decision.")] = "",
    reviewer: Annotated[
        str | None, typer.Option(help="Who decides; default git's user.name, else $USER.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what is decided.")] = False,
    db: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Decide about accepted candidates: see what waits, approve or reject with a note.

    On a terminal it shows each winner and asks; elsewhere it lists, and takes --approve, --reject
    or --undo. A decision can be taken back, and the one before it stands again.
    """
    chosen = {"approve": approve, "reject": reject, "undo": undo}
    given = [(what, each) for what, each in chosen.items() if each is not None]
    if len(given) > 1:
        raise InputError("one decision at a time", hint="give one of --approve, --reject, --undo")
    if given:
        _act(*given[0], name, note, reviewer, db, as_json)
        return
    if note:
        raise InputError("--note is for a decision", hint="add --approve ID or --reject ID")
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    with opened(db) as connection:
        run_id, record = _named(connection, name)
        page = None if record is None else _page(connection, record)
        items = [] if page else _items(connection, run_id, everything)
    if page is not None:
        _one(page, db, reviewer, as_json=as_json, asks=asks)
        return
    if as_json:
        printing.document("review", {"candidates": [_item_fields(each) for each in items]})
        return
    _list(items, run_id, everything, db)
    if asks:
        waiting = [item for item in items if item.decided is None and item.why_not is None]
        _walk(waiting, db, reviewer)


def _act(
    decision: str,
    prefix: str,
    run_name: str | None,
    note: str,
    reviewer: str | None,
    db: Path | None,
    as_json: bool,
) -> None:
    from kernelsmith.lineage import queries

    with opened(db) as connection:
        within = None if run_name is None else queries.find_run(connection, run_name)
        record = queries.find_candidate(connection, prefix, within)
    who, note = _reviewer(reviewer), note.strip()
    page = _decide(record, decision, note, who, db)
    if as_json:
        _print_decision(page, decision, note, who)
    else:
        _say_decision(page, decision)


def _named(connection: Any, name: str | None) -> tuple[str | None, str | None]:
    """(run, None), (None, candidate's record) or (None, None) for all runs."""
    from kernelsmith.cli.reading import is_run
    from kernelsmith.lineage import queries

    if name is None:
        return None, None
    if is_run(connection, name):
        return queries.find_run(connection, name), None
    return None, queries.find_candidate(connection, name)


def _items(connection: Any, run_id: str | None, everything: bool) -> "list[ReviewItem]":
    from kernelsmith.lineage import review_queue

    found = review_queue.accepted_items(connection, run_id)
    return [item for item in found if everything or item.decided is None]


def _page(connection: Any, record: str) -> "Page":
    from kernelsmith.cli.review_page import page_of

    return page_of(connection, record)


def _decide(record: str, decision: str, note: str, who: str, db: Path | None) -> "Page":
    """Records a decision and reads the page again. What stands already is not said twice.

    Raises:
        InputError: it may not be approved, or nothing stands that could be taken back.
        EvidenceError: it is an approval, and the lineage was edited after it was recorded.
    """
    from kernelsmith.lineage.reviews import standing
    from kernelsmith.lineage.store import open_existing
    from kernelsmith.lineage.verify import require_intact

    store = open_existing(db or config.load().db)
    try:
        with store.database.reading() as connection:
            if decision == "approve":
                require_intact(connection)
            stands = standing(connection, record)
        said = (decision, who, note)
        if stands is None or (stands.decision, stands.reviewer, stands.note) != said:
            payload = {"record": record, "decision": decision, "reviewer": who, "note": note}
            store.append("", "review", payload)
        with store.database.reading() as connection:
            return _page(connection, record)
    finally:
        store.close()


def _reviewer(given: str | None) -> str:
    """Raises InputError where nobody is named."""
    who = options.chosen("--reviewer", given, config.user_name()).strip()
    if not who:
        raise InputError("who decides is not known", hint="add --reviewer NAME")
    return who


def _one(page: "Page", db: Path | None, reviewer: str | None, *, as_json: bool, asks: bool) -> None:
    from kernelsmith.cli.review_page import page_fields, show_page

    if as_json:
        printing.document("review_candidate", page_fields(page))
        return
    show_page(page, db)
    if asks:
        _ask(page, db, reviewer)
    else:
        where = printing.named_database(db)
        name = page.found.candidate.id
        print()
        if page.item is not None and page.item.why_not is None:
            print(f"  kernelsmith review --approve {name} --note TEXT{where}")
        print(f"  kernelsmith review --reject {name} --note TEXT{where}")


def _walk(waiting: "list[ReviewItem]", db: Path | None, reviewer: str | None) -> None:
    """Shows what may be approved, one after the other, and asks."""
    from kernelsmith.cli.review_page import show_page

    for number, item in enumerate(waiting, 1):
        with opened(db) as connection:
            page = _page(connection, item.record)
        print()
        print(f"── {number} of {len(waiting)} " + "─" * 60)
        show_page(page, db)
        if _ask(page, db, reviewer) == "quit":
            return


def _ask(page: "Page", db: Path | None, reviewer: str | None) -> str:
    """One question on the terminal; the answer, carried out. The end of the input is "quit"."""
    may = page.item is not None and page.item.why_not is None
    keys = [key for key in KEYS if may or key != "a"]
    words = ", ".join(f"[{key}]{KEYS[key][1:]}" for key in keys)
    print()
    while True:
        try:
            answer = input(f"{words}? ").strip().lower()
            decision = next((KEYS[key] for key in keys if answer in (key, KEYS[key])), None)
            if decision in ("approve", "reject"):
                note = input("note (why; Enter for none): ").strip()
        except EOFError:
            print()
            return "quit"
        if decision is not None:
            break
    if decision in ("approve", "reject"):
        who = _reviewer(reviewer)
        done = _decide(page.found.record, decision, note, who, db)
        _say_decision(done, decision)
    return decision


def _say_decision(page: "Page", decision: str) -> None:
    from kernelsmith.cli.verdicts import decision_words

    console = printing.out()
    name, stands = page.found.candidate.id, page.found.decision
    now = "it waits again" if stands is None else decision_words(stands)
    words = f"the decision was taken back; now {now}" if decision == "undo" else now
    printing.say_all(console, f"{name}  ", words)
    if decision != "approve" and page.exports and (stands is None or stands.decision == "reject"):
        folder = page.exports[-1]["folder"]
        printing.say(console, f"it was exported to {folder}, which still holds it", "yellow")


def _print_decision(page: "Page", decision: str, note: str, who: str) -> None:
    from kernelsmith.cli.verdicts import decision_fields

    found = page.found
    fields = {"candidate": found.candidate.id, "record": found.record, "run": found.run_id}
    said = {"decision": decision, "reviewer": who, "note": note}
    stands = decision_fields(found.decision)
    printing.document(
        "decision", {**fields, "task": found.candidate.task, **said, "stands": stands}
    )


def _item_fields(item: "ReviewItem") -> dict[str, Any]:
    from kernelsmith.cli.verdicts import decision_fields

    return {
        "candidate": item.id,
        "record": item.record,
        "run": item.run_id,
        "task": item.task,
        "device": item.device,
        "author": item.author,
        "rehearsal": item.rehearsal,
        "judged_at": item.judged_at,
        "place": item.place,
        "superseded_by": item.by,
        "approvable": item.why_not is None,
        "why_not": item.why_not,
        "gain": printing.gain_fields(item.final[1]) if item.final else None,
        "decision": decision_fields(item.decided),
    }


def _shortened(words: str) -> str:
    """The first line of a decision's words, as much as a list has room for."""
    line = words.partition("\n")[0]
    cut = line[:MOST_SHOWN_CHARACTERS].rstrip()
    return line if line == words and len(line) <= MOST_SHOWN_CHARACTERS else f"{cut} …"


def _list(items: "list[ReviewItem]", run_id: str | None, everything: bool, db: Path | None) -> None:
    from kernelsmith.cli.review_page import place_words
    from kernelsmith.cli.transcript import REHEARSAL
    from kernelsmith.cli.verdicts import decision_words

    console = printing.out()
    where = printing.named_database(db)
    if not items:
        what = "nothing was accepted" if everything else "nothing waits for review"
        printing.say(console, f"{what}{'' if run_id is None else f' in run {run_id}'}")
        return
    header = ("candidate", "task", "gain over seed", "96 % interval", "author", "place")
    for each in dict.fromkeys(item.run_id for item in items):
        own = [item for item in items if item.run_id == each]
        printing.say(console, f"run {each}  accepted ({own[0].device})", "bold")
        rows = []
        for item in own:
            gain, interval = "–", "–"
            if item.final is not None:
                gain = printing.times(item.final[1].geomean)
                interval = f"{item.final[1].low:.3f}–{item.final[1].high:.3f}"
            author = f"{item.author} ({REHEARSAL})" if item.rehearsal else item.author
            place = place_words(item)
            if item.decided is not None:
                place += f"; {_shortened(decision_words(item.decided))}"
            rows.append((item.id, item.task, gain, interval, author, place))
        for line in printing.aligned([header, *rows], (2,)):
            printing.say(console, f"  {line}")
    first = next((item for item in items if item.why_not is None), items[0])
    printing.say(console, "next:")
    printing.say(console, f"  kernelsmith review {first.id}{where}")
    if first.why_not is None and first.decided is None:
        printing.say(console, f"  kernelsmith review --approve {first.id} --note TEXT{where}")
