"""The winners of the four tasks beside torch and a person's variants: one thread, one run.

    python benchmarks/winner_beside_torch.py [--db runs.db] [--quick] [CANDIDATE]

Reads each winner's source through ``kernelsmith show --json`` (default: the standing winner of each
task in the newest run that has one), checks that it and the hand-written variant have the seed's
bits here, and times all sides by turns: the compiled code of the launches alone, minimum of several
windows. The yardsticks are torch eager in the kernel's dtype and on fp32 tensors of the same shape.
Writes ``benchmarks/results/winner_beside_torch.json``; about 3 minutes.
"""

import argparse
import datetime
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from native_time import Recorder, time_by_turns
from speed_ops import Row, rows, sides

from kernelsmith.devices.cpu import activated
from kernelsmith.devices.cpu.epoch import describe

RESULT = Path(__file__).parent / "results" / "winner_beside_torch.json"
TASKS = ("rms_norm", "linear", "swiglu", "logprob")
WINDOWS = 25


def kernelsmith_json(*arguments: str) -> Any:
    """What a reporting command prints as JSON."""
    program = Path(sys.executable).parent / "kernelsmith"
    command = [str(program), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def incumbents(db: str) -> Iterator[str]:
    """The standing winner of each task, from the newest run that has one."""
    seen: set[str] = set()
    for run in kernelsmith_json("runs", "--db", db)["runs"]:
        for task in run["tasks"]:
            if task["task"] in TASKS and task["gain"] and task["task"] not in seen:
                seen.add(task["task"])
                yield str(task["incumbent"])
    if not seen:
        raise SystemExit(f"no accepted candidate in {db}; run `make run` first")


def load(source: str, task: str, folder: str) -> ModuleType:
    """The winner as a module; Triton reads its functions' text from the file."""
    path = Path(folder) / f"winner_of_{task}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def measure(recorder: Recorder, row: Row, winner: ModuleType, windows: int) -> dict[str, Any]:
    """One shape: minimum microseconds a side, and the ratios that matter."""
    us = time_by_turns(sides(recorder, row, winner), windows)
    dtype = str(row.dtype).removeprefix("torch.")
    found = {
        "op": row.op,
        "tokens": row.tokens,
        "sizes": row.sizes,
        "dtype": dtype,
        "us": {name: round(value, 1) for name, value in us.items()},
        "winner_to_torch": us["winner"] / us["torch"],
        "winner_to_torch_fp32": us["winner"] / us["torch_fp32"],
        "winner_to_hand": us["winner"] / us["hand"],
        "seed_to_winner": us["seed"] / us["winner"],
    }
    print(
        f"{row.op:9} {dtype:9} {row.tokens:4} x {row.sizes}: winner / torch "
        f"{found['winner_to_torch']:.2f}, / torch fp32 {found['winner_to_torch_fp32']:.2f}, / hand "
        f"{found['winner_to_hand']:.2f}, seed / winner {found['seed_to_winner']:.2f}",
        flush=True,
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("candidate", nargs="?")
    parser.add_argument("--db", default="runs.db")
    parser.add_argument("--quick", action="store_true", help="one size a task; writes nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [options.candidate] if options.candidate else list(incumbents(options.db))
    shown = [kernelsmith_json("show", one, "--db", options.db) for one in chosen]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, activated(threads=1):
        triton.knobs.cache.dir = folder
        recorder = Recorder()
        triton.runtime.driver.active.launcher_cls = recorder.launcher
        for candidate in shown:
            winner = load(candidate["source"], candidate["task"], folder)
            listed = [row for row in rows() if row.op == candidate["task"]]
            for row in listed[:1] if options.quick else listed:
                found.append(measure(recorder, row, winner, 3 if options.quick else WINDOWS))
    if options.quick:
        return
    report = {
        "schema": "kernelsmith.benchmark.winner_beside_torch/2",
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": describe(),
        "torch": torch.__version__,
        "candidates": {
            one["task"]: {"id": one["candidate"], "changes": one.get("changes", [])}
            for one in shown
        },
        "rows": found,
    }
    RESULT.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
