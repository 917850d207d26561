"""Two binaries of the same work, timed by the gate's own code: one trial of the null sessions."""

import datetime
import os
import random
import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from null_load import injected
from null_variants import planted, variant

from kernelsmith import catalog, devices
from kernelsmith.errors import EvidenceError
from kernelsmith.gate import confirm
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Limits, Subject
from kernelsmith.loop import RETIMING_SESSIONS
from kernelsmith.model import Candidate, Case, Task
from kernelsmith.ports import Sandbox

# Call forms whose timed cases are kept: short enough for a session of about a second.
KEPT = {
    "rms_norm": ("residual_train", "infer"),
    "linear": ("train", "bias_infer"),
    "swiglu": ("train", "infer"),
    "logprob": ("train", "infer"),
}
VARIANTS = 5
# The first of these cases is planted alone, in the first task: 257 programs of about 0.6 us, so
# that an extra launch adds little to what is planted.
PLANTED_IN = "rms_norm"
# Ours is one busy core, and the host's own work beside it.
QUIET_CORES = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One task with the variants of its seed, traced and compiled."""

    task: Task
    bench: Bench
    reference: Reference
    cases: list[Case]
    subjects: list[Subject]


def small(task: Task) -> Task:
    """The task with only the first timed case of each call form of KEPT, at equal weights."""
    first: dict[str, Case] = {}
    for case in task.cases:
        if case.weight > 0 and case.call in KEPT[task.name]:
            first.setdefault(case.call, replace(case, weight=1.0))
    if len(first) != len(KEPT[task.name]):
        raise SystemExit(f"task {task.name} has timed cases of {list(first)} alone")
    return replace(task, cases=tuple(first.values()))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One trial: ``form`` is "confirm" (the rule with its stops) or "retime" (20 sessions, as at
    the end of a run); ``percent`` of true gain, 0 for a null trial; ``injected`` load."""

    number: int
    task: str
    form: str = "confirm"
    percent: float = 0.0
    injected: str = "none"


def run_trial(lab: Lab, asked: Asked, alpha: float) -> dict[str, Any]:
    """One end-to-end trial by the gate's own code: sessions until the rule decides."""
    a, b = random.Random(asked.number).sample(lab.subjects, 2)
    shares: dict[str, float] = {}
    if asked.percent:
        a, shares = planted(a, lab.cases[:1], len(lab.cases) * asked.percent)
    b.timing.clear()
    most = RETIMING_SESSIONS if asked.form == "retime" else None
    load_1m, begun_at = os.getloadavg()[0], datetime.datetime.now(datetime.UTC)
    begun, busy_s = time.monotonic(), _busy_s()
    with injected(asked.injected, asked.number):
        outcome, rule = confirm.run_rule(
            lab.bench,
            lab.reference,
            b,
            a,
            alpha=alpha,
            label=f"{secrets.token_hex(8)} {asked.number}",
            sessions_min=most or 0,
            sessions_max=most,
        )
    seconds = time.monotonic() - begun
    if rule is None:
        raise EvidenceError(f"trial {asked.number} ended without a decision: {outcome.message}")
    busy = (_busy_s() - busy_s) / seconds
    return {
        "trial": asked.number,
        "task": lab.task.name,
        "a": a.candidate.id,
        "b": b.candidate.id,
        "form": asked.form,
        "planted_percent": asked.percent,
        "planted": shares,
        "condition": _condition(asked.injected, busy),
        "at": begun_at.isoformat(timespec="seconds"),
        "load_1m": round(load_1m, 2),
        "busy_cores": round(busy, 2),
        "status": outcome.status or "ACCEPTED",
        "seconds": round(seconds, 2),
        "cases": [case.id for case in lab.cases],
        "sessions": [
            [
                *(rounded(gain) for gain in (rule.warm_gains[i], rule.cold_gains[i])),
                *(rounded(rule.case_gains[case.id][i]) for case in lab.cases),
                round(raw["seconds"], 3),
                raw["facts"]["processor_share"],
                raw["facts"]["preemptions"],
            ]
            for i, raw in enumerate(b.timing)
        ],
    }


def rounded(value: float) -> float:
    """To five significant digits: 0.01 % of a gain's own size is far below what is timed."""
    return float(f"{value:.5g}")


def _condition(asked: str, busy_cores: float) -> str:
    """ "shared": nothing was injected, but others were at work."""
    if asked != "none":
        return asked
    return "quiet" if busy_cores <= QUIET_CORES else "shared"


def _busy_s() -> float:
    """Processor time that the whole machine has used, all cores together."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
