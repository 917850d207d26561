"""Progress of a run on stderr: a live table on a terminal, else one line an event."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from kernelsmith.cli import printing
from kernelsmith.loop import Happening
from kernelsmith.model import Candidate, Verdict
from kernelsmith.pauses import Pauses

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

CHANGES_CHARACTERS = 100


class Report(Protocol):
    """What a loop calls. ``age_s``: how long ago it happened."""

    def __call__(self, happening: Happening, age_s: float = 0.0) -> None: ...


@contextmanager
def progress(
    device: str, console: "Console | None" = None, pauses: Pauses | None = None
) -> Iterator[Report]:
    """Gives the ``report`` that a loop calls. ``console``: stderr unless another is given;
    ``pauses``: the run's, where it is this process's own."""
    console = console or printing.err()
    pauses = pauses or Pauses()
    if not console.is_terminal:
        yield lambda happening, age_s=0.0: _print_line(console, happening, device)
        return
    from rich.live import Live

    latest: list[tuple[Happening, float]] = []  # and when it came, so that the clock ticks between

    def screen() -> "Table | str":
        if not latest:
            return "starting …"
        happening, came_s = latest[-1]
        return _table(happening, pauses.clock() - came_s, _pause_of(pauses))

    with Live(get_renderable=screen, console=console, refresh_per_second=2, transient=True) as live:

        def report(happening: Happening, age_s: float = 0.0) -> None:
            latest[:] = [(happening, pauses.clock() - age_s)]
            if happening.kind not in ("proposed", "waiting") and not _is_dull(happening):
                _print_line(live.console, happening, device)

        yield report


def _is_dull(happening: Happening) -> bool:
    """On a terminal the table counts rejections; they need no line each."""
    verdict = happening.verdict
    return happening.kind == "duplicate" or (verdict is not None and not verdict.accepted)


def _print_line(console: "Console", happening: Happening, device: str) -> None:
    words = _words(happening, device)
    if words:
        stamp = printing.duration(happening.elapsed_s)
        printing.say(console, "  ".join(filter(None, (f"{stamp:>7}", happening.task, words))))


def _words(happening: Happening, device: str) -> str:
    name = happening.candidate.id if happening.candidate else ""
    if happening.kind == "proposed" and happening.candidate is not None:
        return f"{name}  judging: {_what(happening.candidate)}"
    if happening.kind == "judged" and happening.verdict is not None:
        return f"{name}  {_verdict_words(happening.verdict, device)}"
    if happening.kind == "duplicate":
        return f"{name}  dropped: {happening.note}"
    if happening.kind == "set_aside":
        return f"{name}  set aside, the machine failed on it twice: {happening.note}"
    if happening.kind == "notice":
        return happening.note
    if happening.kind == "agent_ended":
        return f"the agent ended: {happening.note}; the search goes on"
    if happening.kind == "retiming":
        return f"{name}  timing the winner against the seed, 20 sessions …"
    if happening.kind == "retimed":
        here = next(each for each in happening.tasks if each.task == happening.task)
        return (
            f"{name}  {printing.gain_line(here.retimed)}"
            if here.retimed
            else (
                f"{name}  is not faster than the seed when timed against it; its ancestor is next"
            )
        )
    if happening.kind == "exploring_done":
        return f"exploring ends: {REASONS[happening.note]}"
    if happening.kind in SILENT:
        return ""
    words = [name, happening.kind.replace("_", " "), happening.note and f"({happening.note})"]
    return "  ".join(word for word in words if word)


def _what(candidate: Candidate) -> str:
    """What a candidate changes, in a line's length."""
    text = "; ".join(part for part in (candidate.note, ", ".join(candidate.changes)) if part)
    return text if len(text) <= CHANGES_CHARACTERS else f"{text[:CHANGES_CHARACTERS]} …"


SILENT = (
    *("waiting", "run", "proved", "session", "call", "call_stalled", "answer", "tool_result"),
    *("session_end", "review", "export"),
)
"""Steps that need no line: a conversation has its own command."""
REASONS = {
    "time": "what is left of the time is for a final timing",
    "candidates": "the number of candidates is reached",
    "exhausted": "the proposer has nothing left to try",
    "stop": "someone asked it to stop",
}


def _verdict_words(verdict: Verdict, device: str) -> str:
    seconds = sum(check.seconds for check in verdict.checks)
    words = printing.status_words(verdict.status, device)
    failing = next((check for check in verdict.checks if check.status == "fail"), None)
    if failing is not None:
        words += f" at {failing.name}: {failing.message}"
    elif verdict.gain is not None:
        gain = verdict.gain
        words += f" {printing.times(gain.geomean)} over {gain.against}"
    return f"{words} ({seconds:.1f} s)"


def _pause_of(pauses: Pauses) -> str:
    """How a run is paused, or about to be; "" if it goes on."""
    if pauses.level is None:
        return ""
    return f"{'paused' if pauses.clock.stands else 'pausing'} ({pauses.level})"


def _table(happening: Happening, since_s: float, pause: str) -> "Table":
    """``since_s``: active seconds since it happened; ``pause``: see :func:`_pause_of`."""
    from rich.table import Table
    from rich.text import Text

    since_s = 0.0 if happening.kind == "paused" else since_s
    elapsed_s = happening.elapsed_s + since_s
    spend = happening.standing or "no model, no spend"
    title = (
        f"{printing.duration(elapsed_s)} gone, "
        f"{printing.duration(max(0.0, happening.left_s - since_s))} left · {spend}"
    )
    now = ""
    if happening.kind == "proposed" and happening.candidate is not None:
        what = _what(happening.candidate)
        now = f"judging {happening.candidate.id} of {happening.task} since {since_s:.0f} s: {what}"
    elif happening.kind == "retiming" and happening.candidate is not None:
        now = f"timing {happening.candidate.id} against the seed since {since_s:.0f} s"
    if pause or happening.kind == "paused":
        now = pause or "paused"
    table = Table(
        title=Text(printing.visible(title)),
        title_justify="left",
        caption=Text(printing.visible(now)),
        caption_justify="left",
    )
    for column in ("task", "judged", "per hour", "accepted", "dropped", "best so far (estimate)"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for each in happening.tasks:
        best = printing.gain_line(each.retimed) if each.retimed else printing.times(each.estimate)
        table.add_row(
            each.task,
            str(each.judged),
            f"{each.judged * 3600 / max(elapsed_s, 1.0):.0f}",
            str(each.accepted),
            str(each.duplicates),
            best if each.accepted else "the seed stands",
        )
    return table
