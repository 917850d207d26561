"""Every fuzzed property on examples that nobody drew before, for as long as told.

    python benchmarks/fuzz.py --minutes 10

Policy (grammar-made sources, garbage), plans and IR, files and lines of workers, and the gate on
corrupted answers. Writes ``benchmarks/results/fuzz.json``; exits 1 if any property failed. The seed
of a failing round is printed and kept: ``--order N --only NAME`` draws it again.
"""

import argparse
import json
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))
RESULT = ROOT / "benchmarks" / "results" / "fuzz.json"

from tests.fuzz.every import PROPERTIES  # noqa: E402
from tests.fuzz.properties import Property, tried  # noqa: E402


def round_of(one: Property, order: int, row: dict[str, Any]) -> None:
    """One round of a property, added to its row."""
    begun = time.monotonic()
    try:
        row["examples"] += tried(one, one.examples, order=order)
    except Exception as error:
        first = " ".join(str(error).split())[:300]
        row["failures"].append({"order": order, "error": f"{type(error).__name__}: {first}"})
        print(f"{one.name}: order {order} fails: {type(error).__name__}: {first}", flush=True)
    row["seconds"] += time.monotonic() - begun


def main() -> int:
    """Rounds of all properties in turn until the time is up; at least one of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", default="", help="properties whose name contains this")
    parser.add_argument("--order", type=int, help="the seed of one round, instead of the time")
    given = parser.parse_args()
    chosen = [one for one in PROPERTIES if given.only in one.name]
    rows: dict[str, dict[str, Any]] = {
        one.name: {"examples": 0, "seconds": 0.0, "failures": []} for one in chosen
    }
    end = time.monotonic() + 60.0 * given.minutes
    draw = random.SystemRandom()
    rounds = 0
    while chosen and (rounds == 0 or (given.order is None and time.monotonic() < end)):
        for one in chosen:
            if rounds and time.monotonic() > end:
                break
            order = draw.randrange(1 << 32) if given.order is None else given.order
            round_of(one, order, rows[one.name])
        rounds += 1
    failures = sum(len(row["failures"]) for row in rows.values())
    total = sum(row["examples"] for row in rows.values())
    for name, row in rows.items():
        print(f"{name:28} {row['examples']:8,} examples  {len(row['failures'])} failures")
    print(f"{total:,} examples in {rounds} rounds, {failures} failures")
    if given.order is None and not given.only:
        for row in rows.values():
            row["seconds"] = round(row["seconds"], 1)
        summary = {
            "schema": "kernelsmith.benchmark.fuzz/1",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "minutes": given.minutes,
            "rounds": rounds,
            "examples": total,
        }
        told = {**summary, "failures": failures, "properties": rows}
        RESULT.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if failures or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
