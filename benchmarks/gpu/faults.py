"""The stage faults: a kernel that faults or never ends is judged, and the next job is sound."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from gpu import machine
from kernelsmith.model import (
    Buffer,
    Inputs,
    InputSpec,
    Launch,
    LaunchArg,
    OutputRef,
    Plan,
    Run,
    RunJob,
    RunsResult,
    TensorMeta,
)
from kernelsmith.numerics import recipes

ELEMENTS = 4096
FAR = 1 << 24
# The driver may take seconds to start in a process.
TIMEOUT_S = {"cuda": 10.0, "cpu": 2.0}


def faults(dry_run: bool, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Guards at the driver, then jobs behind the wall: a copy, one that reads far beyond its
    buffers (CRASH), one that never ends (TIMEOUT), and after each a copy that must be right."""
    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    copy = machine.Wanted(
        kernel="copy",
        signature={**signature, "BLOCK": "constexpr"},
        constants={"BLOCK": 1024},
        options={"num_warps": 4},
    )
    spin = machine.Wanted(
        kernel="spin", signature=signature, constants={}, options={"num_warps": 4}
    )
    codes = machine.compile_all([copy, spin], machine.architecture(dry_run))
    report: dict[str, Any] = {"jobs": [], "wrong": [one for one in codes if isinstance(one, str)]}
    if report["wrong"]:
        return report
    if not dry_run:
        report["driver"] = _beyond_a_guard(codes[0])
        if not report["driver"].get("is_a_kernels"):
            report["wrong"].append(f"at the driver: {report['driver']['fault']}")
        keep(report)
    _jobs(report, *codes, "cpu" if dry_run else "cuda", keep)
    return report


def _beyond_a_guard(code: Any) -> dict[str, Any]:
    """What the driver says of a read beyond guarded memory, in this process, whose context is
    lost with it."""
    from kernelsmith.devices.cpu.launch import pack_args
    from kernelsmith.devices.cuda import gpu as gpus
    from kernelsmith.devices.cuda import kernel as launches
    from kernelsmith.devices.cuda import memory
    from kernelsmith.errors import GpuError

    with machine.opened(False) as where:
        page = memory.page_bytes(where.gpu)
        if not page:
            return {"fault": "this GPU cannot guard"}
        room = memory.guarded(where.gpu, 3 * page, [(page, 2 * page)])
        loaded = where.device.load(code.info, code.code)
        packed = pack_args(loaded.info.params, [room.address + page, room.address + page, FAR])
        args = ctypes.create_string_buffer(packed, len(packed))
        try:
            launches.launch(launches.prepare(loaded, args, (FAR // 1024, 1, 1)), where.gpu.stream)
            gpus.synchronize(where.gpu)
        except GpuError as error:
            told = {"fault": error.message, "is_a_kernels": error.kernel_fault}
        else:
            told = {"fault": "none: reading beyond the guard went unnoticed"}
    return {"guard_page_bytes": page, **told}


def _jobs(
    report: dict[str, Any], copy: Any, spin: Any, device: str, keep: Callable[..., None]
) -> None:
    """Jobs of a worker behind the wall, one after another: what each was expected to be and was."""
    from kernelsmith.sandbox.choose import choose

    jobs = [("a copy", copy, ELEMENTS, "sound")]
    for name, code, count, status in (
        ("a copy far beyond its buffers", copy, FAR, "CRASH"),
        ("a kernel that never ends", spin, ELEMENTS, "TIMEOUT"),
    ):
        jobs += [(name, code, count, status), (f"a copy after {name}", copy, ELEMENTS, "sound")]
    sandbox = choose("auto", trusted_origin=True)
    try:
        worker = sandbox.start("seed")
        for name, code, count, expected in jobs:
            job = _job(code, count, device)
            reply = worker.submit(job, {f"{code.info.id}.obj": code.code})
            told = _told(reply, job.runs[0].inputs)
            reply.close()
            report["jobs"].append({"job": name, "expected": expected, **told})
            if told["status"] != expected:
                report["wrong"].append(f"{name}: {told['status']} instead of {expected}")
            keep(report)
    finally:
        sandbox.close()


def _told(reply: Any, inputs: Inputs) -> dict[str, Any]:
    result = reply.result
    assert isinstance(result, RunsResult)
    found: dict[str, Any] = {"status": "sound", "seconds": round(reply.seconds, 2)}
    if result.failure is not None:
        return found | {"status": result.failure.status, "message": result.failure.message}
    (place,) = result.runs[0].outputs
    out = np.frombuffer(reply.read("out.bin", place.offset_bytes, place.nbytes), np.float32)
    same = np.array_equal(out, recipes.draw(inputs)["x"]) and not result.runs[0].canaries
    return found if same else found | {"status": "wrong output"}


def _job(code: Any, count: int, device: str) -> RunJob:
    """out = x over ``count`` elements, of which the buffers have :data:`ELEMENTS`, at a guard."""
    meta = TensorMeta(shape=(ELEMENTS,), strides=(1,), dtype="float32")
    spec = InputSpec(name="x", meta=meta, recipe="token", base_shape=(ELEMENTS,), token_axis=0)
    pointers = tuple(LaunchArg(kind="ptr", buffer=index) for index in range(2))
    launch = Launch(
        plan_class="k",
        plan_class_unaligned="k",
        grid=(count // 1024, 1, 1),
        args=(*pointers, LaunchArg(kind="i32", value=count)),
    )
    plan = Plan(
        buffers=(Buffer(nbytes=4 * ELEMENTS, arg="x"), Buffer(nbytes=4 * ELEMENTS)),
        launches=(launch,),
        outputs=(OutputRef(buffer=1, offset_bytes=0, meta=meta),),
    )
    inputs = Inputs(tensors=(spec,), scalars=(), regime="normal", seed=1)
    return RunJob(
        runs=(Run(key="it", plan=plan, inputs=inputs, poison=0),),
        objects={code.info.id: code.info},
        object_of={"k": code.info.id},
        device=device,
        timeout_s=TIMEOUT_S[device],
    )
