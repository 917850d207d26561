"""A run that lives long: does what it holds grow?

    python benchmarks/night/soak.py [--minutes 20] [--sandbox bubblewrap]

The loop as users run it, with real workers, on a small task and an endless stream of candidates
(``stream``): accepted, rejected by most checks, repeated, hanging in a kernel, in host code and in
the compiler, and killing their worker. From outside, every two seconds: memory of the loop and of
all it started, open descriptors, threads, processes, folders and bytes of its spool, the disk that
the spool lies on, and the database. ``flatness`` has the rule by which a quantity is flat. The
database grows by design: what is told of it is bytes a candidate, in both halves of the run.

Time limits of jobs are short and the self-proof is left out (``soak_run``). Writes
``benchmarks/results/night_soak.json``; exit 1 if something is not flat or the run did not end well.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import flatness
import sampling
import stream
from measured_on import machine

from kernelsmith.lineage import database
from kernelsmith.lineage.verify import verify
from kernelsmith.sandbox.spool import default_parents

HERE = Path(__file__).resolve().parent
RESULT = HERE.parent / "results" / "night_soak.json"
SAMPLE_S = 2.0
BLOCKS = 12
WARM_UP = 0.25
"""Of the run: modules and caches fill, the first workers start."""
MIB = 1 << 20
MAY_GROW = {
    "loop_bytes": 8 * MIB,
    "workers_bytes": 16 * MIB,
    "spool_bytes": 8 * MIB,
    "open": 4,
    "workers_open": 4,
    "threads": 4,
    "processes": 4,
    "spool_entries": 4,
}
LEVELS: dict[str, Callable[[Sequence[float]], float]] = {
    "spool_bytes": min,  # jobs lay down and take away: what counts is what is never taken away
    "spool_entries": min,
    "workers_bytes": max,  # templates that were killed are missing for a while
    "workers_open": max,
    "processes": max,
}
END_S = 300.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--sandbox", default="bubblewrap")
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--keep", type=Path, help="a folder for the run, kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        document = soak(options.keep or Path(name), options.minutes * 60, options.sandbox)
    options.result.write_text(json.dumps(document, indent=1) + "\n")
    shown = {key: value for key, value in document.items() if key != "samples"}
    print(json.dumps(shown, indent=1))
    return 0 if document["ended"] == 0 and all(document["flat"].values()) else 1


def soak(folder: Path, seconds: float, sandbox: str) -> dict[str, Any]:
    """Runs for so long and says what it saw."""
    folder.mkdir(parents=True, exist_ok=True)
    stream.write(folder / "tasks")
    db = folder / "runs.db"
    command = [sys.executable, str(HERE / "soak_run.py"), "run", stream.NAME, "--db", str(db)]
    command += ["--tasks", str(folder / "tasks"), "--sandbox", sandbox, "--seed", "1"]
    load, began_s = os.getloadavg()[0], time.monotonic()
    with (folder / "said.txt").open("w") as said:
        run = subprocess.Popen([*command, "--time-limit", f"{seconds:.0f}s"], stderr=said)
        try:
            samples, seen = _watch(run, db, began_s)
            code = run.wait(END_S)
        finally:
            run.kill()
    record = _record(db)
    found = trends(samples)
    return {
        "schema": "kernelsmith.benchmark.night_soak/1",
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(load),
        "sandbox": sandbox,
        "seconds": round(time.monotonic() - began_s, 1),
        "ended": code,
        **record,
        "rule": " ".join((flatness.__doc__ or "").split()),
        "flat": {name: one.flat for name, one in found.items()},
        "trends": {
            name: {**asdict(one), "night_high": one.night_high} for name, one in found.items()
        },
        "database": _growth(samples),
        "left_behind": _left(run.pid, seen),
        "samples": samples,
    }


def trends(samples: list[dict[str, float]]) -> dict[str, flatness.Trend]:
    """Each quantity's while the run explores; the final timing is another kind of work."""
    exploring = [sample for sample in samples if sample["exploring"]]
    times_s = [sample["at_s"] for sample in exploring]
    end_s = max(times_s, default=0.0)
    return {
        name: flatness.trend(
            times_s,
            [sample[name] for sample in exploring],
            warm_up_s=WARM_UP * end_s,
            block_s=(1 - WARM_UP) * end_s / BLOCKS,
            may_grow=may_grow,
            level_of=LEVELS.get(name, statistics.median),
        )
        for name, may_grow in MAY_GROW.items()
    }


def _watch(
    run: "subprocess.Popen[bytes]", db: Path, began_s: float
) -> tuple[list[dict[str, float]], set[int]]:
    """Samples until it ends, and every process that it was seen to have."""
    samples: list[dict[str, float]] = []
    seen: set[int] = set()
    while run.poll() is None:
        now = sampling.held(run.pid)
        if now is None:
            break
        seen |= set(sampling.descendants(run.pid))
        places = sampling.spools(run.pid, default_parents())
        trees = [sampling.tree(place) for place in places]
        samples.append(
            {
                "at_s": round(time.monotonic() - began_s, 2),
                **asdict(now),
                "spool_entries": sum(entries for entries, _ in trees),
                "spool_bytes": sum(nbytes for _, nbytes in trees),
                "database_bytes": sum(
                    path.stat().st_size for path in db.parent.glob(f"{db.name}*")
                ),
                **_said(db.parent / "said.txt"),
            }
        )
        time.sleep(SAMPLE_S)
    return samples, seen


def _said(path: Path) -> dict[str, int]:
    """How many candidates were begun, and whether more will be."""
    text = path.read_text(errors="replace")
    return {"judged": text.count("  judging: "), "exploring": "exploring ends" not in text}


def _growth(samples: list[dict[str, float]]) -> dict[str, float]:
    """Bytes of the database a candidate, in the first and the second half of the run."""
    samples = [sample for sample in samples if sample["exploring"]]
    half = len(samples) // 2
    parts = {"first_half": (samples[0], samples[half]), "second_half": (samples[half], samples[-1])}
    return {
        f"bytes_a_candidate_{name}": round(
            (after["database_bytes"] - before["database_bytes"])
            / max(1.0, after["judged"] - before["judged"])
        )
        for name, (before, after) in parts.items()
    }


def _record(db: Path) -> dict[str, Any]:
    """What the run put on record, and that the record is whole."""
    opened = database.open_for_reading(db)
    try:
        with opened.reading() as connection:
            rows = connection.exec_driver_sql(
                "SELECT status, COUNT(*) FROM verdicts GROUP BY status ORDER BY status"
            ).all()
            events = connection.exec_driver_sql(
                "SELECT kind, COUNT(*) FROM events GROUP BY kind ORDER BY kind"
            ).all()
            problems = [str(each) for each in verify(connection).findings]
    finally:
        opened.close()
    return {
        "judged": sum(count for _, count in rows),
        "statuses": dict(rows),  # type: ignore[arg-type]
        "events": dict(events),  # type: ignore[arg-type]
        "lineage_problems": problems,
    }


def _left(pid: int, seen: set[int]) -> dict[str, Any]:
    """What the run left on the machine after its end: nothing."""
    alive = [one for one in seen if b"kernelsmith" in sampling.command_of(one)]
    return {
        "spools": len(sampling.spools(pid, default_parents())),
        "processes": len(alive),
    }


if __name__ == "__main__":
    sys.exit(main())
