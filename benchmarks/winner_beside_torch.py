"""The winner of `linear` beside torch fp32 and a person's table of tiles: one thread, one run.

    python benchmarks/winner_beside_torch.py [--db runs.db] [CANDIDATE]

Reads the winner's source through ``kernelsmith show --json`` (default: the incumbent of the latest
run), checks that it and the table have the seed's bits here, and times all sides by turns: the
compiled code of the launches alone, minimum of several windows. The yardstick is torch's fp32
linear on fp32 tensors of the same shape, whatever the dtype of the kernel. Writes
``benchmarks/results/winner_beside_torch.json``.
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from hand_variants import linear_tiles, tiles_for
from native_time import Recorder, record, time_by_turns
from version_kernels import floats, load_seed

from kernelsmith.devices.cpu import activated
from kernelsmith.devices.cpu.epoch import describe
from kernelsmith.devices.cpu.launch import launcher_for

RESULT = Path(__file__).parent / "results" / "winner_beside_torch.json"
TOKENS = (1, 2, 7, 16, 33, 128, 256)
SHAPES_NK = ((1024, 1024), (3072, 1024))
WINDOWS = 25


def kernelsmith_json(*arguments: str) -> Any:
    """What a reporting command prints as JSON."""
    program = Path(sys.executable).parent / "kernelsmith"
    command = [str(program), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def incumbent(db: str) -> str:
    """The standing winner of `linear` in the newest run that has one."""
    for run in kernelsmith_json("runs", "--db", db)["runs"]:
        for task in run["tasks"]:
            if task["task"] == "linear" and task["gain"]:
                return str(task["incumbent"])
    raise SystemExit(f"no accepted candidate of linear in {db}; run `make run` first")


def load(source: str, folder: str) -> ModuleType:
    """The winner as a module; Triton reads its functions' text from the file."""
    path = Path(folder) / "winner_module.py"
    path.write_text(source)
    sys.path.insert(0, folder)
    import winner_module

    return winner_module


def measure(
    recorder: Recorder, seed: Any, winner: Any, nk: tuple[int, int], dtype: torch.dtype, tokens: int
) -> dict[str, Any]:
    """One shape: minimum microseconds a side, and the ratios that matter."""
    n, k = nk
    x, weight = floats(3, (tokens, k), dtype), floats(4, (n, k), dtype)
    x32, w32 = x.float(), weight.float()
    sides = {
        "seed": lambda: seed.forward_infer(x, weight, None)[0],
        "winner": lambda: winner.forward_infer(x, weight, None)[0],
        "table": lambda: linear_tiles(seed, x, weight, tiles_for(tokens)),
    }
    outputs = {name: run() for name, run in sides.items()}
    view = torch.int16 if dtype == torch.bfloat16 else torch.int32
    for name in ("winner", "table"):
        same = torch.equal(outputs[name].view(view), outputs["seed"].view(view))
        assert same, f"{name} differs from the seed at {tokens} tokens"
    native = {name: record(recorder, run) for name, run in sides.items()}
    native["torch fp32"] = lambda: torch.nn.functional.linear(x32, w32)
    best_us = time_by_turns(native, WINDOWS)
    return {
        "tokens": tokens,
        "n": n,
        "k": k,
        "dtype": str(dtype).removeprefix("torch."),
        "us": {name: round(value, 1) for name, value in best_us.items()},
        "winner_to_torch_fp32": best_us["winner"] / best_us["torch fp32"],
        "winner_to_table": best_us["winner"] / best_us["table"],
        "seed_to_winner": best_us["seed"] / best_us["winner"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("candidate", nargs="?")
    parser.add_argument("--db", default="runs.db")
    options = parser.parse_args()
    torch.set_num_threads(1)
    candidate = options.candidate or incumbent(options.db)
    shown = kernelsmith_json("show", candidate, "--db", options.db)
    seed = load_seed("linear")
    with tempfile.TemporaryDirectory() as folder, activated(threads=1):
        recorder = Recorder()
        triton.runtime.driver.active.launcher_cls = launcher_for(recorder)
        winner = load(shown["source"], folder)
        rows = [
            measure(recorder, seed, winner, nk, dtype, tokens)
            for nk in SHAPES_NK
            for dtype in (torch.bfloat16, torch.float32)
            for tokens in TOKENS
        ]
    for row in rows:
        print(
            f"{row['dtype']:9} {row['tokens']:4} x {row['k']} x {row['n']}: winner / torch fp32 "
            f"{row['winner_to_torch_fp32']:.2f}, winner / table {row['winner_to_table']:.2f}, "
            f"seed / winner {row['seed_to_winner']:.2f}"
        )
    report = {
        "schema": "kernelsmith.benchmark.winner_beside_torch/1",
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": describe(),
        "torch": torch.__version__,
        "candidate": candidate,
        "changes": shown.get("changes", []),
        "rows": rows,
    }
    RESULT.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
