"""Consoles, JSON documents and how numbers are shown to people."""

import json
import re
import shlex
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.model import Gain

if TYPE_CHECKING:
    from rich.console import Console

# Controls, formats (bidi, zero width, tags), surrogates, private use, line and paragraph marks.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
# Letters and marks that show nothing all the same (Unicode's Default_Ignorable_Code_Point).
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)


def out() -> "Console":
    """The console of results: stdout."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, emoji=False)


def err() -> "Console":
    """The console of progress: stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def say(console: "Console", line: str = "", style: str = "") -> None:
    """Prints one line, whoever wrote what is in it: no markup, nothing that a terminal obeys."""
    console.print(visible(line), style=style, markup=False)


def say_all(console: "Console", label: str, text: str, style: str = "") -> None:
    """Prints a text of any number of lines; the lines after the first stand under its first, so
    that none of them can pass for a line of ours."""
    for line in text.removesuffix("\n").split("\n"):
        say(console, (label + line).rstrip(" "), style)
        label = " " * len(label)


def visible(line: str) -> str:
    """``line`` with every character that a terminal obeys or does not show (control characters,
    escape sequences, bidi controls, zero-width characters, lone surrogates, line ends) written as
    an escape; tabs stay."""
    return "".join(
        _escaped(each) if unicodedata.category(each) in _HIDDEN or _BLANK.match(each) else each
        for each in line
    )


def _escaped(character: str) -> str:
    if character == "\t":
        return character
    code = ord(character)
    form = "\\x{:02x}" if code < 0x100 else "\\u{:04x}" if code < 0x10000 else "\\U{:08x}"
    return form.format(code)


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows (the first is the header) as lines of columns. Nothing is ever cut to fit a terminal:
    ids are there to be copied. ``right``: columns that align to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return [lines[0], "  ".join("─" * width for width in widths), *lines[1:]]


def document(name: str, fields: Mapping[str, Any]) -> None:
    """Prints the one JSON document of a command on stdout; ``schema`` comes first."""
    from kernelsmith.lineage.records import plain

    json.dump({"schema": f"kernelsmith.{name}/1", **plain(fields)}, sys.stdout, indent=2)
    sys.stdout.write("\n")


def times(gain: float | None) -> str:
    """A gain as people say it: ``1.24x``."""
    return "–" if gain is None else f"{gain:.3f}x"


def gain_line(gain: Gain | None) -> str:
    """A gain with its interval: ``1.240x (1.228 to 1.251, 20 sessions)``."""
    if gain is None:
        return "–"
    return f"{times(gain.geomean)} ({gain.low:.3f} to {gain.high:.3f}, {gain.sessions} sessions)"


def gain_fields(gain: Gain | None) -> dict[str, Any] | None:
    """A gain in the JSON contract."""
    if gain is None:
        return None
    return {
        "geomean": gain.geomean,
        "low": gain.low,
        "high": gain.high,
        "sessions": gain.sessions,
        "against": gain.against,
        "cases": [{"case": c.case, "path": c.path, "gain": c.gain} for c in gain.cases],
    }


def named_database(db: Path | None) -> str:
    """What a next command needs to find the same database."""
    return "" if db is None else f" --db {shlex.quote(str(db))}"


def counted(count: int, what: str) -> str:
    """``1 session``, ``2 sessions``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """``1:02:03``, ``4:05``."""
    whole = int(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def status_words(status: str, device: str) -> str:
    """``accepted (cpu)``: a verdict is about the device it was reached on."""
    return f"accepted ({device})" if status == "ACCEPTED" else status
