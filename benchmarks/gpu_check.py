"""The first minutes on a GPU: what works, which bits agree, how fast it is. One script.

    python benchmarks/gpu_check.py [--out FILE] [--only STAGE,...] [--dry-run]

Under 8 minutes on an H200. Each stage runs in a process of its own within a time of its own; one
that fails, crashes or runs over is recorded with what it had found by then, and the rest goes on.
The record is written after every stage; what is not as it must be stands in a stage's "wrong".
``--dry-run`` runs each stage at tiny sizes on the CPU device where it can, and only compiles for
sm_90 elsewhere: it shows that the script works, nothing of a GPU.

Stages: doctor, driver (first launch; registers and occupancy beside the driver's), faults (guards;
a kernel that faults or never ends, and the job after it), parity (all seeds, all checks about
bits), gemm_bits (tiles, warps, mma families, row counts), elementwise (bits against the CPU
device), alignment, products (fixed tile against cuBLAS; copies), row_sums (tree_sum against
tl.sum), seeds_and_winners (against torch), search (3 minutes, or what is left).

**A machine without a network** that has Python, a CUDA build of torch (2.10 or newer), triton
(3.6.0, 3.7.1 or 3.9.0; it carries ptxas and nvdisasm), numpy, scipy and llvmlite (0.50). Where
there is a network, for the Python release of that machine::

    make gpu-bundle GPU_PYTHON=3.12

That is kernelsmith itself and every other package it needs, as wheels in ``gpu-bundle/`` (24 MB).
There, in a copy of the checkout with that folder, nothing being installed into its Python::

    python3 -m pip install -q --no-index --no-deps --target SITE gpu-bundle/*.whl
    PYTHONPATH=SITE python3 benchmarks/gpu_check.py --out FILE

with SITE any new folder. No C compiler is needed, nor a driver for a dry run.
"""

import argparse
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
KEPT_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A function of a module of ``gpu`` and how long it may take."""

    name: str
    module: str
    limit_s: float


STAGES = (
    Stage(name="doctor", module="gpu.whole", limit_s=40.0),
    Stage(name="driver", module="gpu.whole", limit_s=40.0),
    Stage(name="faults", module="gpu.faults", limit_s=60.0),
    Stage(name="parity", module="gpu.whole", limit_s=130.0),
    Stage(name="gemm_bits", module="gpu.bits", limit_s=75.0),
    Stage(name="elementwise", module="gpu.bits", limit_s=45.0),
    Stage(name="alignment", module="gpu.bits", limit_s=45.0),
    Stage(name="products", module="gpu.speed", limit_s=45.0),
    Stage(name="row_sums", module="gpu.speed", limit_s=40.0),
    Stage(name="seeds_and_winners", module="gpu.speed", limit_s=90.0),
    Stage(name="search", module="gpu.whole", limit_s=230.0),
)
WHOLE_S = 465.0
# Between asking a stage to end and ending it.
GRACE_S = 8.0
# What would make other code of a kernel; Triton reads them, and kernelsmith refuses to go on.
FOREIGN = ("TRITON_", "PTXAS_", "DISABLE_PTXAS")


def run_stage(stage: Stage, out: Path, dry_run: bool) -> None:
    """Runs a stage in this process and writes what it found, or how it failed."""
    sys.path.insert(0, str(HERE))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found: dict[str, Any] = {"status": "begun"}

    def keep(result: dict[str, Any]) -> None:
        found["result"] = result
        # Never half a record, whenever this process ends.
        half = out.with_suffix(".half")
        half.write_text(json.dumps(found, default=str))
        half.replace(out)

    try:
        function = getattr(importlib.import_module(stage.module), stage.name)
        found["result"] = function(dry_run, keep)
        found["status"] = "done"
    except KeyboardInterrupt:
        pass
    except Exception as error:
        told = traceback.format_exc(limit=6)[-KEPT_CHARS:]
        hint = getattr(error, "hint", None)
        found |= {"status": "failed", "error": f"{type(error).__name__}: {error}", "trace": told}
        found |= {"hint": hint} if hint else {}
    keep(found.get("result", {}))


def in_a_process(stage: Stage, limit_s: float, dry_run: bool) -> dict[str, Any]:
    """A stage in a process of its own, ended with all it started when its time is over."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder) / "result.json", Path(folder) / "log.txt"
        command = [sys.executable, __file__, "--stage", stage.name, "--out", str(out)]
        command += ["--dry-run"] if dry_run else []
        with log.open("wb") as written:
            process = subprocess.Popen(
                command,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**environment(), "GPU_CHECK_LIMIT_S": f"{limit_s:.0f}"},
            )
            found: dict[str, Any] = {"status": "crashed"}
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                found = {"status": "out of time", "limit_s": round(limit_s, 1)}
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            found["exit"] = process.wait()
        if out.is_file():
            told = json.loads(out.read_text())
            found |= {"result": told["result"]} if told["status"] == "begun" else told
        said = log.read_text(errors="replace")[-KEPT_CHARS:]
    if said.strip():
        found["log"] = said.splitlines()
    return {"stage": stage.name, "seconds": round(time.monotonic() - began_s, 1), **found}


def environment() -> dict[str, str]:
    """This process's variables without those that would make other code of a kernel."""
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


def machine_facts() -> dict[str, Any]:
    """What the record is of; the GPU itself is in the stage doctor."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    left_out = sorted(os.environ.keys() - environment().keys())
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "variables_left_out": left_out,
    }


def without_places(text: str) -> str:
    """The text with this machine's folders replaced by what they are."""
    packages = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    places = dict.fromkeys(packages, "(packages)") | {
        str(HERE.parent): "(checkout)",
        sys.prefix: "(python)",
        sys.base_prefix: "(python)",
        str(Path.home()): "(home)",
        tempfile.gettempdir(): "(tmp)",
    }
    for place, word in places.items():
        text = text.replace(place, word) if len(place) > 1 else text
    return text


def main(given: list[str]) -> int:
    """Returns the exit status: 0 if every stage is done and nothing in it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--stage", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    by_name = {stage.name: stage for stage in STAGES}
    if options.stage:
        run_stage(by_name[options.stage], options.out, options.dry_run)
        return 0
    unknown = set(filter(None, options.only.split(","))) - set(by_name)
    if unknown:
        parser.error(f"no such stage: {', '.join(sorted(unknown))}; {', '.join(by_name)}")
    chosen = [one for one in STAGES if not options.only or one.name in options.only.split(",")]
    now = datetime.now(UTC)
    label = "dry_run" if options.dry_run else now.strftime("%Y-%m-%d")
    out = options.out or RESULTS / f"gpu_check_{label}.json"
    document: dict[str, Any] = {
        "schema": "kernelsmith/gpu-check/1",
        "what": "DRY RUN on a CPU: nothing here is of a GPU" if options.dry_run else "a GPU",
        "at": now.isoformat(timespec="seconds"),
        "machine": machine_facts(),
        "stages": [],
    }
    began_s = time.monotonic()
    for stage in chosen:
        left_s = WHOLE_S - (time.monotonic() - began_s)
        if left_s < 5.0 and not options.dry_run:
            found: dict[str, Any] = {"stage": stage.name, "status": "skipped", "left_s": left_s}
        else:
            limit_s = stage.limit_s if options.dry_run else min(stage.limit_s, left_s)
            found = in_a_process(stage, limit_s, options.dry_run)
        document["stages"].append(found)
        document["seconds"] = round(time.monotonic() - began_s, 1)
        out.write_text(without_places(json.dumps(document, indent=1)) + "\n")
        print(f"{stage.name}: {found['status']} ({found.get('seconds', 0)} s)", flush=True)
        for line in wrong(found):
            print(f"  {line}", flush=True)
    print(f"{out}: {document['seconds']} s")
    return int(any(one["status"] != "done" or wrong(one) for one in document["stages"]))


def wrong(found: dict[str, Any]) -> list[str]:
    """What a stage's record says is not as it must be."""
    failed = [found["error"]] if "error" in found else []
    return failed + list(found.get("result", {}).get("wrong", ()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
