"""The documents stay true: commands exist, links lead somewhere, figures are the committed ones."""

import importlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from kernelsmith.cli import reference
from kernelsmith.cli.main import build_app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RESULTS = ROOT / "benchmarks" / "results"


def commands(page: Path) -> list[str]:
    """Lines of code blocks that call kernelsmith or make, comments cut off."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(("kernelsmith ", "make "))]


PAGES_TO_TYPE = [page for page in PAGES if page.name != "cli.md"]
TYPED = [(page.name, line) for page in PAGES_TO_TYPE for line in commands(page)]


def test_the_cli_reference_is_what_the_commands_say() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == reference.render()


def test_the_readme_shows_commands() -> None:
    assert any(page == "README.md" for page, _ in TYPED)


@pytest.mark.parametrize(("page", "line"), TYPED, ids=[line for _, line in TYPED])
def test_every_command_in_the_documents_parses(page: str, line: str) -> None:
    words = shlex.split(line)
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert next(word for word in words[1:] if "=" not in word) in targets
        return
    command: Any = typer.main.get_command(build_app())
    name, rest, context = "kernelsmith", words[1:], None
    while rest and rest[0] in getattr(command, "commands", {}):
        context = command.context_class(command, info_name=name, parent=context)
        name, rest = rest[0], rest[1:]
        command = command.commands[name]
    assert not hasattr(command, "commands"), f"{page}: no such command: {line}"
    command.make_context(name, rest, parent=context)  # raises where an option is unknown


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (page.parent / target).exists(), target


def test_committed_results_say_what_they_are() -> None:
    for path in RESULTS.glob("*.json"):
        document = json.loads(path.read_text())
        assert isinstance(document, dict), path.name
        assert document.get("schema", "").startswith("kernelsmith"), path.name


def test_the_generated_tables_are_those_of_the_committed_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    figures = importlib.import_module("figures")
    found = list(figures.blocks())
    assert sorted(name for _, name, _ in found) == sorted(figures.BLOCKS)
    for page, name, written in found:
        assert written == figures.BLOCKS[name](), page.name
