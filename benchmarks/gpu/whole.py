"""Stages through kernelsmith itself: doctor, the driver layer, the seeds' bits, a short search."""

import contextlib
import dataclasses
import io
import json
import os
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from gpu import bits, machine
from kernelsmith import catalog, devices
from kernelsmith.model import Case, Task

SEEDS = ("rms_norm", "swiglu", "logprob", "linear")
SMALL_ELEMENTS = 1 << 21
PARITY_S = 110.0
CHEATS = 2
SPARE_S = 30
Keep = Callable[[dict[str, Any]], None]
BITS_SHOWN = ("name", "status", "seconds", "message")


def doctor(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """What is here: versions, the GPU as the driver and NVML tell of it, ``kernelsmith doctor``."""
    from kernelsmith.cli.main import main
    from kernelsmith.devices.cuda import nvml, tools
    from kernelsmith.devices.cuda.device import CudaDevice

    names = ("torch", "triton", "llvmlite", "numpy", "kernelsmith-rl")
    report: dict[str, Any] = {
        "versions": {name: metadata.version(name) for name in names},
        "ptxas": {f"sm_{arch}": tools.ptxas_release(arch) for arch in (80, 90, 100)},
    }
    device = "cpu" if dry_run else "cuda"
    if not dry_run:
        facts = CudaDevice().facts()
        report["gpu"] = dataclasses.asdict(facts)
        report["state"] = nvml.state(facts.uuid)
        report["epoch"] = CudaDevice().describe()
    keep(report)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        report["doctor_exit"] = main(["doctor", "--json", "--device", device])
    report["doctor"] = json.loads(said.getvalue())
    bad = [one for one in report["doctor"].get("checks", ()) if not one["ok"]]
    return report | {"wrong": [f"doctor, {one['name']}: {one['detail']}" for one in bad]}


def driver(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """The first sign of life: a kernel through libcuda, and the driver's own figures of it beside
    those that are read from the binary here."""
    wanted = [bits.operation("add"), bits.sums(True, "*fp32"), bits.matmul_of((64, 64, 64), 4, 3)]
    codes = machine.compile_all(wanted, machine.architecture(dry_run))
    x, y = bits.values(4096)
    report: dict[str, Any] = {"kernels": []}
    with machine.opened(dry_run) as where:
        arrays, taken_us = where.run(codes[0], [x, y, np.zeros_like(x), x.size], (4, 1, 1), times=5)
        with np.errstate(all="ignore"):
            expected = x + y
        report["add"] = bits.difference(expected, arrays[2]) | {"us": round(taken_us, 2)}
        if report["add"]["differ"]:
            report["wrong"] = [f"x + y differs at {report['add']['differ']} places"]
        keep(report)
        for code in () if dry_run else codes:
            report["kernels"].append(_beside_driver(where, code))
    return report


def _beside_driver(where: Any, code: Any) -> dict[str, Any]:
    """Registers, stack and occupancy by the driver and by the binary."""
    import ctypes

    from kernelsmith.devices.cuda import kernel
    from kernelsmith.devices.cuda.constants import FunctionAttribute

    loaded = where.device.load(code.info, code.code)
    lib, stats = where.gpu.lib, code.info.stats
    ask = FunctionAttribute
    blocks = ctypes.c_int()
    lib.call(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        ctypes.byref(blocks),
        loaded.address,
        32 * stats["num_warps"],
        stats["shared_bytes"],
    )
    told = {
        "registers": kernel.function_attribute(lib, loaded, ask.NUM_REGS),
        "stack_bytes": kernel.function_attribute(lib, loaded, ask.LOCAL_SIZE_BYTES),
        "blocks": blocks.value,
    }
    ours = {
        "registers": stats["registers"],
        "stack_bytes": stats["stack_bytes"],
        "blocks": stats["occupancy"]["blocks"],
    }
    return {"kernel": code.info.symbol, "driver": told, "binary": ours, "same": told == ours}


def small(task: Task, most: int = SMALL_ELEMENTS, each: int = 4) -> Task:
    """A task with a few cases a call form and dtype: sizes that a minute is enough for. Timed ones
    keep their weights; those above ``most`` elements take fewer tokens."""
    kept: list[Case] = []
    counts: dict[tuple[str, str], int] = {}
    for case in task.cases:
        key = (case.call, case.dtype)
        counts[key] = counts.get(key, 0) + 1
        if case.weight > 0 or counts[key] <= each:
            kept.append(_fewer_tokens(task, case, most))
    low, high = task.token_range
    return dataclasses.replace(task, cases=tuple(kept), token_range=(low, min(high, 64)))


def _fewer_tokens(task: Task, case: Case, most: int) -> Case:
    dims = dict(case.dims)
    tokens = dims.get(task.token_dim, 0)
    widest = max([1, *(size for name, size in dims.items() if name != task.token_dim)])
    if tokens * widest <= most:
        return case
    dims[task.token_dim] = max(1, most // widest) | 1
    return dataclasses.replace(case, id=f"{case.id} cut", dims=tuple(dims.items()))


def parity(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """Every seed through every check about bits, on both paths: parity, cross-path, repeats among
    co-runners and off alignment, guards and poisons. Behind the wall that a run has."""
    from kernelsmith.gate.judge import Gate
    from kernelsmith.sandbox.choose import choose

    name = "cpu" if dry_run else "cuda"
    device = devices.get(name)
    sandbox = choose("auto", trusted_origin=True)
    report: dict[str, Any] = {"sandbox": sandbox.describe()["name"], "tasks": {}, "wrong": []}
    began_s = time.monotonic()
    try:
        for seed in SEEDS[:1] if dry_run else SEEDS:
            if time.monotonic() - began_s > PARITY_S:
                report["tasks"][seed] = {"skipped": "no time was left"}
                report["wrong"].append(f"{seed}: no time was left")
                continue
            task = catalog.load_task(seed, name)
            task = small(task, 1 << 13, 1) if dry_run else small(task)
            gate = Gate(task, device, sandbox, secret_seed=20_261_130)
            found = report["tasks"][seed] = _bits_of(gate, len(task.cases))
            if found["status"] != "ACCEPTED":
                last = found.get("checks", [{}])[-1]
                told = found.get("message") or last.get("message", "")
                report["wrong"].append(f"{seed}: {found['status']}: {told}")
            keep(report)
    finally:
        sandbox.close()
    return report


def _bits_of(gate: Any, cases: int) -> dict[str, Any]:
    from kernelsmith.errors import KernelsmithError

    began_s = time.monotonic()
    try:
        verdict = gate.judge_bits(gate.seed)
        checks = [
            {name: getattr(check, name) for name in BITS_SHOWN if getattr(check, name)}
            for check in verdict.checks
        ]
        compiled = next((one for one in verdict.checks if one.name == "compile"), None)
        found: dict[str, Any] = {"status": verdict.status, "checks": checks}
        if compiled is not None:
            found["code"] = compiled.evidence
    except KernelsmithError as error:
        found = {"status": type(error).__name__, "message": error.message}
    finally:
        gate.close()
    return {**found, "cases": cases, "seconds": round(time.monotonic() - began_s, 1)}


def search(dry_run: bool, keep: Keep) -> dict[str, Any]:
    """``kernelsmith run linear rms_norm`` for three minutes, on cases cut to what that is enough
    for; a dry run judges one candidate of rms_norm on the CPU."""
    from kernelsmith.cli.main import main
    from kernelsmith.wiring import real

    wiring = real()
    load = wiring.load_task
    cut = 1 << 13 if dry_run else SMALL_ELEMENTS
    each = 1 if dry_run else 2
    wiring = dataclasses.replace(
        wiring,
        load_task=lambda name, device, places: small(load(name, device, places), cut, each),
        prove=short_proof,
    )
    # A judgement that is under way when the time is over is finished.
    seconds = max(30, min(180, int(os.environ.get("GPU_CHECK_LIMIT_S", "240")) - SPARE_S))
    words = ["run", "linear", "rms_norm", "--device", "cuda", "--time-limit", f"{seconds}s"]
    if dry_run:
        words = ["run", "rms_norm", "--device", "cpu", "--time-limit", "40s"]
        words += ["--max-candidates", "1"]
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        db = str(Path(folder) / "runs.db")
        said, runs = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said):
            code = main([*words, "--seed", "1", "--json", "--db", db], wiring)
        with contextlib.redirect_stdout(runs):
            main(["runs", "--json", "--db", db])
    report: dict[str, Any] = {"exit": code, "seconds": round(time.monotonic() - began_s, 1)}
    for label, text in (("run", said.getvalue()), ("runs", runs.getvalue())):
        with contextlib.suppress(ValueError):
            report[label] = json.loads(text)
    if code != 0:
        report["wrong"] = [f"the run ended with {code}: see the log"]
    return report


def short_proof(judge: Any, share: Any) -> dict[str, Any]:
    """The seed and a few cheats instead of the gate's whole proof of itself, which takes longer
    than this script has; cases were cut, so mutants would tell nothing.

    Raises:
        EvidenceError: a cheat got through, or the seed did not.
    """
    from kernelsmith.errors import EvidenceError
    from kernelsmith.gate.probes.cheats import cheats
    from kernelsmith.model import new_candidate

    began_s = time.monotonic()
    seed = judge.judge_bits(judge.seed)
    if not seed.accepted:
        raise EvidenceError(f"{judge.task.name}: the seed: {seed.checks[-1].message}")
    tried = [each for each in cheats(judge.task) if not each.walk][:CHEATS]
    for cheat in tried:
        parents = (judge.seed.id,)
        candidate = new_candidate(cheat.source, judge.task.name, author="seed", parents=parents)
        if judge.judge_bits(candidate).accepted:
            raise EvidenceError(f"{judge.task.name}: {cheat.name!r} got through")
    return {
        "cheats": {"tried": len(tried), "rejected": len(tried)},
        "mutants": {"tried": 0, "rejected": 0},
        "unchecked": ["mutants"],
        "seed": "pass",
        "seconds": time.monotonic() - began_s,
        "rejections": [],
    }
