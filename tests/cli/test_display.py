"""What a run shows while it goes on: nothing that a candidate's author wrote reaches a terminal."""

import io
import sys

import pytest
from rich.console import Console

from kernelsmith import loop
from kernelsmith.cli import display
from kernelsmith.lane import Progress
from kernelsmith.model import new_candidate
from kernelsmith.pauses import Level, Pauses

HOSTILE = "faster \x1b]0;owned\x07 [red]x[/red] \u202egnp\u202c :smile:"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def happening(kind: str) -> loop.Happening:
    candidate = new_candidate("x", "toy", author="agent", note=HOSTILE)
    progress = Progress(
        task="toy", judged=1, accepted=0, duplicates=0, incumbent="s", estimate=1.0, retimed=None
    )
    return loop.Happening(
        kind=kind,
        task="toy",
        elapsed_s=1.0,
        left_s=2.0,
        tasks=(progress,),
        candidate=candidate,
        note=HOSTILE,
        standing=f"agent: {HOSTILE}",
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_notes_are_shown_and_never_obeyed(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "dumb")
    with display.progress("cpu") as report:
        for kind in ("waiting", "proposed", "set_aside", "duplicate"):
            report(happening(kind))
    shown = stream.getvalue()
    assert r"\x1b]0;owned\x07" in shown
    assert "[red]x[/red]" in shown
    assert "\x1b]0;" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize(
    ("level", "stands", "told"),
    [
        (None, False, "judging"),
        ("resident", False, "pausing (resident)"),  # its judgement under way ends first
        ("freeze", True, "paused (freeze)"),
    ],
)
def test_a_paused_run_says_so(level: Level | None, stands: bool, told: str) -> None:
    stream, pauses = io.StringIO(), Pauses()
    if level:
        pauses.close(level)
    if stands:
        pauses.clock.stop()
    shown_as = display._pause_of(pauses)
    Console(file=stream, width=200).print(display._table(happening("proposed"), 30.0, shown_as))
    shown = stream.getvalue()
    assert "0:31 gone" in shown
    assert told in shown
    assert ("since 30 s" in shown) == (level is None)
