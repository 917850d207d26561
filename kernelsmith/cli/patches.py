"""What one source changed against another, as a patch that ``git apply`` and ``patch -p1`` take."""

import difflib
import re
import sys
from pathlib import Path

from kernelsmith.cli import printing

CONTEXT_LINES = 3
SHIPPED_SEEDS = "seed_kernels"
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_NO_NEWLINE = "\\ No newline at end of file\n"


def patch(old: str, new: str, path: str) -> str:
    """A unified diff in git's form that turns a file ``path`` holding ``old`` into ``new``; ""
    where both are equal. It is exact: byte for byte what either source holds, newlines at the
    end, carriage returns and form feeds included."""
    if old == new:
        return ""
    lines = list(
        difflib.unified_diff(
            _lines(old), _lines(new), f"a/{path}", f"b/{path}", lineterm="\n", n=CONTEXT_LINES
        )
    )
    body = [line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines]
    return "".join([f"diff --git a/{path} b/{path}\n", *body])


def seed_path(seed_name: str, task: str, folder: Path, here: Path) -> str:
    """Where a seed lies as seen from ``here``, which is what a patch against it is for. A folder
    elsewhere is called by its last name; what git would have to quote gives way to a plain name."""
    name = seed_name.removesuffix(".py")
    inside = folder.relative_to(here) if folder.is_relative_to(here) else Path(folder.name)
    if not _PLAIN.fullmatch(name):
        name = task
    plain = inside == Path() or _PLAIN.fullmatch(inside.as_posix())
    return ((inside if plain else Path(SHIPPED_SEEDS)) / f"{name}.py").as_posix()


def show(text: str) -> None:
    """A patch on stdout: coloured, and nothing in it obeyed, on a terminal; else its very bytes,
    whatever the terminal's encoding, so that what is piped into ``git apply`` is what was said."""
    console = printing.out()
    if console.is_terminal:
        for line in text.removesuffix("\n").split("\n") if text else []:
            printing.say(console, line, colour(line))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def colour(line: str) -> str:
    """The style of one line of a patch."""
    if line.startswith(("diff --git ", "--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def _lines(source: str) -> list[str]:
    """Lines with their newlines. ``splitlines`` would end one at a form feed and hide it."""
    lines = source.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
