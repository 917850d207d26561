"""Where trials of null sessions are kept: lines while they are taken, one document for the record.

A line of the state is one trial with its sessions. The document has the same trials, with what they
were timed on, small enough to be committed; whatever is said of them can be computed from it anew.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelsmith import devices

Trial = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "benchmarks" / "results" / "null_sessions.json"
STATE = ROOT / "build" / "null_sessions.jsonl"
VARIANTS = ROOT / "benchmarks" / "null_variants.py"
SCHEMA = "kernelsmith.null_sessions/2"
# What lays out, times and decides; other code may change between two starts.
TIMING_CODE = (
    "gate/confirm.py",
    "gate/latency_rule.py",
    "gate/sessions.py",
    "worker/clock.py",
    "worker/launcher_bind.py",
    "worker/session.py",
    "worker/session_case.py",
    "worker/session_octets.py",
    "worker/session_pool.py",
    "worker/session_slots.py",
)
SESSION_COLUMNS = ("warm", "cold", "<cases>", "seconds", "processor_share", "preemptions")


def timing_code() -> str:
    """A digest of what is timed, of the code that times and decides, and of the device's
    compiler."""
    digest = hashlib.sha256(devices.get("cpu").describe()["key"].encode())
    for path in (*(ROOT / "kernelsmith" / name for name in TIMING_CODE), VARIANTS):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def append(state: Path, trial: Trial) -> None:
    """Adds one trial; what was there before stays whole, whenever this is cut off."""
    state.parent.mkdir(parents=True, exist_ok=True)
    cut = state.exists() and not state.read_bytes().endswith(b"\n")
    with state.open("a") as lines:
        lines.write(("\n" if cut else "") + json.dumps(trial) + "\n")


def read_state(state: Path) -> list[Trial]:
    """All whole trials of a state; a line that was cut off is left out."""
    trials = []
    for line in state.read_text().splitlines() if state.exists() else []:
        try:
            trials.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return trials


def document(found: Sequence[Trial], facts: dict[str, Any]) -> dict[str, Any]:
    """What is committed. ``facts``: device, rule, sandbox, cores. Trials that the machine broke off
    have no decision: they are counted alone."""
    trials = [trial for trial in found if "broken" not in trial]
    return {
        "schema": SCHEMA,
        **facts,
        "session_columns": SESSION_COLUMNS,
        "timing_code": Counter(trial["code"] for trial in trials),
        "broken_off": len(found) - len(trials),
        "counts": counts(trials),
        "trials": trials,
    }


def counts(trials: Sequence[Trial]) -> dict[str, dict[str, int]]:
    """Trials and sessions by what was planted and by condition."""
    found: dict[str, dict[str, int]] = {}
    for trial in trials:
        if "broken" in trial:
            continue
        planted = trial["planted_percent"]
        kind = f"planted {planted:g} %" if planted else "null"
        each = found.setdefault(f"{kind}, {trial['condition']}", {"trials": 0, "sessions": 0})
        each["trials"] += 1
        each["sessions"] += len(trial["sessions"])
    return dict(sorted(found.items()))


def write(path: Path, content: dict[str, Any]) -> None:
    """Replaces a document in one step; a trial stays on one line."""
    trials = content.get("trials")
    text = json.dumps({**content, "trials": None} if trials else content, indent=1)
    if trials:
        lines = ",\n".join(json.dumps(trial, separators=(",", ":")) for trial in trials)
        text = text.replace('"trials": null', f'"trials": [\n{lines}\n]')
    part = path.with_suffix(".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(text + "\n")
    part.replace(path)
