"""JSON of many alike rows, one a line: a change of one is one line of a diff."""

import json
from collections.abc import Mapping
from typing import Any


def text(document: Mapping[str, Any], rows: str) -> str:
    """The document indented; its list ``rows``, which goes last, has an element a line."""
    lines = ",\n  ".join(map(json.dumps, document[rows]))
    rest = {name: value for name, value in document.items() if name != rows}
    whole = json.dumps({**rest, rows: []}, indent=1)
    return whole.removesuffix("[]\n}") + (f"[\n  {lines}\n ]\n}}\n" if lines else "[]\n}\n")
