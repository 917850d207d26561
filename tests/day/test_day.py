"""The whole day of a user, as a transcript: every command of ``day.txt`` is run in order, and what
it prints is what stands there. ``python -m tests.day.test_day`` writes the file anew.

Proposals and the clock are told (``told.py``); bits, export, verification and the record are real.
``verify`` runs in a process of its own, as it does in anybody's CI.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = str(HERE.parents[1])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from kernelsmith.cli.main import main  # noqa: E402
from tests.day.told import told_wiring  # noqa: E402

TRANSCRIPT = HERE / "day.txt"
CONSOLE = "import sys; from kernelsmith.cli.main import main; sys.exit(main())"
# What differs from machine to machine and from day to day.
LOOSE = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "RUN"),
    (re.compile(r"\b(e|epoch )[0-9a-f]{16}\b"), r"\1EPOCH"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+Z)?)?"), "TIME"),
    (re.compile(r" *\b\d+:\d\d\b"), " CLOCK"),
    (re.compile(r"\d+\.\d+ s\b"), "SECONDS"),
    (re.compile(r"Triton [\d.]+"), "TRITON"),
    (re.compile(r"\d+ steps, \d+ rows"), "STEPS, ROWS"),
    (re.compile(r"(/[\w.-]+)+/our_kernels"), "FOLDER/our_kernels"),
    (re.compile(r"\d+ of \d+ elements differ.*"), "ELEMENTS"),
    (re.compile(r"no autograd: .*"), "no autograd"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"─+"), "─"),
)


def commands(text: str) -> list[str]:
    """The lines that a user types."""
    return [line[2:] for line in text.splitlines() if line.startswith("$ ")]


def played(command: str) -> str:
    """What a command prints in the current folder, errors first, and how it ended."""
    words = shlex.split(command)
    if words[0] != "kernelsmith" or words[1] == "verify":
        line = command
        if words[0] == "kernelsmith":
            line = shlex.join([sys.executable, "-c", CONSOLE, *words[1:]])
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        done = subprocess.run(
            ["sh", "-c", line],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        code, said = done.returncode, done.stderr + done.stdout
    else:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words[1:], told_wiring())
        said = ""
        for stream in (err, out):
            stream.seek(0)
            said += stream.read()
    return said + (f"[exit {code}]\n" if code else "")


def transcript() -> str:
    """The day again, in the current folder."""
    shutil.copytree(HERE / "tasks", "tasks")
    typed = commands(TRANSCRIPT.read_text(encoding="utf-8"))
    return "\n".join(f"$ {command}\n{played(command)}" for command in typed)


def loosened(text: str) -> list[str]:
    """Lines without what may differ."""
    for pattern, name in LOOSE:
        text = pattern.sub(name, text)
    return [line.rstrip() for line in text.splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("KERNELSMITH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_the_whole_day_is_as_the_transcript_says(folder: Path) -> None:
    assert loosened(transcript()) == loosened(TRANSCRIPT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        written = transcript().replace(place, "/home/ann")
    TRANSCRIPT.write_text(written, encoding="utf-8")
