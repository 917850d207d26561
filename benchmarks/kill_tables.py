"""The tables of kills and of struck points, from ``night_kills.json``."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parent / "results" / "night_kills.json"
TARGETS = {
    "loop": "the loop's process",
    "wall": "bubblewrap around a worker",
    "supervisor": "a container's supervisor (PID 1)",
    "template": "a worker's template",
    "job": "a job's process",
    "engine": "the Docker engine",
    "proxy": "`kernelsmith proxy`, calls under way",
    "agent": "the loop's process, the agent's calls under way",
}
FAULTS = {
    "kill": "killed before the call",
    "torn": "half of the write made, then killed",
    "ENOSPC": "no space",
    "EIO": "input/output error",
    "EROFS": "read-only file system",
    "power": "power cut: of what was not synced, any part",
}


def kills() -> str:
    """Moments by what was killed, with what was under way."""
    document = json.loads(RESULT.read_text())
    rows = ["| killed | in | moments | under way | lost | doubled |", "|---|---|---|---|---|---|"]
    for target, words in TARGETS.items():
        own = [each for each in document["moments"] if each["target"] == target]
        for sandbox in sorted({each.get("sandbox", "") for each in own}):
            some = [each for each in own if each.get("sandbox", "") == sandbox]
            doing = Counter(each["under_way"] for each in some)
            told = ", ".join(f"{what} {count}" for what, count in doing.most_common())
            lost, doubled = (_count(some, word) for word in ("lost", "doubled"))
            rows.append(
                f"| {words} | {sandbox or '–'} | {len(some)} | {told} | {lost} | {doubled} |"
            )
    rows.append(f"| all | | {document['killed']} | | {document['lost']} | {document['doubled']} |")
    last = document["calls"][-1]
    when = (
        f"\nUp to {last['written_at'][:16].replace('T', ' ')} UTC, {last['cores']} cores, load "
        f"{last['load_1m_before']:.1f}; goes on with each `make proof-night`.\n"
    )
    return "\n".join(rows) + "\n" + when + _problems(document)


def points() -> str:
    """Struck calls by fault, with how many there are."""
    document = json.loads(RESULT.read_text())["points"]
    rows = ["| fault | at calls | of a run's | problems |", "|---|---|---|---|"]
    for fault, words in FAULTS.items():
        some = [each for each in document["struck"] if each["fault"] == fault]
        wrong = sum(bool(each.get("problems")) for each in some)
        rows.append(f"| {words} | {len(some)} | {document['of_a_run']} | {wrong} |")
    return "\n".join(rows) + "\n"


def figures(document: Any) -> list[tuple[str, str]]:
    """Lines of the README's table."""
    return [
        (
            f"runs killed at {document['killed']} random moments, struck at {document['struck']} "
            "writes and messages: verdicts lost, doubled",
            f"{document['lost']}, {document['doubled']}",
        )
    ]


def _count(moments: list[dict[str, Any]], word: str) -> int:
    told = [each for moment in moments for each in moment.get("problems", ())]
    return sum(each.startswith(word) for each in told)


def _problems(document: dict[str, Any]) -> str:
    if not document["problems"]:
        return ""
    return "\nProblems:\n\n" + "".join(f"- {each}\n" for each in document["problems"])
