"""Text of others on a terminal: shown whole, obeyed never."""

import io

import pytest

from kernelsmith.cli import printing


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain = 1  # größer, 漢字 🙂", "plain = 1  # größer, 漢字 🙂"),
        ("a\tb", "a\tb"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b31m\x07\x7f\x00\r\n", r"\x9b31m\x07\x7f\x00\x0d\x0a"),
        ("\u202eright to left\u2066\u200e", r"\u202eright to left\u2066\u200e"),
        ("zero\u200bwidth\u2060\ufeff\u00ad", r"zero\u200bwidth\u2060\ufeff\xad"),
        ("line\u2028end\x85", r"line\u2028end\x85"),
        ("tags \U000e0041\U000e0100 \ufe0f", r"tags \U000e0041\U000e0100 \ufe0f"),
        ("blanks \u3164\u115f\u034f", r"blanks \u3164\u115f\u034f"),
        ("alone \ud800", r"alone \ud800"),
    ],
)
def test_what_a_terminal_obeys_or_hides_is_written_out(text: str, seen: str) -> None:
    assert printing.visible(text) == seen


def said(text: str, *, label: str | None = None) -> str:
    console = printing.out()
    console.file = io.StringIO()
    if label is None:
        printing.say(console, text)
    else:
        printing.say_all(console, label, text)
    return console.file.getvalue()


@pytest.mark.parametrize("text", ["x[:100:2]", "[bold]x[/bold]", ":smile: [link=a]b[/link]", ""])
def test_a_line_is_printed_as_it_is(text: str) -> None:
    assert said(text) == text + "\n"


def test_later_lines_of_a_text_stand_under_its_first() -> None:
    text = "tiles\nverdict    accepted\n\nend\n"
    assert said(text, label="note  ") == "note  tiles\n      verdict    accepted\n\n      end\n"
