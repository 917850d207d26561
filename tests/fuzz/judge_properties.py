"""The gate on workers whose right answers are corrupted: never ACCEPTED, never another error."""

import functools
import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from kernelsmith.errors import KernelsmithError, SandboxError
from kernelsmith.model import OutputBytes, RunsResult, TimeResult
from kernelsmith.sandbox.answers import Ending, result_of
from tests.fuzz.mutation import bytes_of, mutated
from tests.fuzz.properties import Property
from tests.gate.conftest import Kit, make_kit
from tests.gate.fake_workers import FakeReply, FakeSandbox, FakeWorker

WELL = Ending(exit=0, signal=None, timed_out=False, seconds=0.01)
GAIN = 1.3
FREE = {
    "seconds",
    "facts",
    "stats",
    "options",
    "specialisation",
    "kernel",
    "symbol",
    "arena_bytes",
    "code_hash",
    "params",
    "windows_ns",
    "warm",
    "cold",
    "replays_per_window",
    "ttir",
    "plans",
    "classes",
}
"""Keys of answers that say nothing of bits, or that a candidate may choose: what it launches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption:
    """The ``number``-th answer of this kind (modulo how many there are) is corrupted as
    ``draw`` says."""

    role: str
    job: str
    number: int
    how: str
    draw: int


@dataclass(slots=True)
class Corruptor:
    """Counts answers by kind and corrupts one. ``matters``: the gate had to see it."""

    wanted: Corruption
    seen: int = 0
    matters: bool = False

    def corrupted(self, job: Any, reply: FakeReply) -> FakeReply:
        rng = random.Random(self.wanted.draw)
        files, result = dict(reply.files), reply.result
        tree = json.loads(json.dumps(asdict(result)))
        data = json.dumps(tree).encode()
        match self.wanted.how:
            case "tree":
                changed, _ = mutated(tree, rng)
                data = json.dumps(changed).encode()
            case "bytes":
                data = bytes_of(tree, rng)
            case "outputs":
                _flip(result, files, rng)
            case "short":
                _cut(files)
            case "status":
                status = rng.choice(
                    ("ACCEPTED", "NOT_FASTER", "TRACE", "CRASH", "TIMEOUT", "", None, 3)
                )
                where = rng.choice(("", "b:x", "a:x", "x"))
                tree["failure"] = {"status": status, "message": "a\nb" * 99, "where": where}
                data = json.dumps(tree).encode()
        new = _Reply(result_of(job, WELL, data, "here"), files)
        # The seed's worker holds no candidate: what it answers is believed, if it is well formed.
        hostile = self.wanted.role != "seed"
        self.matters = hostile and bool(differing(told(job, reply), told(job, new)))
        return new


def compared(key: str) -> bool:
    """Whether every byte of a run has to be the seed's. Not in other compositions of a batch, whose
    padding and cut sums are no token's."""
    return " > " not in key


def told(job: Any, reply: FakeReply) -> Any:
    """An answer with the bytes of its outputs in the place of where they lie."""

    asked = getattr(job, "ttirs", {})

    def open_up(node: Any) -> Any:
        if isinstance(node, dict) and "outputs" in node and not compared(node.get("key", "")):
            node = {**node, "outputs": len(node["outputs"])}
        if isinstance(node, dict) and "objects" in node:
            # Objects that nobody asked for are not looked at.
            node = {**node, "objects": {k: v for k, v in node["objects"].items() if k in asked}}
        if isinstance(node, dict) and set(node) == {"offset_bytes", "nbytes"}:
            data = reply.files.get("out.bin", b"")
            begin, size = node["offset_bytes"], node["nbytes"]
            return (size, data[begin : begin + size]) if begin >= 0 else (size, None)
        if isinstance(node, dict):
            return {key: open_up(value) for key, value in node.items()}
        if isinstance(node, list | tuple):
            return [open_up(value) for value in node]
        return node

    objects = {name: data for name, data in reply.files.items() if name != "out.bin"}
    return {"result": open_up(asdict(reply.result)), "objects": objects}


def differing(a: Any, b: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where two answers differ in what is not free."""
    if here and here[-1] in FREE:
        return []
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [path for key in a for path in differing(a[key], b[key], (*here, key))]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [p for n, x in enumerate(a) for p in differing(x, b[n], (*here, n))]
    return [] if a == b else [here]


@dataclass
class _Reply(FakeReply):
    """As a spool's reply: what is not there, or is too short, is an error with a name."""

    def read(self, name: str, offset: int = 0, nbytes: int | None = None) -> bytes:
        data = self.files.get(name)
        if data is None:
            raise SandboxError(f"the worker left no file {name}")
        end = len(data) if nbytes is None else offset + nbytes
        if not 0 <= offset <= end <= len(data):
            raise SandboxError(f"{name} has {len(data)} bytes, {end} wanted")
        return data[offset:end]


@dataclass
class CorruptWorker:
    own: FakeWorker
    corruptor: Corruptor

    def submit(self, job: Any, files: Mapping[str, bytes] | None = None) -> FakeReply:
        reply = self.own.submit(job, files)
        wanted = self.corruptor.wanted
        if (self.own.role, type(job).__name__) != (wanted.role, wanted.job):
            return reply
        self.corruptor.seen += 1
        if self.corruptor.seen - 1 != wanted.number:
            return reply
        return self.corruptor.corrupted(job, reply)

    def close(self) -> None:
        self.own.close()


@dataclass
class CorruptSandbox:
    corruptor: Corruptor
    own: FakeSandbox = field(default_factory=FakeSandbox)

    def start(self, role: str) -> CorruptWorker:
        return CorruptWorker(self.own.start(role), self.corruptor)

    def describe(self) -> dict[str, Any]:
        return self.own.describe()

    def close(self) -> None:
        self.own.close()


def places(result: Any) -> list[OutputBytes]:
    """Where outputs lie in ``out.bin``."""
    if isinstance(result, RunsResult):
        return [out for run in result.runs for out in run.outputs if out.nbytes]
    if isinstance(result, TimeResult):
        replays = [replay for times in result.cases for replay in times.replays]
        return [out for replay in replays for out in replay.outputs if out.nbytes]
    return []


def _flip(result: Any, files: dict[str, bytes], rng: random.Random) -> None:
    found = places(result)
    if not found:
        return
    place = rng.choice(found)
    at = place.offset_bytes + rng.randrange(place.nbytes)
    data = bytearray(files["out.bin"])
    data[at] ^= 1 << rng.randrange(8)
    files["out.bin"] = bytes(data)


def _cut(files: dict[str, bytes]) -> None:
    name = next((name for name in files if files[name]), None)
    if name is None:
        return
    if name == "out.bin":
        files[name] = files[name][:-1]
    else:
        del files[name]


@functools.cache
def answers() -> dict[tuple[str, str], int]:
    """How many answers of each kind a judgement that ends with ACCEPTED has."""
    kit = make_kit()
    assert kit.judge(gain=GAIN).status == "ACCEPTED"
    found: dict[tuple[str, str], int] = {}
    for role, job in kit.sandbox.log:
        kind = (role, type(job).__name__)
        found[kind] = found.get(kind, 0) + 1
    found.pop(("launcher", "str"), None)
    return {kind: count for kind, count in found.items() if kind[1] != "str"}


def never_accepted(corruption: Corruption) -> None:
    """A judgement with one corrupted answer ends with a status or an error of the tree."""
    kit: Kit = make_kit()
    kinds = sorted(answers())
    kind = (corruption.role, corruption.job)
    if kind not in kinds:
        kind = kinds[corruption.draw % len(kinds)]
    corruption = replace(
        corruption, role=kind[0], job=kind[1], number=corruption.number % answers()[kind]
    )
    corruptor = Corruptor(corruption)
    kit.gate.bench.workers.sandbox = CorruptSandbox(corruptor)  # type: ignore[assignment]
    message = ""
    try:
        verdict = kit.judge(gain=GAIN)
    except KernelsmithError as error:
        message = error.message
    else:
        message = verdict.checks[-1].message
        failing = [check.name for check in verdict.checks if check.status == "fail"]
        assert not (verdict.accepted and (corruptor.matters or failing)), (corruption, failing)
    assert "\n" not in message


CORRUPTIONS = st.builds(
    Corruption,
    role=st.sampled_from(("launcher", "launcher", "seed", "frontend")),
    job=st.sampled_from(("RunJob", "RunJob", "TimeJob", "TimeJob", "CompileJob", "TraceJob")),
    number=st.integers(0, 200),
    how=st.sampled_from(("tree", "tree", "bytes", "outputs", "outputs", "short", "status")),
    draw=st.integers(0, 2**32),
)
PROPERTIES = (
    Property(name="judge.corrupted", examples=30, drawn=CORRUPTIONS, holds=never_accepted),
)
