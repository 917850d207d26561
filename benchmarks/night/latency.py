"""What a wall adds to a warm job: the same small jobs through a bare worker and through each
sandbox that can stand here, in turns.

    python benchmarks/night/latency.py [--rounds 200]
    tests/ci/engine.sh python benchmarks/night/latency.py

A round is one job in each, in random order; the jobs are a kernel traced, compiled and run, and one
that asks for nothing. What counts is from ``submit`` to the closed reply, templates warm. Bare is
the same template over the same pipes and spool with no wall around the job: no namespaces,
Landlock, filter, limits or watch. "Over bare" is the median of the differences within a round, so a
machine whose pace changes does not show as a wall's cost. Writes
``benchmarks/results/night_latency.json``; exit 1 if a sandbox adds more than 30 ms.
"""

import argparse
import datetime
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks" / "night")]

from measured_on import machine  # noqa: E402

from kernelsmith.errors import MissingError  # noqa: E402
from kernelsmith.model import CompileJob, Job  # noqa: E402
from kernelsmith.ports import Role  # noqa: E402
from kernelsmith.sandbox import paths  # noqa: E402
from kernelsmith.sandbox.choose import choose  # noqa: E402
from kernelsmith.sandbox.pipes import Command, start  # noqa: E402
from kernelsmith.sandbox.pool import Leased, Pool  # noqa: E402
from kernelsmith.sandbox.spool import open_spool  # noqa: E402
from tests.sandbox import small_kernel  # noqa: E402
from tests.sandbox.escapes_try import SANDBOXES  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "night_latency.json"
SCHEMA = "kernelsmith.benchmark.night_latency/1"
GOAL_MS = 30.0
WARM_ROUNDS = 5
BARE = """
import sys
from pathlib import Path
from kernelsmith.worker import template, wall, wall_watch
wall.give_up_privileges = wall.confine = lambda *arguments, **more: None
wall_watch.exceeded = lambda share: ""
template.serve(sys.argv[1], Path(sys.argv[2]), template.Settings())
"""
SHAPE = (64, 256)
Asked = tuple[Role, Job, Mapping[str, bytes]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    load_1m = os.getloadavg()[0]
    with ExitStack() as stack:
        workers: dict[str, dict[Role, Leased]] = {"bare": stack.enter_context(_bare())}
        facts, missing = {}, {}
        for name in SANDBOXES:
            try:
                sandbox = choose(name, trusted_origin=True)  # type: ignore[arg-type]
            except MissingError as error:
                missing[name] = error.message
                continue
            stack.callback(sandbox.close)
            # Without where it lies: that is this machine's.
            facts[name] = {key: one for key, one in sandbox.describe().items() if key != "program"}
            workers[name] = {role: sandbox.start(role) for role in ("frontend", "launcher")}
        jobs = _jobs(workers["bare"])
        nice = {name: _nice(own["launcher"]) for name, own in workers.items()}
        taken = {kind: _in_turns(asked, workers, options.rounds) for kind, asked in jobs.items()}
    document = {
        "schema": SCHEMA,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(load_1m),
        "sandboxes": facts,
        "missing": missing,
        "nice": nice,
        "rounds": options.rounds,
        "goal_ms": GOAL_MS,
        "kinds": {kind: _told(one) for kind, one in taken.items()},
    }
    document["slow"] = [
        f"{kind} in {name}: {one['over_bare_ms']:.1f} ms over the bare worker"
        for kind, told in document["kinds"].items()
        for name, one in told.items()
        if one["over_bare_ms"] > GOAL_MS
    ]
    options.result.write_text(json.dumps(document, indent=1) + "\n")
    for kind, told in document["kinds"].items():
        for name, one in told.items():
            print(
                f"{kind:8} {name:10} " + ", ".join(f"{key} {value}" for key, value in one.items())
            )
    if len(set(nice.values())) > 1:
        print(f"not comparable: the sandboxes run at different priorities: {nice}")
    for name, why in missing.items():
        print(f"not tried: {name}: {why}")
    return 1 if document["slow"] else 0


@contextmanager
def _bare() -> Iterator[dict[Role, Leased]]:
    """Workers without a wall."""
    pool = Pool(spool=open_spool())
    tmp, seen = pool.spool.folder("tmp"), paths.visible()

    def starting(role: Role, folder: Path) -> Callable[[], Any]:
        command = Command(
            arguments=(paths.python(), *paths.PYTHON_FLAGS, "-c", BARE, role, str(folder)),
            environment=paths.environment(str(tmp), [seen.package.parent, *seen.python_path]),
            working_folder=tmp,
            log=folder.parent / f"{folder.name}.log",
        )
        return partial(start, command, pool.starter)

    try:
        roles: tuple[Role, ...] = ("frontend", "launcher")
        yield {role: pool.lease(role, partial(starting, role)) for role in roles}
    finally:
        pool.close()


def _jobs(bare: Mapping[Role, Leased]) -> dict[str, Asked]:
    """The jobs to time, by name; made with the bare worker."""
    x = small_kernel.meta(*SHAPE)
    trace_job = small_kernel.trace_job(x)
    traced: Any = _done(bare["frontend"], trace_job, {})[0]
    compile_job = small_kernel.compile_job(traced)
    names = small_kernel.code_files(compile_job)
    compiled, files = _done(bare["launcher"], compile_job, {}, names)
    run_job = small_kernel.run_job(traced, compiled, x)
    files[small_kernel.DATA_FILE] = np.ones(SHAPE, dtype=np.float32).tobytes()
    return {
        "nothing": ("launcher", CompileJob(ttirs={}, device="cpu"), {}),
        "trace": ("frontend", trace_job, {}),
        "compile": ("launcher", compile_job, {}),
        "run": ("launcher", run_job, files),
    }


def _done(
    worker: Leased, job: Job, files: Mapping[str, bytes], wanted: list[str] | None = None
) -> tuple[Any, dict[str, bytes]]:
    reply = worker.submit(job, files)
    try:
        if reply.result.failure is not None:
            raise RuntimeError(f"{type(job).__name__}: {reply.result.failure}")
        return reply.result, {name: reply.read(name) for name in wanted or ()}
    finally:
        reply.close()


def _nice(worker: Leased) -> int:
    """The priority of a template's wall: an engine's containers have the engine's."""
    line: Any = worker.worker.started()
    return os.getpriority(os.PRIO_PROCESS, line.root())


def _in_turns(
    asked: Asked, workers: Mapping[str, Mapping[Role, Leased]], rounds: int
) -> dict[str, list[float]]:
    """Milliseconds a job by worker, round by round."""
    role, job, files = asked
    draw, taken = random.Random(1), {name: [] for name in workers}
    for number in range(WARM_ROUNDS + rounds):
        for name in draw.sample(list(workers), len(workers)):
            began_s = time.perf_counter()
            _done(workers[name][role], job, files)
            if number >= WARM_ROUNDS:
                taken[name].append(1e3 * (time.perf_counter() - began_s))
    return taken


def _told(taken: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median and 90 % of each; the differences to bare within a round."""
    bare = taken["bare"]
    found = {}
    for name, own in taken.items():
        over = [one - base for one, base in zip(own, bare, strict=True)]
        found[name] = {
            "median_ms": round(statistics.median(own), 2),
            "p90_ms": round(statistics.quantiles(own, n=10)[8], 2),
            "over_bare_ms": round(statistics.median(over), 2),
            "over_bare_p90_ms": round(statistics.quantiles(over, n=10)[8], 2),
            "ratio": round(statistics.median(own) / statistics.median(bare), 2),
        }
    return found


if __name__ == "__main__":
    sys.exit(main())
