"""The soak's table, from ``benchmarks/results/night_soak.json``."""

import json
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parent / "results" / "night_soak.json"
WORDS = {
    "loop_bytes": "memory of the loop",
    "workers_bytes": "memory of its workers",
    "spool_bytes": "bytes of its spool",
    "open": "open descriptors of the loop",
    "workers_open": "open descriptors of its workers",
    "threads": "threads of the loop",
    "processes": "processes it started",
    "spool_entries": "files and folders of its spool",
}
MIB = 1 << 20


def table() -> str:
    """What the run was, and each quantity's level and growth, Markdown."""
    document = json.loads(RESULT.read_text())
    return "\n".join([*_run(document), "", *_rows(document)]) + "\n"


def figures(document: Any) -> list[tuple[str, str]]:
    """The README's line."""
    flat = sum(document["flat"].values())
    minutes = document["seconds"] / 60
    return [
        (
            f"a soak of {minutes:.0f} minutes, {document['judged']} candidates that are accepted, "
            "rejected, hang and kill their worker: quantities that are flat",
            f"{flat} of {len(document['flat'])}",
        )
    ]


def _run(document: Any) -> list[str]:
    machine, grown, left = document["machine"], document["database"], document["left_behind"]
    statuses = ", ".join(f"{count} `{name}`" for name, count in document["statuses"].items())
    first, second = (grown[f"bytes_a_candidate_{half}_half"] / 1024 for half in ("first", "second"))
    when, minutes = document["written_at"][:16].replace("T", " "), document["seconds"] / 60
    return [
        f"Measured {when} UTC on {machine['cores']} cores, behind {document['sandbox']}, "
        f"{minutes:.0f} minutes, load average before: {machine['load_1m_before']:.1f}. "
        f"{document['judged']} verdicts: {statuses}; {document['events'].get('duplicate', 0)} "
        f"repeats were dropped. The database grew by {first:.0f} KiB a candidate in the first half "
        f"and {second:.0f} in the second; findings of `lineage verify`: "
        f"{len(document['lineage_problems'])}. Left behind after the end: {left['processes']} "
        f"processes, {left['spools']} spools."
    ]


def _rows(document: Any) -> list[str]:
    rows = ["| held | level | grew, 95 % interval | may grow | flat |", "|---|---|---|---|---|"]
    for name, words in WORDS.items():
        one, unit = document["trends"][name], MIB if name.endswith("bytes") else 1
        level, grew, low, high, may = (
            _number(one[key] / unit, unit) for key in ("level", "grew", "low", "high", "may_grow")
        )
        flat = "yes" if document["flat"][name] else "**no**"
        rows.append(f"| {words} | {level} | {grew} ({low} to {high}) | {may} | {flat} |")
    return rows


def _number(value: float, unit: int) -> str:
    return f"{value:.1f} MiB" if unit == MIB else f"{value:.1f}"
