"""Identical kernels against each other under the latency rule: false accepts and power.

    python benchmarks/null_sessions.py [--minutes 22]

Real sessions through the gate's own code: two variants of a seed (``null_variants``) are traced,
compiled and timed on fresh inputs until the rule accepts or gives up. After 60 trials and 600
null sessions the rest of the time goes to trials with a known gain. Every trial is appended to
``build/null_sessions.jsonl``; a later start goes on from there (delete it to start anew). Writes
``benchmarks/results/null_sessions.json`` every ten trials and at the end. Run it on a machine with
nothing else to do.
"""

import argparse
import json
import os
import random
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from null_report import report
from null_variants import planted, variant

from kernelsmith import catalog, devices
from kernelsmith.errors import EvidenceError
from kernelsmith.gate import confirm
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Limits, Subject
from kernelsmith.model import Candidate, Case, Task
from kernelsmith.numerics import statistics
from kernelsmith.ports import Sandbox
from kernelsmith.sandbox.choose import choose

HERE = Path(__file__).resolve().parent
RESULT = HERE / "results" / "null_sessions.json"
STATE = HERE.parent / "build" / "null_sessions.jsonl"
# Call forms whose timed cases are kept: short enough for a session of about a second.
KEPT = {"rms_norm": ("residual_train", "infer"), "linear": ("train", "bias_infer")}
PLANTED_IN = "rms_norm"
PLANTED_PERCENT = (5.0, 2.0)
VARIANTS = 5
TRIALS_MIN, SESSIONS_MIN = 60, 600
REPORT_EVERY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One task with the variants of its seed, traced and compiled."""

    task: Task
    bench: Bench
    reference: Reference
    cases: list[Case]
    subjects: list[Subject]


def small(task: Task) -> Task:
    """The task with only the timed cases of KEPT, at equal weights."""
    kept = [
        replace(case, weight=1.0)
        for case in task.cases
        if case.weight > 0 and case.call in KEPT[task.name]
    ]
    if len(kept) < 2:
        raise SystemExit(f"task {task.name} has {len(kept)} timed cases of {KEPT[task.name]}")
    return replace(task, cases=tuple(kept))


def open_lab(name: str, sandbox: Sandbox, stack: ExitStack) -> Lab:
    """Traces and compiles the seed and its variants."""
    task = small(catalog.load_task(name, "cpu"))
    bench = stack.enter_context(Bench(task, devices.get("cpu"), sandbox, Limits()))
    seed = Subject(candidate=_candidate(task, task.seed_source, "seed"), role="seed")
    reference = Reference(bench, seed, secrets.randbits(255))
    cases = list(task.cases)
    reference.prepare(cases)
    subjects = []
    for number in range(1, VARIANTS + 1):
        source = variant(task.seed_source, number)
        subject = Subject(candidate=_candidate(task, source, f"v{number}"), role="launcher")
        found = bench.prepare(subject, cases)
        if found.status is not None:
            raise SystemExit(f"{name} v{number}: {found.status}: {found.message}")
        subjects.append(subject)
    _require_distinct(bench, subjects)
    return Lab(task=task, bench=bench, reference=reference, cases=cases, subjects=subjects)


def _candidate(task: Task, source: str, name: str) -> Candidate:
    return Candidate(id=name, task=task.name, source=source, parents=(), author="seed")


def _require_distinct(bench: Bench, subjects: list[Subject]) -> None:
    codes = [
        sorted(bench.objects[oid][0].code_hash for oid in set(subject.object_of.values()))
        for subject in subjects
    ]
    if any(one == other for i, one in enumerate(codes) for other in codes[:i]):
        raise SystemExit("two variants compiled to the same machine code: nothing to time")


def run_trial(lab: Lab, number: int, percent: float, alpha: float) -> dict[str, Any]:
    """One end-to-end trial: sessions until the rule accepts or gives up."""
    a, b = random.Random(number).sample(lab.subjects, 2)
    shares: dict[str, float] = {}
    if percent:
        a, shares = planted(a, lab.cases, percent)
    b.timing.clear()
    begun = time.monotonic()
    label = f"{secrets.token_hex(8)} {number}"
    outcome, rule = confirm.run_rule(lab.bench, lab.reference, b, a, alpha=alpha, label=label)
    if rule is None:
        raise EvidenceError(f"trial {number} ended without a decision: {outcome.message}")
    scores = zip(rule.warm_gains, rule.cold_gains, b.timing, strict=True)
    return {
        "trial": number,
        "task": lab.task.name,
        "a": a.candidate.id,
        "b": b.candidate.id,
        "planted_percent": percent,
        "planted": shares,
        "accepted": outcome.status is None,
        "status": outcome.status or "ACCEPTED",
        "seconds": time.monotonic() - begun,
        "sessions": [
            {
                "warm": warm,
                "cold": cold,
                "cases": {case: gains[i] for case, gains in rule.case_gains.items()},
                "seconds": raw["seconds"],
                "processor_share": raw["facts"]["processor_share"] if "facts" in raw else None,
            }
            for i, (warm, cold, raw) in enumerate(scores)
        ],
    }


def schedule(trials: list[dict[str, Any]], labs: dict[str, Lab]) -> Iterator[tuple[Lab, float]]:
    """What to try next, for ever; reads ``trials`` as it grows."""
    names = sorted(labs)
    while True:
        null = [trial for trial in trials if trial["planted_percent"] == 0]
        sessions = sum(len(trial["sessions"]) for trial in null)
        if len(null) < TRIALS_MIN or sessions < SESSIONS_MIN:
            yield labs[names[len(null) % len(names)]], 0.0
        else:
            yield labs[PLANTED_IN], PLANTED_PERCENT[len(trials) % len(PLANTED_PERCENT)]


def write(path: Path, document: dict[str, Any]) -> None:
    """Replaces the result in one step."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=22.0)
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--sandbox", choices=("auto", "bubblewrap", "process"), default="auto")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    options.state.parent.mkdir(parents=True, exist_ok=True)
    options.result.parent.mkdir(parents=True, exist_ok=True)
    trials: list[dict[str, Any]] = []
    if options.state.exists():
        trials = [json.loads(line) for line in options.state.read_text().splitlines()]
    with ExitStack() as stack:
        sandbox = choose(options.sandbox, trusted_origin=True)
        stack.callback(sandbox.close)
        labs = {name: open_lab(name, sandbox, stack) for name in KEPT}
        task = labs[PLANTED_IN].task
        rule = {
            "min_gain": task.min_gain,
            "max_regress": task.max_regress,
            "alpha": statistics.alpha_k(1),
        }
        facts = {
            "device": labs[PLANTED_IN].bench.device.describe(),
            "sandbox": sandbox.describe()["name"],
            "cores": len(os.sched_getaffinity(0)),
            "cases": {name: [case.id for case in lab.cases] for name, lab in labs.items()},
            "variants": VARIANTS,
        }
        for lab, percent in schedule(trials, labs):
            trial = run_trial(lab, len(trials), percent, rule["alpha"])
            trials.append(trial)
            with options.state.open("a") as state:
                state.write(json.dumps(trial) + "\n")
            print(
                f"{len(trials):4d} {lab.task.name:9s} planted {percent:g} %: {trial['status']} "
                f"after {len(trial['sessions'])} sessions, {trial['seconds']:.1f} s",
                flush=True,
            )
            if len(trials) % REPORT_EVERY == 0:
                write(options.result, {**report(trials, rule), **facts})
            if time.monotonic() > deadline:
                break
        document = {**report(trials, rule), **facts}
        write(options.result, document)
    print(json.dumps({key: document[key] for key in ("end_to_end", "session_sd_percent")}))


if __name__ == "__main__":
    main()
