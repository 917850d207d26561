"""All figures that want a quiet machine, in order: ``make figures``.

    python benchmarks/quiet_set.py [--plan] [--only cpu_device,null_sessions] [--again]
                                   [--null-minutes 25] [--time-limit 10m]

Prints what will run and for about how long, then runs each step in a process of its own. A step
that is done is marked under ``build/figures/`` with a digest of the code; after an interruption, or
when a step failed, the same command goes on with what is not done. Steps do not depend on each
other, but for ``main_job`` and ``winner_beside_torch``, which read the database that ``run`` makes
(``build/figures/runs.db``). The last step writes the README's table from the results.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "figures"
DATABASE = BUILD / "runs.db"
RUN_TASKS = ("rms_norm", "linear", "swiglu", "logprob")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command, about how many minutes it takes, and what it gives."""

    name: str
    minutes: float
    command: tuple[str, ...]
    gives: str


def steps(null_minutes: float, time_limit: str) -> list[Step]:
    """The quiet set, in order."""

    def script(name: str, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *arguments)

    program = str(Path(sys.executable).parent / "kernelsmith")
    db = ("--db", str(DATABASE))
    run = (program, "run", *RUN_TASKS, "--time-limit", time_limit, *db)
    null = script("null_sessions", "--minutes", str(null_minutes))
    return [
        Step(
            name="cpu_device",
            minutes=5,
            command=script("cpu_device"),
            gives="the device beside torch: six ops, gradients, compiling, launching",
        ),
        Step(name="run", minutes=18, command=run, gives="the main job, four tasks"),
        Step(
            name="main_job",
            minutes=0.1,
            command=script("main_job", *db),
            gives="what that run accepted",
        ),
        Step(
            name="winner_beside_torch",
            minutes=4,
            command=script("winner_beside_torch", *db),
            gives="its winners beside torch",
        ),
        Step(
            name="verdict_cost",
            minutes=12,
            command=script("verdict_cost"),
            gives="what a verdict costs, four tasks",
        ),
        Step(
            name="null_sessions",
            minutes=null_minutes + 1,
            command=null,
            gives="identical kernels under the latency rule, four tasks",
        ),
        Step(
            name="null_report",
            minutes=1,
            command=script("null_report"),
            gives="the statistics of a gain, from those sessions",
        ),
        Step(
            name="table",
            minutes=0.1,
            command=script("figures"),
            gives="the documents' tables",
        ),
    ]


def code_digest() -> str:
    """A digest of all code that a figure can depend on."""
    digest = hashlib.sha256()
    for room in ("kernelsmith", "benchmarks", "seed_kernels", "tasks"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".py", ".toml"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def is_done(step: Step, code: str) -> bool:
    """Whether this code has done the step; the table is always written."""
    mark = BUILD / f"{step.name}.done"
    return step.name != "table" and mark.exists() and mark.read_text().strip() == code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plan", action="store_true", help="print the plan alone")
    parser.add_argument("--only", default="", help="these steps alone, by commas")
    parser.add_argument("--again", action="store_true", help="also what is done")
    parser.add_argument("--null-minutes", type=float, default=25.0)
    parser.add_argument("--time-limit", default="10m", help="of the main job")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    chosen = steps(options.null_minutes, options.time_limit)
    only = [name for name in options.only.split(",") if name]
    unknown = set(only) - {step.name for step in chosen}
    if unknown:
        names = ", ".join(step.name for step in chosen)
        print(f"error: no step {', '.join(sorted(unknown))}. hint: the steps are {names}")
        return 2
    code = code_digest()
    todo = [
        step
        for step in chosen
        if (not only or step.name in only) and (options.again or not is_done(step, code))
    ]
    _print_plan(chosen, todo, code)
    if options.plan:
        return 0
    failed = [step.name for step in todo if not _run(step, code)]
    if failed:
        print(f"error: failed: {', '.join(failed)}. hint: the same command runs them again")
    return 4 if failed else 0


def _print_plan(chosen: list[Step], todo: list[Step], code: str) -> None:
    at = 0.0
    for step in chosen:
        state = "done" if is_done(step, code) else "left out"
        if step in todo:
            state = f"from minute {at:.0f}"
            at += step.minutes
        print(f"{step.name:20} {step.minutes:5.1f} min  {state:16} {step.gives}")
    load = os.getloadavg()[0]
    print(f"about {at:.0f} minutes in all; load now {load:.2f}", flush=True)
    if load > 0.5:
        print("the machine is not quiet: ratios and minima stand, wall times will be too long")


def _run(step: Step, code: str) -> bool:
    print(f"\n== {step.name}, load {os.getloadavg()[0]:.2f}", flush=True)
    begun = time.monotonic()
    status = subprocess.run(step.command, cwd=ROOT, check=False).returncode
    spent = (time.monotonic() - begun) / 60
    print(f"== {step.name}: exit {status} after {spent:.1f} min", flush=True)
    if status == 0:
        (BUILD / f"{step.name}.done").write_text(code + "\n")
    return status == 0


if __name__ == "__main__":
    sys.exit(main())
