"""How the played model spells its tool calls: every one is JSON, no two writers agree on how."""

import json
import random
from typing import Any

from kernelsmith.rehearsal.replies import ToolCall

SPELLINGS = ("compact", "spaced", "escaped", "slashed", "indented")


def call(name: str, spelling: str = "", /, **given: Any) -> ToolCall:
    """A tool call. Without a ``spelling`` one is chosen by what is said, always the same."""
    if spelling == "":
        spelling = random.Random(f"{name}{given}").choice(SPELLINGS)
    match spelling:
        case "compact":
            text = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
        case "spaced":
            text = json.dumps(given, ensure_ascii=False)
        case "escaped":
            text = json.dumps(given)
        case "slashed":
            text = json.dumps(given, separators=(",", ": ")).replace("/", "\\/")
        case _:
            text = json.dumps(given, ensure_ascii=False, indent=2)
    return ToolCall(name, text)
