"""Every conformance case under every Triton version, CPU level, program order and thread count.

    python benchmarks/conformance.py [PYTHON ...]

Each PYTHON has its own Triton beside torch, llvmlite, mpmath and kernelsmith; the running one is
always included. Each case runs once as Triton launches it, against its oracle; its TTIR then runs
as code for each x86-64 level and in each order, whose outputs must have the same bytes, as must
those of every version. Writes ``benchmarks/results/conformance.json``; exits 1 on any difference.
A CPU verdict: it says nothing of a GPU.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "conformance.json"
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
ORDERS = ("threads:2", "descending", "shuffled:7")
PARTS = 2  # processes a version: one a CPU


def run_part(part: int) -> dict[str, Any]:
    """The cases of one part, in this process: what each gave and where it differed."""
    import warnings

    import triton

    from kernelsmith.devices.cpu import activated
    from kernelsmith.devices.cpu.epoch import describe
    from tests.conformance.families import cases_of

    warnings.simplefilter("ignore")
    with activated(threads=1):
        found = [run_case(case) for case in cases_of(triton.__version__)[part::PARTS]]
    return {"triton": triton.__version__, "device": describe(), "cases": found}


def run_case(case: Any) -> dict[str, Any]:
    """One case: its digest, faults, and the settings that gave other bytes."""
    import triton

    from kernelsmith.errors import CompileError
    from tests.conformance.case import digest, faults, launch
    from tests.conformance.refused import refusal

    row: dict[str, Any] = {
        "id": case.id, "family": case.family, "ops": list(case.ops), "dtype": case.dtype,
        "tolerance": str(case.tolerance), "digest": "", "refused": "", "faults": [],
        "differ": [], "settings": 0, "refused_at": {},
    }  # fmt: skip
    words = refusal(case)
    try:
        done = launch(case)
    except (CompileError, triton.compiler.errors.CompilationError) as error:
        message = str(error).strip().splitlines()[-1]
        row["refused"] = message
        if not words or words not in str(error):
            row["faults"] = [f"{case.id}: {message}"]
        return row
    if words:
        row["faults"] = [f"{case.id} ran, but is listed as refused"]
    row["faults"] += faults(case, done.outputs)
    row["digest"] = digest(done.outputs)
    for setting, other in replays(case, done.compiled):
        if isinstance(other, CompileError):
            row["refused_at"][setting] = str(other)
            continue
        row["settings"] += 1
        if other != row["digest"]:
            row["differ"].append(setting)
    return row


def replays(case: Any, compiled: Any) -> Any:
    """(setting, digest) of the same TTIR at each CPU level and in each program order; the error
    instead of the digest where a level refuses it."""
    from kernelsmith.devices.cpu.codegen_target import host_level
    from kernelsmith.devices.cpu.compile import compile_ttir
    from kernelsmith.devices.cpu.kernel import load
    from kernelsmith.errors import CompileError
    from tests.conformance.case import bind, collect, digest

    text = compiled.asm["ttir"]
    for level in LEVELS[: LEVELS.index(host_level()) + 1]:
        try:
            done = compile_ttir(text, cpu=level)
        except CompileError as error:
            yield level, error
            continue
        kernel = load(done.info, done.code)
        orders = ("ascending", *ORDERS) if level == host_level() else ("ascending",)
        for order in orders:
            values = bind(case)
            slots = packed(case, compiled, done.info.params, values)
            grid = (*case.grid, 1, 1)[:3]
            kernel.run(slots, grid, order=order)
            yield f"{level}, {order}", digest(collect(case, values))
        kernel.close()


def packed(case: Any, compiled: Any, params: tuple[str, ...], values: tuple[Any, ...]) -> bytes:
    """The arguments that are left in the code's signature, in the device's slots."""
    from kernelsmith.devices.cpu.launch import pack_args

    kept = [
        value
        for value, type_ in zip(values, compiled.src.signature.values(), strict=False)
        if type_ != "constexpr"
    ]
    flat = [value.data_ptr() if hasattr(value, "data_ptr") else value for value in kept]
    return pack_args(params, flat)


def run_in(python: str, part: int) -> dict[str, Any]:
    """A part in another interpreter, with a Triton cache of its own."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [python, __file__, "--part", str(part)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TRITON_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)},
        )
    if done.returncode != 0:
        raise SystemExit(f"{python} failed:\n{done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def compare(reports: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Every fault, and every digest that is not that of the first version which has the case."""
    problems, wanted = [], {}
    for version, rows in reports.items():
        for row in rows:
            problems += [f"triton {version}: {fault}" for fault in row["faults"]]
            problems += [
                f"triton {version}: {row['id']} has other bits at {setting}"
                for setting in row["differ"]
            ]
            first = wanted.setdefault(row["id"], (version, row["digest"]))
            if row["digest"] != first[1]:
                problems.append(f"triton {version}: {row['id']} has other bits than {first[0]}")
    return problems


def document_of(reports: dict[str, list[dict[str, Any]]], device: Any, took_s: float) -> Any:
    """The JSON: counts by op and dtype, digests, refusals, problems."""
    rows = {row["id"]: row for each in reports.values() for row in each}
    ran = [row for row in rows.values() if not row["refused"]]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in ran:
        for op in row["ops"]:
            counts[op][row["dtype"]] += 1
    refused = {}
    for row in rows.values():
        if row["refused"]:
            refused[row["ops"][0]] = row["refused"]
    only = {
        row["id"]: sorted(v for v, each in reports.items() if row["id"] in {r["id"] for r in each})
        for row in ran
    }
    return {
        "schema": "kernelsmith/conformance/1",
        "device": {name: value for name, value in device.items() if name != "key"},
        "versions": list(reports),
        "levels": list(LEVELS),
        "orders": ["ascending", *ORDERS],
        "seconds": round(took_s),
        "cases": len(ran),
        "ops": len(counts),
        "runs": sum(1 + row["settings"] for each in reports.values() for row in each),
        "to_the_bit": sum(row["tolerance"] == "bits" for row in ran),
        "families": dict(Counter(row["family"] for row in ran)),
        "by_op_and_dtype": {op: dict(counts[op]) for op in sorted(counts)},
        "not_in_every_version": {k: v for k, v in only.items() if len(v) < len(reports)},
        "refused": refused,
        "refused_at": {row["id"]: row["refused_at"] for row in ran if row["refused_at"]},
        "problems": compare(reports),
        "digests": {row["id"]: row["digest"] for row in ran},
    }


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    sys.path.append(str(ROOT))
    if arguments[:1] == ["--part"]:
        print(json.dumps(run_part(int(arguments[1]))))
        return 0
    begin = time.monotonic()
    pythons = list(dict.fromkeys((sys.executable, *arguments)))
    jobs = [(python, part) for python in pythons for part in range(PARTS)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        done = list(pool.map(lambda job: run_in(*job), jobs))
    reports: dict[str, list[dict[str, Any]]] = {}
    for report in done:
        reports.setdefault(report["triton"], []).extend(report["cases"])
    document = document_of(reports, done[0]["device"], time.monotonic() - begin)
    RESULT.write_text(json.dumps(document, indent=1) + "\n")
    print(
        f"Triton {', '.join(reports)}: {document['cases']} cases of {document['ops']} ops, "
        f"{document['runs']} runs, {len(document['refused'])} ops refused, "
        f"{len(document['problems'])} problems, {document['seconds']} s"
    )
    for line in document["problems"]:
        print(line)
    return 1 if document["problems"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
