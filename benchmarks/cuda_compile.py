"""Seeds and winners compiled for GPUs, on a machine without one: what each kernel uses and does.

    python benchmarks/cuda_compile.py [PYTHON ...] [--only NAME] [--archs 80,90,100]
        [--aligned] [--out FILE]

Each PYTHON has its own Triton beside kernelsmith; the running one is always included. Every plan
class of every timed case is compiled, for aligned and (a minute each for some) unaligned pointers;
``--aligned`` leaves those out. Registers, stack, shared memory and occupancy are read from the
binary; PTX is counted, on sm_90 machine code too; what a winner does that none of its seed's
kernels does is named. Writes ``benchmarks/results/cuda_compile.json`` or FILE; exits 1 if a kernel
does not compile. Nothing is run: the figures say nothing of bits or speed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks" / "results" / "cuda_compile.json"
SASS_ARCH = 90
TASKS = ("rms_norm", "linear", "swiglu", "logprob")


def kernels_of(name: str, source: str, arch: int) -> list[Any]:
    """The plan classes of a source's timed cases.

    Raises:
        SystemExit: it does not trace.
    """
    from kernelsmith import cases, catalog
    from kernelsmith.model import TraceJob
    from kernelsmith.worker import frontend

    task = catalog.load_task(name, "cuda")
    calls = [cases.trace_call(task, case) for case in task.cases if case.weight > 0]
    job = TraceJob(source=source, entries=task.entries, calls=tuple(calls), device=f"cuda:{arch}")
    with tempfile.TemporaryDirectory() as folder:
        found = frontend.run(job, Path(folder))
    if found.failure is not None:
        raise SystemExit(f"{name}: {found.failure.status}: {found.failure.message}")
    return sorted(found.classes.values(), key=lambda one: (one.kernel, one.specialisation))


def aligned(plan_class: Any) -> bool:
    """Whether every pointer of a class is a multiple of 16."""
    words = plan_class.specialisation.split()
    return all(word.endswith("/16") for word in words if ":*" in word)


def compiled(plan_class: Any, arch: int) -> dict[str, Any]:
    """What one class compiles to."""
    from kernelsmith.devices.cuda import device, lint, tools

    began_s = time.monotonic()
    code = device.CudaDevice().cross_compile(plan_class.ttir, arch=arch)
    seconds = time.monotonic() - began_s
    info = device.object_info(code)
    # Of one generation: a disassembler takes longer than the compiler.
    sass = tools.sass(code.cubin) if arch == SASS_ARCH and aligned(plan_class) else ""
    counted = lint.lint(code.ptx, sass).facts()
    names = ("registers", "stack_bytes", "shared_bytes", "code_bytes", "num_warps", "num_ctas")
    return {
        "kernel": plan_class.kernel,
        "class": plan_class.id,
        "aligned": aligned(plan_class),
        "compile_s": round(seconds, 2),
        **{key: info.stats[key] for key in names},
        "occupancy": info.stats["occupancy"],
        "counts": {key: count for key, count in counted.items() if count},
    }


def run_here(only: str, archs: list[int], all_of_them: bool) -> dict[str, Any]:
    """Every source for every architecture, in this interpreter."""
    import triton
    from gpu.plans import sources

    from kernelsmith.devices.cuda import lint, tools

    entries: list[dict[str, Any]] = []
    for name in [only] if only else TASKS:
        for arch in archs:
            seed: list[dict[str, int]] = []
            for label, source in sources(name).items():
                classes = kernels_of(name, source, arch)
                rows = [compiled(one, arch) for one in classes if all_of_them or aligned(one)]
                counts = [{**row["counts"], "stack_bytes": row["stack_bytes"]} for row in rows]
                seed = seed or counts
                beyond = {
                    row["kernel"]: told
                    for row, count in zip(rows, counts, strict=True)
                    if (told := lint.beyond(count, seed))
                }
                entry = {"task": name, "source": label, "arch": f"sm_{arch}"}
                entries.append({**entry, "kernels": rows, "beyond_seed": beyond})
                print(f"  {name}, {label}, sm_{arch}: {len(rows)} compiled", file=sys.stderr)
    ptxas = {f"sm_{arch}": tools.ptxas_release(arch) for arch in archs}
    return {"triton": triton.__version__, "ptxas": ptxas, "sources": entries}


def cannot_run(reports: list[dict[str, Any]]) -> dict[str, int]:
    """How many kernels need more than a multiprocessor has, by source."""
    found: Counter[str] = Counter()
    for entry in (entry for report in reports for entry in report["sources"]):
        too_large = sum(row["occupancy"]["blocks"] == 0 for row in entry["kernels"])
        found.update({f"{entry['task']}, {entry['source']}": too_large} if too_large else {})
    return dict(found)


def run_in(python: str, arguments: list[str]) -> dict[str, Any]:
    """The same in another interpreter."""
    done = subprocess.run(
        [python, __file__, "--here", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode != 0:
        raise SystemExit(f"{python} failed with {done.returncode}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def main(given: list[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pythons", nargs="*")
    parser.add_argument("--only", default="", choices=["", *TASKS])
    parser.add_argument("--archs", default="80,90,100")
    parser.add_argument("--aligned", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--here", action="store_true")
    options = parser.parse_args(given)
    archs = [int(arch) for arch in options.archs.split(",")]
    if options.here:
        print(json.dumps(run_here(options.only, archs, not options.aligned)))
        return 0
    passed = ["--archs", options.archs, *(["--only", options.only] if options.only else [])]
    passed += ["--aligned"] if options.aligned else []
    reports = [run_in(one, passed) for one in dict.fromkeys((sys.executable, *options.pythons))]
    total = sum(len(entry["kernels"]) for report in reports for entry in report["sources"])
    document = {
        "schema": "kernelsmith/cuda-compile/1",
        "note": "compiled only: no GPU was there, nothing was run",
        "kernels": total,
        "unaligned_too": not options.aligned,
        "cannot_run": cannot_run(reports),
        "versions": reports,
    }
    if not options.only:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    versions = ", ".join(report["triton"] for report in reports)
    print(f"Triton {versions}: {total} kernels compile for {options.archs}")
    for source, count in document["cannot_run"].items():
        print(f"  {count} of {source} need more than a multiprocessor has and cannot run")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
