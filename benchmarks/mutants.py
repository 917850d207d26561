"""Planted bugs: one-spot mutants of seeds and winners through the real gate, beside allclose.

    python benchmarks/mutants.py [--minutes N] [--jobs 2] [--task NAME] [--per-kind 5] [--again]

Mutants are drawn by the engine (``kernelsmith.gate.probes.engine``), ``--per-kind`` of each kind
from each seed and from each recorded winner (``tests/mutants/winners``), and taken from the tables
by hand (``tests/mutants/*.toml``). Each is judged by every check about bits, and by tolerance on
the same outputs. Nothing is timed. What was judged is kept in ``build/mutants`` line by line, so
that a run that was cut goes on; ``--again`` starts anew. Writes ``benchmarks/results/mutants.json``
and ``docs/mutants.md``. Exit code 1 if a mutant by hand came out otherwise than its table says.
"""

import argparse
import datetime
import hashlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mutant_report
import rows_json
import torch
from mutant_items import DRAW, PER_KIND, TASKS, Item, items, parents
from mutant_judging import as_expected, desk, judge

from kernelsmith import catalog, devices
from kernelsmith.gate.epoch import epoch
from kernelsmith.gate.judge import Gate
from kernelsmith.sandbox.process import open_process

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "mutants.json"
PAGE = ROOT / "docs" / "mutants.md"
KEPT = ROOT / "build" / "mutants"


def key(task_name: str) -> str:
    """What a kept record hangs on: the task, the device, Triton. Not the gate's own code."""
    task = catalog.load_task(task_name, "cpu")
    bits = epoch(task, devices.get("cpu").describe())
    return hashlib.sha256(f"{bits} {task!r}".encode()).hexdigest()[:16]


def kept(task: str, wanted: str) -> dict[str, dict[str, Any]]:
    """Records of earlier runs by id; a line that was cut is left out."""
    path = KEPT / f"{task}.jsonl"
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if record["key"] == wanted:
            found[record["id"]] = record
    return found


def work(name: str, per_kind: int, until: float) -> None:
    """Judges those mutants of a task that have no record yet, until the time is up."""
    torch.set_num_threads(1)  # tasks run side by side
    task = catalog.load_task(name, "cpu")
    wanted = key(name)
    known = kept(name, wanted)
    todo = [item for item in items(task, per_kind) if item.id not in known]
    if not todo or time.time() > until:
        return
    sandbox = open_process()
    gate = Gate(task, devices.get("cpu"), sandbox, secrets.randbits(128))
    KEPT.mkdir(parents=True, exist_ok=True)
    try:
        room = desk(gate, parents(task))
        with (KEPT / f"{name}.jsonl").open("a", encoding="utf-8") as out:
            out.write("\n")  # ends a line that was cut
            for item in todo:
                if time.time() > until:
                    return
                record = {"key": wanted, **judge(room, item)}
                out.write(json.dumps(record) + "\n")
                out.flush()
                _tell(item, record)
    finally:
        gate.close()
        sandbox.close()


def _tell(item: Item, record: dict[str, Any]) -> None:
    mark = "ok " if as_expected(record) else "BAD"
    where = f"{record['check']} {record['status']}".strip()
    print(
        f"{mark} {item.task} {item.parent} {item.kind}: {item.operator}: {item.name[:60]}: "
        f"{record['outcome']} {where} {record['seconds']:.1f} s {record['message'][:120]}"
    )
    sys.stdout.flush()


def side_by_side(names: list[str], jobs: int, per_kind: int, until: float) -> None:
    """One process a task, ``jobs`` at a time.

    Raises:
        SystemExit: one of them failed.
    """
    waiting, running = list(names), dict[str, subprocess.Popen[bytes]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            command = [sys.executable, __file__, "--work", name, "--per-kind", str(per_kind)]
            running[name] = subprocess.Popen([*command, "--until", str(until)])
        time.sleep(0.5)
        for name, process in list(running.items()):
            if process.poll() is None:
                continue
            del running[name]
            if process.returncode:
                for other in running.values():
                    other.terminate()
                raise SystemExit(f"the mutants of {name} ended with {process.returncode}")


def records(names: list[str], per_kind: int) -> Iterator[tuple[Item, dict[str, Any] | None]]:
    """Every mutant that is to be judged, with its record if it was."""
    for name in names:
        known = kept(name, key(name))
        for item in items(catalog.load_task(name, "cpu"), per_kind):
            yield item, known.get(item.id)


def write(names: list[str], per_kind: int, seconds: float) -> int:
    """Writes the figures and the page; returns how many came out otherwise than expected."""
    pairs = list(records(names, per_kind))
    found = [record for _, record in pairs if record is not None]
    document = {
        "schema": "kernelsmith.benchmark.mutants/2",
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": devices.get("cpu").describe(),
        "draw": DRAW,
        "per_kind": per_kind,
        "asked": len(pairs),
        "judged": len(found),
        "complete": len(found) == len(pairs),
        "seconds_of_this_call": round(seconds, 1),
        "as_their_tables_say": sum(as_expected(one) for one in found if one["expected"]),
        "by_hand": sum(one["expected"] is not None for one in found),
        "mutants": [{k: v for k, v in one.items() if k != "key"} for one in found],
    }
    RESULT.write_text(rows_json.text(document, "mutants"), encoding="utf-8")
    PAGE.write_text(mutant_report.page(document), encoding="utf-8")
    print(f"{len(found)} of {len(pairs)} mutants judged")
    return sum(not as_expected(one) for one in found)


def main() -> int:
    """Judges what has no record yet, then writes what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--task", choices=TASKS, action="append")
    parser.add_argument("--minutes", type=float, default=60.0, help="start no mutant after these")
    parser.add_argument("--jobs", type=int, default=2, help="tasks side by side")
    parser.add_argument("--per-kind", type=int, default=PER_KIND)
    parser.add_argument("--again", action="store_true", help="forget what was judged before")
    parser.add_argument("--page", action="store_true", help="only write the page, from the figures")
    parser.add_argument("--work", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(asked.work, asked.per_kind, asked.until)
        return 0
    if asked.page:
        document = json.loads(RESULT.read_text(encoding="utf-8"))
        PAGE.write_text(mutant_report.page(document), encoding="utf-8")
        return 0
    begun = time.time()
    names = list(asked.task or TASKS)
    for name in names if asked.again else []:
        (KEPT / f"{name}.jsonl").unlink(missing_ok=True)
    side_by_side(names, asked.jobs, asked.per_kind, begun + 60 * asked.minutes)
    return 1 if write(list(TASKS), asked.per_kind, time.time() - begun) else 0


if __name__ == "__main__":
    sys.exit(main())
