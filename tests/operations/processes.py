"""What tests of running processes share."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, str(Path(__file__).parents[1] / "loop" / "fake_wiring.py")]
LONG = ("--time-limit", "1h")
SHORT = ("--max-candidates", "6", "--seed", "4")
TIMEOUT_S = 60.0


def until(what: Callable[[], Any]) -> Any:
    """What it gives once it gives anything."""
    give_up_s = time.monotonic() + TIMEOUT_S
    while not (found := what()):
        assert time.monotonic() < give_up_s, "it did not come"
        time.sleep(0.005)
    return found


def lines(text: str) -> list[dict[str, Any]]:
    """JSON lines."""
    return [json.loads(line) for line in text.splitlines()]
