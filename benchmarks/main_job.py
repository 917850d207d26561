"""Keeps what the newest run of a database showed: ``python benchmarks/main_job.py [--db runs.db]``.

Writes ``benchmarks/results/main_job.json``: each task's standing winner with its gain over the seed
in 20 sessions, per case, what it changed, and how many candidates were judged.
"""

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from winner_beside_torch import kernelsmith_json

RESULT = Path(__file__).resolve().parent / "results" / "main_job.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--db", default="runs.db")
    db = parser.parse_args().db
    run = kernelsmith_json("runs", "--db", db)["runs"][0]
    tasks = [_task(task, db) for task in run["tasks"]]
    document = {
        "schema": "kernelsmith.benchmark.main_job/1",
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "run": {key: run[key] for key in ("id", "state", "started_at", "device", "proposer")},
        "tasks": tasks,
    }
    RESULT.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


def _task(task: dict[str, Any], db: str) -> dict[str, Any]:
    shown = kernelsmith_json("show", task["incumbent"], "--db", db)
    kept = {key: task[key] for key in ("task", "judged", "accepted", "incumbent")}
    return {
        **kept,
        "changes": shown["changes"],
        "device": shown["device"],
        "unchecked": shown["unchecked"],
        "gain": shown["against_seed"],
    }


if __name__ == "__main__":
    main()
