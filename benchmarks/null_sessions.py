"""Identical kernels against each other under the latency rule: real sessions, put on record.

    python benchmarks/null_sessions.py [--minutes 25] [--inject none,load,drift] [--duty 1.0]
                                       [--no-planted] [--fresh] [--quick]

Real sessions through the gate's own code: two variants of a seed (``null_variants``) are traced,
compiled and timed on fresh inputs until the rule decides. Tasks take turns, and so do the forms of
a trial: confirm, the timing at a run's end, trials with a known gain, trials with load injected
(``null_load``). What is started more than others is what has had less than its share of sessions.

Every trial is appended to ``build/null_sessions.jsonl``; a later start goes on from there, and one
that is killed loses the trial it was at. A trial is marked with the code that timed it and with
what the machine did meanwhile: ``quiet``, ``shared`` (others were at work), ``load`` or ``drift``
(injected). Writes ``benchmarks/results/null_sessions.json`` at the start, every few minutes and at
the end.
"""

import argparse
import datetime
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import null_store
from null_lab import KEPT, PLANTED_IN, VARIANTS, Asked, Lab, open_lab, run_trial
from null_load import CONDITIONS

from kernelsmith.errors import EvidenceError, InfrastructureError
from kernelsmith.numerics import statistics
from kernelsmith.ports import Sandbox
from kernelsmith.sandbox.choose import choose

# Share of the sessions of one start: (form, planted percent, injected) -> share.
SHARES = {
    ("confirm", 0.0, "none"): 0.42,
    ("retime", 0.0, "none"): 0.08,
    ("confirm", 0.0, "load"): 0.14,
    ("confirm", 0.0, "drift"): 0.14,
    ("confirm", 1.0, "none"): 0.05,
    ("confirm", 2.0, "none"): 0.05,
    ("confirm", 5.0, "none"): 0.04,
    ("confirm", 2.0, "load"): 0.02,
    ("confirm", 5.0, "load"): 0.02,
    ("confirm", 2.0, "drift"): 0.02,
    ("confirm", 5.0, "drift"): 0.02,
}
Kind = tuple[str, float, str]
WRITE_EVERY_S = 180.0
BROKEN_MAX = 3


def next_kind(taken: dict[Kind, int], injected: Sequence[str], planted: bool = True) -> Kind:
    """The kind of trial that is furthest behind its share of sessions."""
    open_kinds = [kind for kind in SHARES if kind[2] in injected and (planted or not kind[1])]
    return min(open_kinds, key=lambda kind: (taken.get(kind, 0) / SHARES[kind], kind))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=25.0, help="in all, compiling included")
    parser.add_argument("--inject", default=",".join(CONDITIONS), help="conditions, by commas")
    parser.add_argument("--planted", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--duty", type=float, default=1.0, help="share of the time to work")
    parser.add_argument("--fresh", action="store_true", help="forget what was timed before")
    parser.add_argument("--quick", action="store_true", help="a trial of each task; keeps nothing")
    parser.add_argument("--state", type=Path, default=null_store.STATE)
    parser.add_argument("--result", type=Path, default=null_store.DOCUMENT)
    parser.add_argument("--sandbox", choices=("auto", "bubblewrap", "process"), default="auto")
    options = parser.parse_args()
    unknown = set(options.inject.split(",")) - set(CONDITIONS)
    if unknown or not 0 < options.duty <= 1:
        parser.error(f"--inject takes {', '.join(CONDITIONS)}; --duty more than 0, at most 1")
    with ExitStack() as stack:
        if options.quick:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            options.state, options.result = folder / "s", folder / "r"
        if options.fresh:
            options.state.unlink(missing_ok=True)
        for name, count in collect(options, stack).items():
            print(f"{name}: {count['trials']} trials, {count['sessions']} sessions")


def collect(options: argparse.Namespace, stack: ExitStack) -> dict[str, dict[str, int]]:
    """Trials until the time is over; how many of what are on record."""
    begun = time.monotonic()
    code = null_store.timing_code()
    trials = null_store.read_state(options.state)
    print(f"{len(trials)} trials on record, load {os.getloadavg()[0]:.2f}", flush=True)
    sandbox = choose(options.sandbox, trusted_origin=True)
    stack.callback(sandbox.close)
    labs = {name: open_lab(name, sandbox, stack) for name in KEPT}
    rule, facts = _rule(labs), _facts(labs, sandbox)
    facts["rule"] = rule
    here: dict[Kind, int] = {}
    turns: dict[Kind, int] = {}
    written, broken_in_a_row = begun, 0
    quick = iter(KEPT)
    while True:
        kind = next_kind(here, options.inject.split(","), options.planted)
        task = PLANTED_IN if kind[1] else list(KEPT)[turns.get(kind, 0) % len(KEPT)]
        if options.quick:
            task, kind = next(quick, ""), ("confirm", 0.0, "none")
        spent_s = time.monotonic() - begun
        if not task or (spent_s > 60 * options.minutes and not options.quick):
            break
        turns[kind] = turns.get(kind, 0) + 1
        asked = Asked(
            number=len(trials), task=task, form=kind[0], percent=kind[1], injected=kind[2]
        )
        try:
            trial = {**run_trial(labs[task], asked, rule["alpha"]), "code": code}
        except (EvidenceError, InfrastructureError) as error:
            broken_in_a_row += 1
            if broken_in_a_row == BROKEN_MAX:
                raise
            trials.append({"trial": asked.number, "broken": str(error)})
            null_store.append(options.state, trials[-1])
            print(f"trial {asked.number} of {task} broken off: {error}", flush=True)
            continue
        broken_in_a_row = 0
        here[kind] = here.get(kind, 0) + len(trial["sessions"])
        trials.append(trial)
        null_store.append(options.state, trial)
        _say(trial, sum(here.values()), spent_s, options.minutes)
        if time.monotonic() > written + WRITE_EVERY_S:
            null_store.write(options.result, null_store.document(trials, facts))
            written = time.monotonic()
        time.sleep(trial["seconds"] * (1 / options.duty - 1))
    null_store.write(options.result, null_store.document(trials, facts))
    return null_store.counts(trials)


def _say(trial: null_store.Trial, sessions: int, spent_s: float, minutes: float) -> None:
    planted = trial["planted_percent"]
    print(
        f"{spent_s / 60:5.1f} of {minutes:g} min  {sessions:5d} sessions  "
        f"{trial['trial']:4d} {trial['task']:8s} {trial['form']:7s} "
        f"{f'+{planted:g} %' if planted else 'null':5s} {trial['condition']:6s} "
        f"{trial['status']} after {len(trial['sessions'])}, {trial['seconds']:.1f} s",
        flush=True,
    )


def _rule(labs: dict[str, Lab]) -> dict[str, Any]:
    limits = {(lab.task.min_gain, lab.task.max_regress) for lab in labs.values()}
    if len(limits) > 1:
        raise SystemExit(f"the tasks have different limits: {sorted(limits)}")
    ((min_gain, max_regress),) = limits
    bench = labs[PLANTED_IN].bench.limits
    return {
        "min_gain": min_gain,
        "max_regress": max_regress,
        "alpha": statistics.alpha_k(1),
        "sessions_max": bench.sessions_max,
        "give_up_lead": bench.give_up_lead,
    }


def _facts(labs: dict[str, Lab], sandbox: Sandbox) -> dict[str, Any]:
    return {
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "device": labs[PLANTED_IN].bench.device.describe(),
        "sandbox": sandbox.describe()["name"],
        "variants": VARIANTS,
    }


if __name__ == "__main__":
    main()
