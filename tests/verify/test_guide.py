"""The guide names every drift and every exit code that there is."""

import typing
from pathlib import Path

from kernelsmith.cli.verifying import EXITS
from kernelsmith.library.findings import Kind

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "verifying.md").read_text()


def test_the_guide_names_every_kind_of_drift() -> None:
    missing = [kind for kind in typing.get_args(Kind) if f"`{kind}`" not in GUIDE]
    assert not missing


def test_the_guide_names_every_exit_of_replay() -> None:
    section = GUIDE.partition("kernelsmith replay CANDIDATE")[2]
    assert all(f"| {code} |" in section for code in EXITS.values())
