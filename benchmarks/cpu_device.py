"""The CPU device beside torch eager: ratios, launch cost, compile cost, and the goals for them.

    python benchmarks/cpu_device.py [--quick] [--ops rms_norm,linear]

Everything is timed in one process on one thread, kernel and torch by turns, and the minimum of
several windows is taken: what other programs on the machine add never makes a minimum smaller.
Times of kernels are of the compiled code alone (``seed``, ``hand``) and through Triton's own
``kernel[grid](...)`` (``hand_launched``). Writes ``benchmarks/results/cpu_device.json``, unless
``--quick`` or ``--ops`` left something out; about 4 minutes, 2 GB.
"""

import argparse
import datetime
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import speed_goals
import torch
import triton
from compile_cost import compile_cost, launch_cost
from native_time import Recorder, time_by_turns
from speed_backward import backward_rows, backward_sides
from speed_ops import Row, Sides, rows, sides

from kernelsmith.devices.cpu import activated
from kernelsmith.devices.cpu.epoch import describe

RESULT = Path(__file__).parent / "results" / "cpu_device.json"
WINDOWS = 60
TORCH = ("torch", "torch_fp32")


def measure(row: Row, run: Sides, windows: int) -> dict[str, Any]:
    """One row of the document: minimum microseconds a side, and kernels over torch."""
    us = time_by_turns(run, windows)
    ratios = {
        f"{side}_over_{other}": round(us[side] / us[other], 3)
        for side in ("seed", "hand")
        for other in TORCH
        if side in us
    }
    if "seed" in us and "hand" in us:
        ratios["seed_over_hand"] = round(us["seed"] / us["hand"], 3)
    found = {
        "op": row.op,
        "tokens": row.tokens,
        "dtype": str(row.dtype).removeprefix("torch."),
        "sizes": row.sizes,
        "us_min": {name: round(value, 2) for name, value in us.items()},
        **ratios,
    }
    print(json.dumps(found), flush=True)
    return found


def quick(chosen: list[Row]) -> list[Row]:
    """The first and the last row of each op and dtype."""
    first = {(row.op, row.dtype): row for row in reversed(chosen)}
    last = {(row.op, row.dtype): row for row in chosen}
    return [row for row in chosen if row in (*first.values(), *last.values())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two sizes of each op; writes nothing")
    parser.add_argument("--ops", default="", help="these alone, by commas; writes nothing")
    options = parser.parse_args()
    windows = 3 if options.quick else WINDOWS
    torch.set_num_threads(1)
    wanted = [name for name in options.ops.split(",") if name]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as cache, activated(threads=1):
        triton.knobs.cache.dir = cache
        recorder = Recorder()
        triton.runtime.driver.active.launcher_cls = recorder.launcher
        document: dict[str, Any] = {
            "schema": "kernelsmith/cpu-device/2",
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "device": {**describe(), "threads": 1},
            "load_1m_before": load,
            "torch": torch.__version__,
            "triton": triton.__version__,
            "method": f"min of up to {windows} windows of 1 ms or one call, sides by turns, one "
            "process, one thread; CPU figures",
            "compile": compile_cost(1 if options.quick else 5),
            "launch": launch_cost(recorder, windows),
            "ops": [],
        }
        for listed, make in ((list(rows()), sides), (list(backward_rows()), backward_sides)):
            for row in quick(listed) if options.quick else listed:
                if not wanted or row.op in wanted:
                    document["ops"].append(measure(row, make(recorder, row), windows))
    print(json.dumps({k: v for k, v in document.items() if k != "ops"}, indent=1))
    if wanted:
        return
    if not options.quick:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(document, indent=1) + "\n")
    print(speed_goals.table(document), end="")


if __name__ == "__main__":
    main()
