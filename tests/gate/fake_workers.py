"""Workers that are not there: a small op in numpy, with faults that a candidate asks for by name.

A candidate's source is a docstring that holds JSON: its faults and its speed. The fake front end
copies it into the "TTIR", the fake launcher obeys it. So each check meets a candidate that is
wrong in exactly one way.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelsmith.model import (
    Buffer,
    CaseTimes,
    CompileJob,
    CompileResult,
    Finding,
    Inputs,
    Launch,
    LaunchArg,
    ObjectInfo,
    OutputBytes,
    OutputRef,
    Plan,
    PlanClass,
    Run,
    RunJob,
    RunResult,
    RunsResult,
    TensorMeta,
    TimedReplay,
    TimeJob,
    TimeResult,
    TraceCall,
    TraceJob,
    TraceResult,
    WorkerFailure,
)

BLOCK = 8
ROLES = {"forward_train": "train", "forward_infer": "infer", "backward": "backward"}


def source_of(**faults: Any) -> str:
    return f'"""{json.dumps(faults, sort_keys=True)}"""\n'


def faults_of(source: str) -> dict[str, Any]:
    return dict(json.loads(source.strip().strip('"')))


@dataclass
class FakeReply:
    result: Any
    files: dict[str, bytes] = field(default_factory=dict)

    def read(self, name: str, offset: int = 0, nbytes: int | None = None) -> bytes:
        data = self.files[name]
        return data[offset:] if nbytes is None else data[offset : offset + nbytes]

    def close(self) -> None:
        pass


@dataclass
class FakeWorker:
    role: str
    log: list[tuple[str, Any]]

    def submit(self, job: Any, files: Mapping[str, bytes] | None = None) -> FakeReply:
        self.log.append((self.role, job))
        answer = {TraceJob: trace, CompileJob: compile_all, RunJob: run_all, TimeJob: time_all}
        return answer[type(job)](job, dict(files or {}), self.role)

    def renew(self) -> None:
        self.log.append((self.role, "renewed"))

    def close(self) -> None:
        self.log.append((self.role, "closed"))


@dataclass
class FakeSandbox:
    log: list[tuple[str, Any]] = field(default_factory=list)

    def start(self, role: str) -> FakeWorker:
        return FakeWorker(role, self.log)

    def describe(self) -> dict[str, Any]:
        return {"sandbox": "fake"}

    def close(self) -> None:
        pass


class FakeDevice:
    name = "cpu"
    target = "cpu"

    def describe(self) -> dict[str, Any]:
        return {"device": "cpu", "compiler": "none", "key": "fake"}

    def object_id(self, ttir: str) -> str:
        return hashlib.sha256(ttir.encode()).hexdigest()[:16]

    def turn(self, *, alone: bool) -> AbstractContextManager[None]:
        return nullcontext()


# ------------------------------------------------------------------------------------- front end


def trace(job: TraceJob, files: dict[str, bytes], role: str) -> FakeReply:
    assert role == "frontend"
    faults = faults_of(job.source)
    plans: dict[str, Plan] = {}
    classes: dict[str, PlanClass] = {}
    for call in job.calls:
        plans[call.key] = plan_of(call, faults, classes, job)
        if "trace_fails_at" in faults and rows_of(call) == faults["trace_fails_at"]:
            failure = WorkerFailure(status="TRACE", message="no branch for it", where=call.key)
            return FakeReply(TraceResult(plans={}, classes={}, failure=failure))
    return FakeReply(TraceResult(plans=plans, classes=classes))


def rows_of(call: TraceCall) -> int:
    return next(value.shape[0] for _, value in call.args if isinstance(value, TensorMeta))


def plan_of(
    call: TraceCall, faults: dict[str, Any], classes: dict[str, PlanClass], job: TraceJob
) -> Plan:
    tensors = [(name, value) for name, value in call.args if isinstance(value, TensorMeta)]
    meta = tensors[0][1]
    m, n = meta.shape
    wide = TensorMeta(shape=(m, n), strides=(n, 1), dtype="float32")
    one = TensorMeta(shape=(m,), strides=(1,), dtype="float32")
    col = TensorMeta(shape=(n,), strides=(1,), dtype="float32")
    outs = {"train": [wide, one], "infer": [wide], "backward": [wide, col]}[ROLES[call.entry]]
    if faults.get("drops_output") and len(outs) > 1:
        outs = outs[:1]
    if faults.get("transposes"):
        outs[0] = TensorMeta(shape=(m, n), strides=(1, m), dtype="float32")
    buffers = [Buffer(nbytes=4 * math.prod(v.shape), arg=name) for name, v in tensors]
    first = len(buffers)
    buffers += [Buffer(nbytes=4 * math.prod(o.shape)) for o in outs]
    refs = [OutputRef(buffer=first + i, offset_bytes=0, meta=o) for i, o in enumerate(outs)]
    if faults.get("returns_input"):
        refs[0] = OutputRef(buffer=0, offset_bytes=0, meta=outs[0])
    branch = m >= faults.get("branch_at", m + 1)
    told = {"entry": call.entry, "faults": faults, "branch": branch}
    decides = (branch and faults.get("branch_decides")) or faults.get("decides_at_width") == n
    module = module_of(len(buffers), faults, decides=bool(decides))
    text = f"// {json.dumps(told, sort_keys=True)}\n{module}"
    ident = hashlib.sha256(text.encode()).hexdigest()[:12]
    if ident not in job.known:
        classes[ident] = PlanClass(
            id=ident, kernel="k", options={}, specialisation="", ttir=text if job.emit else ""
        )
    grid = (m + (1 if job.real and faults.get("knows_real") else 0), 1, 1)
    args = tuple(LaunchArg(kind="ptr", buffer=i) for i in range(len(buffers)))
    launch = Launch(plan_class=ident, plan_class_unaligned=ident, grid=grid, args=args)
    return Plan(buffers=tuple(buffers), launches=(launch,), outputs=tuple(refs))


def module_of(buffers: int, faults: dict[str, Any], *, decides: bool) -> str:
    """The IR of a kernel that does nothing, or what a fault asks for."""
    args = ", ".join(f"%{i}: !tt.ptr<f32>" for i in range(buffers))
    body = ""
    if faults.get("atomic"):
        body = """    %one = arith.constant 1.000000e+00 : f32
    %old = tt.atomic_rmw fadd, acq_rel, gpu, %0, %one : (!tt.ptr<f32>, f32) -> f32
"""
    if decides:
        body += """    %first = tt.load %0 : !tt.ptr<f32>
    %zero = arith.constant 0.000000e+00 : f32
    %large = arith.cmpf ogt, %first, %zero : f32
    scf.if %large {
      tt.store %0, %zero : !tt.ptr<f32>
    }
"""
    return f"module {{\n  tt.func public @k({args}) {{\n{body}    tt.return\n  }}\n}}\n"


def told_in(text: str | bytes) -> dict[str, Any]:
    """What the first line of a fake kernel's text says."""
    line = text if isinstance(text, str) else text.decode()
    return dict(json.loads(line.splitlines()[0].removeprefix("// ")))


# -------------------------------------------------------------------------------------- launcher


def compile_all(job: CompileJob, files: dict[str, bytes], role: str) -> FakeReply:
    objects, out = {}, {}
    for ident, text in job.ttirs.items():
        faults = told_in(text)
        if faults["faults"].get("no_compile") or (
            faults["faults"].get("no_compile_branch") and faults["branch"]
        ):
            failure = WorkerFailure(status="COMPILE", message="op tt.nope", where=ident)
            return FakeReply(CompileResult(objects={}, failure=failure))
        objects[ident] = ObjectInfo(id=ident, symbol="k", params=(), arena_bytes=0, code_hash=ident)
        out[f"{ident}.obj"] = text.encode()
    return FakeReply(CompileResult(objects=objects), out)


def draw(inputs: Inputs, files: dict[str, bytes]) -> dict[str, np.ndarray]:
    found = {}
    for spec in inputs.tensors:
        rng = np.random.default_rng((inputs.seed, zlib.crc32(spec.name.encode())))
        whole = rng.standard_normal(spec.base_shape).astype(np.float32)
        if spec.rows is not None:
            pad = np.full((1, *whole.shape[1:]), 99.0, np.float32)
            whole = np.concatenate([whole, pad])[list(spec.rows)]
        if spec.file is not None:
            whole = np.frombuffer(files[spec.file], np.float32).reshape(spec.meta.shape)
        found[spec.name] = whole
    return found


def compute(entry: str, args: dict[str, np.ndarray], faults: dict[str, Any]) -> list[np.ndarray]:
    role = ROLES[entry]
    x, w = args["x"], args["w"]
    if role != "backward":
        y = x * w + np.float32(faults.get("adds", 0.0))
        return [y, x.sum(axis=1, dtype=np.float32)] if role == "train" else [y]
    dy = args["dy"]
    total = args.get("carry", np.zeros(x.shape[1], np.float32)).copy()
    if faults.get("sums_apart"):
        apart = np.zeros_like(total)
        for begin in range(0, len(x), BLOCK):
            apart += (dy[begin : begin + BLOCK] * x[begin : begin + BLOCK]).sum(axis=0)
        total = total + apart
    else:
        for begin in range(0, len(x), BLOCK):
            total += (dy[begin : begin + BLOCK] * x[begin : begin + BLOCK]).sum(axis=0)
    return [dy * w, total]


def wrong(run: Run, entry: str, rows: int, faults: dict[str, Any]) -> bool:
    """Whether this run meets the condition under which the candidate goes wrong."""
    padded = any(
        t.meta.strides[0] > t.meta.shape[-1]
        for t in run.inputs.tensors
        if t.rows is None and len(t.meta.shape) == 2
    )
    return any(
        (
            faults.get("wrong_entry") == entry,
            faults.get("wrong_at_rows") == rows and entry == "forward_infer",
            faults.get("wrong_outside") and rows not in (0, 1, 7, 40),
            faults.get("wrong_order") and run.order == faults["wrong_order"],
            faults.get("wrong_misaligned") and run.misalign_bytes > 0,
            faults.get("wrong_padded") and padded,
            faults.get("wrong_poison") == run.poison,
            faults.get("wrong_stale") and run.stale,
        )
    )


def run_one(run: Run, info: dict[str, Any], files: dict[str, bytes]) -> list[bytes]:
    faults = info["faults"]
    args = draw(run.inputs, files)
    outs = compute(info["entry"], args, faults)
    rows = args["x"].shape[0]
    branch = faults.get("wrong_branch") and info["branch"]
    if rows and (branch or wrong(run, info["entry"], rows, faults)):
        outs[-1] = outs[-1].copy()
        outs[-1].view(np.uint32).reshape(-1)[-1] ^= 1
    return [np.ascontiguousarray(out).tobytes() for out in outs]


def findings_of(faults: dict[str, Any], key: str) -> tuple[Finding, ...]:
    """What an observed run shows: the fault ``finding``, if there is one; with ``finds_hidden``
    only in hidden shapes."""
    if "finding" not in faults or ("finds_hidden" in faults and not key.startswith("hidden")):
        return ()
    told = {"kernel": "k", "launch": 0, "program": (0, 0, 0), **faults["finding"]}
    lists = {key: tuple(value) for key, value in told.items() if isinstance(value, list)}
    return (Finding(**{**told, **lists}),)


def run_all(job: RunJob, files: dict[str, bytes], role: str) -> FakeReply:
    results: list[RunResult] = []
    blob = b""
    for run in job.runs:
        ident = job.object_of[run.plan.launches[0].plan_class]
        info = told_in(files[f"{ident}.obj"])
        faults = info["faults"]
        if role == "seed":
            allowed = {"trace_fails_at"}
            assert set(faults) <= allowed, "a candidate's code in the seed's worker"
        crashes = faults.get("crashes") and run.poison in faults.get("crashes_under", [run.poison])
        if crashes and not job.observed:
            failure = WorkerFailure(
                status=faults["crashes"], message="the process died", where=run.key
            )
            return FakeReply(RunsResult(runs=tuple(results), failure=failure))
        places = []
        outputs = run_one(run, info, files)
        if job.observed and faults.get("wrong_when_observed"):
            outputs = [bytes(len(data)) for data in outputs]
        for data in outputs:
            places.append(OutputBytes(offset_bytes=len(blob), nbytes=len(data)))
            blob += data
        results.append(
            RunResult(
                key=run.key,
                outputs=tuple(places),
                canaries=("scratch 0 after",) if faults.get("canary") else (),
                changed_inputs=("x",) if faults.get("writes_input") else (),
                seconds=1e-3 * (1 + run.plan.buffers[0].nbytes),
                findings=findings_of(faults, run.key) if job.observed else (),
            )
        )
    return FakeReply(RunsResult(runs=tuple(results)), {"out.bin": blob})


def time_all(job: TimeJob, files: dict[str, bytes], role: str) -> FakeReply:
    assert role == "launcher"
    noise = np.random.default_rng(job.placement & 0xFFFFFFFF)
    cases = []
    blob = b""
    for case in job.cases:
        info = {}
        for side, plan in (("a", case.a), ("b", case.b)):
            ident = job.object_of[f"{side}:{plan.launches[0].plan_class}"]
            info[side] = told_in(files[f"{ident}.obj"])
        speed = {
            side: math.log(
                one["faults"].get("case_gains", {}).get(case.key) or one["faults"].get("gain", 1.0)
            )
            for side, one in info.items()
        }
        score = speed["b"] - speed["a"]
        warm = tuple(float(v) for v in score + noise.normal(0, 0.004, case.octets))
        cold_gain = info["b"]["faults"].get("cold_gain")
        cold = tuple(v if cold_gain is None else math.log(cold_gain) for v in warm)
        replays = []
        for side in ("a", "b"):
            outs = run_one(Run(key="", plan=case.a, inputs=case.inputs), info[side], files)
            if info[side]["faults"].get("skips_when_timed"):
                outs = [bytes(len(data)) for data in outs]
            places = []
            for data in outs:
                places.append(OutputBytes(offset_bytes=len(blob), nbytes=len(data)))
                blob += data
            replays.append(TimedReplay(side=side, outputs=tuple(places)))
        fast = 1e-9 if info["b"]["faults"].get("impossible") else 1e6
        window = tuple(1e6 if side == "a" else fast for side in "abbabaab")
        cases.append(
            CaseTimes(
                key=case.key,
                warm=warm,
                cold=cold,
                windows_ns=(window,) * 2 * case.octets,
                replays_per_window=(1, 1),
                below_floor=False,
                replays=tuple(replays) if not info["b"]["faults"].get("no_replays") else (),
            )
        )
    return FakeReply(TimeResult(cases=tuple(cases), seconds=0.0), {"out.bin": blob})
