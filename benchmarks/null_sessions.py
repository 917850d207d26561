"""Identical kernels against each other under the latency rule: false accepts and power.

    python benchmarks/null_sessions.py [--minutes 25] [--sessions 300] [--quick]

Real sessions through the gate's own code: two variants of a seed (``null_variants``) are traced,
compiled and timed on fresh inputs until the rule accepts or gives up. Tasks take turns by the
number of sessions they have. Once each has ``--sessions`` (or seven eighths of the time are over)
the rest goes to trials with a known gain. The document says how many sessions and trials of each
task there were, and whether what was asked for was reached.

Every trial is appended to ``build/null_sessions.jsonl``; a later start goes on from there. A line
is marked with the code that timed it (gate, worker, device): those of other code are left out.
Writes ``benchmarks/results/null_sessions.json`` every ten trials and at the end. Run it on a
machine with nothing else to do.
"""

import argparse
import datetime
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from null_lab import KEPT, VARIANTS, Lab, open_lab, run_trial
from null_report import report

from kernelsmith import devices
from kernelsmith.numerics import statistics
from kernelsmith.ports import Sandbox
from kernelsmith.sandbox.choose import choose

HERE = Path(__file__).resolve().parent
RESULT = HERE / "results" / "null_sessions.json"
STATE = HERE.parent / "build" / "null_sessions.jsonl"
PLANTED_IN = "rms_norm"
PLANTED_PERCENT = (5.0, 2.0)
# The rest of the time is for planted trials.
NULL_SHARE = 7 / 8
REPORT_EVERY = 10


def timing_code() -> str:
    """A digest of the code that lays out and times sessions, and of the device's compiler."""
    digest = hashlib.sha256(devices.get("cpu").describe()["key"].encode())
    for room in ("gate", "worker"):
        for path in sorted((HERE.parent / "kernelsmith" / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def recorded(state: Path, code: str) -> list[dict[str, Any]]:
    """The trials that this code has timed before."""
    if not state.exists():
        return []
    trials = [json.loads(line) for line in state.read_text().splitlines()]
    kept = [trial for trial in trials if trial.get("code") == code]
    print(f"{len(kept)} trials go on from {state.name}, {len(trials) - len(kept)} of other code")
    return kept


def null_counts(trials: list[dict[str, Any]]) -> dict[str, int]:
    """Null sessions by task."""
    counts = dict.fromkeys(KEPT, 0)
    for trial in trials:
        if trial["planted_percent"] == 0:
            counts[trial["task"]] += len(trial["sessions"])
    return counts


def schedule(
    trials: list[dict[str, Any]], labs: dict[str, Lab], sessions: int, null_until: float
) -> Iterator[tuple[Lab, float]]:
    """What to try next, for ever; reads ``trials`` as it grows. ``null_until``: on the monotonic
    clock."""
    while True:
        counts = null_counts(trials)
        name = min(labs, key=lambda name: counts[name])
        if counts[name] < sessions and time.monotonic() < null_until:
            yield labs[name], 0.0
        else:
            yield labs[PLANTED_IN], PLANTED_PERCENT[len(trials) % len(PLANTED_PERCENT)]


def write(path: Path, document: dict[str, Any]) -> None:
    """Replaces the result in one step."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=25.0, help="in all, compiling included")
    parser.add_argument("--sessions", type=int, default=300, help="null sessions of each task")
    parser.add_argument("--quick", action="store_true", help="a trial of each task; keeps nothing")
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--sandbox", choices=("auto", "bubblewrap", "process"), default="auto")
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.quick:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            options.state, options.result, options.sessions = folder / "s", folder / "r", 1
        document = play(options, stack)
    parts = ("null_sessions_by_task", "reached", "end_to_end", "session_sd_percent")
    print(json.dumps({key: document[key] for key in parts}))


def play(options: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    """Trials until the time is over; the document."""
    begun = time.monotonic()
    options.state.parent.mkdir(parents=True, exist_ok=True)
    options.result.parent.mkdir(parents=True, exist_ok=True)
    code = timing_code()
    trials = recorded(options.state, code)
    sandbox = choose(options.sandbox, trusted_origin=True)
    stack.callback(sandbox.close)
    labs = {name: open_lab(name, sandbox, stack) for name in KEPT}
    rule, facts = _rule(labs), _facts(labs, sandbox, code)

    def document() -> dict[str, Any]:
        counts = null_counts(trials)
        asked = {"sessions_a_task": options.sessions, "minutes": options.minutes}
        reached = min(counts.values()) >= options.sessions
        return {
            **report(trials, rule),
            "null_sessions_by_task": counts,
            "asked": asked,
            "reached": reached,
            **facts,
        }

    null_until = begun + 60 * options.minutes * NULL_SHARE
    for lab, percent in schedule(trials, labs, options.sessions, null_until):
        if options.quick and percent:
            break
        trial = {**run_trial(lab, len(trials), percent, rule["alpha"]), "code": code}
        trials.append(trial)
        with options.state.open("a") as state:
            state.write(json.dumps(trial) + "\n")
        print(
            f"{len(trials):4d} {lab.task.name:9s} planted {percent:g} %: {trial['status']} "
            f"after {len(trial['sessions'])} sessions, {trial['seconds']:.1f} s",
            flush=True,
        )
        if len(trials) % REPORT_EVERY == 0:
            write(options.result, document())
        if time.monotonic() > begun + 60 * options.minutes:
            break
    write(options.result, document())
    return document()


def _rule(labs: dict[str, Lab]) -> dict[str, float]:
    limits = {(lab.task.min_gain, lab.task.max_regress) for lab in labs.values()}
    if len(limits) > 1:
        raise SystemExit(f"the tasks have different limits: {sorted(limits)}")
    ((min_gain, max_regress),) = limits
    return {"min_gain": min_gain, "max_regress": max_regress, "alpha": statistics.alpha_k(1)}


def _facts(labs: dict[str, Lab], sandbox: Sandbox, code: str) -> dict[str, Any]:
    return {
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "timing_code": code,
        "device": labs[PLANTED_IN].bench.device.describe(),
        "sandbox": sandbox.describe()["name"],
        "cores": len(os.sched_getaffinity(0)),
        "load_1m_before": os.getloadavg()[0],
        "cases": {name: [case.id for case in lab.cases] for name, lab in labs.items()},
        "variants": VARIANTS,
    }


if __name__ == "__main__":
    main()
