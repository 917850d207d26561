"""What several tests of commands ask."""

import json
from collections.abc import Callable
from typing import Any

Kernelsmith = Callable[..., tuple[int, str, str]]


def run_of(kernelsmith: Kernelsmith, *words: str) -> dict[str, Any]:
    """A run of eight candidates, three of them accepted, in the JSON form of ``runs``."""
    limits = ["--max-candidates", "8", "--seed", "4", "--json"]
    code, out, _ = kernelsmith("run", "toy", *limits, *words)
    assert code == 0
    return dict(json.loads(out)["runs"][0])


def one_error_line(said: str) -> str:
    """The error line of stderr; there is one, and its hint is the last line."""
    lines = said.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1
    assert lines[-1].startswith("hint: ")
    assert "Traceback" not in said
    return errors[0]
