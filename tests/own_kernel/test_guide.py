"""The guide to one's own kernel, walked: files saved, commands run, outputs compared."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernelsmith import catalog
from kernelsmith.cli.main import main
from kernelsmith.proposers.search import Search
from kernelsmith.wiring import real
from tests.loop.fake_wiring import fake_wiring

Kernelsmith = Callable[..., tuple[int, str, str]]
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "your-kernel.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"`([\w.]+)`:\n\Z")
REAL = ("gate", "run", "runs")  # of section 5: what takes minutes


def steps() -> list[tuple[list[str], str]]:
    """(words of a command, what the guide shows of its output) of every ``sh`` block."""
    found: list[tuple[list[str], str]] = []
    for kind, body in BLOCK.findall(GUIDE.read_text()):
        if kind == "sh":
            found += [(shlex.split(line)[1:], "") for line in body.splitlines()]
        elif kind == "text":
            found[-1] = (found[-1][0], body)
    return found


def save_files(folder: Path) -> None:
    """Each code block that the guide says to save, under its name."""
    text = GUIDE.read_text()
    for match in BLOCK.finditer(text):
        named = SAVED.search(text[: match.start()].rstrip("\n") + "\n")
        if match.group(1) in ("python", "json") and named:
            (folder / named.group(1)).write_text(match.group(2))


def test_every_cheap_command_prints_what_the_guide_shows(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    save_files(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} >= {"row_softmax.py", "calls.jsonl"}
    shown = [step for step in steps() if step[0][0] not in REAL]
    assert len(shown) == 5
    for words, text in shown:
        _, out, err = kernelsmith(*words)
        assert out + err == text, words


def test_the_run_of_the_guide_starts_from_the_task_that_it_made(
    kernelsmith: Kernelsmith, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The real catalog, loop and database; the gate and the proposer are fakes."""
    save_files(tmp_path)
    for words, _ in steps():
        if words[0] not in REAL:
            kernelsmith(*words)
    wiring = replace(fake_wiring(), load_task=real().load_task, list_tasks=real().list_tasks)
    for words, _ in steps():
        if words[0] in REAL[1:]:
            assert main(words, wiring) == 0
    assert "row_softmax" in capsys.readouterr().out
    task = catalog.load_task("row_softmax", "cpu", [tmp_path / "tasks"])
    first = Search(1).propose(task, ())
    assert first is not None
    assert first.source != task.seed_source


@pytest.mark.slow
def test_the_guide_from_the_seed_to_a_verified_library(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    save_files(tmp_path)
    for words, _ in steps():
        code, out, err = kernelsmith(*words)
        if words[0] == "gate":
            assert code == 1, err
            assert "NOT_FASTER" in out
        if words[0] == "run":
            assert code == 0, err
    (run,) = json.loads(kernelsmith("runs", "--json")[1])["runs"]
    winner = run["tasks"][0]["incumbent"]
    assert run["tasks"][0]["accepted"] > 0
    for words in shipping(winner):
        code, out, err = kernelsmith(*words)
        assert code == 0, (words, out, err)


def shipping(winner: str) -> list[list[str]]:
    """The commands of the last block of the guide, for this candidate."""
    last = [body for kind, body in BLOCK.findall(GUIDE.read_text()) if kind == ""][-1]
    return [shlex.split(line.replace("CANDIDATE", winner))[1:] for line in last.splitlines()]


def test_the_last_block_of_the_guide_decides_exports_and_verifies() -> None:
    assert [words[0] for words in shipping("c")] == ["review", "review", "export", "verify"]
