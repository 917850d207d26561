"""``kernelsmith gate`` on candidates that race, read out of bounds, add floats atomically or wait.

Those that end give the seed's bits in every order on this machine: only what they touch tells.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.cli.main import main
from kernelsmith.ports import Role, Worker
from kernelsmith.sandbox.choose import choose
from kernelsmith.wiring import Wiring, real

SEED = '''"""Clips."""

import torch
import triton
import triton.language as tl


@triton.jit
def _clip(x_ptr, y_ptr, n, low, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.where(x < low, low, x).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + at, y, mask=at < n)


def clip_infer(x, low):
    n = x.shape[0]
    y = x.new_empty((n,))
    _clip[(triton.cdiv(n, 16),)](x, y, n, low, BLOCK=16)
    return y


def clip_train(x, low):
    return clip_infer(x, low)
'''
STORE = "    tl.store(y_ptr + at, y, mask=at < n)\n"
LOAD = "tl.load(x_ptr + at, mask=at < n)"
FLAG = """
@triton.jit
def _clear(flag_ptr):
    tl.store(flag_ptr, 0)


def clip_infer"""
LAUNCH = "(x, y, n, low, BLOCK=16)"


def with_flag(body: str) -> str:
    """The seed with a word of scratch, cleared by a launch of its own, and more in its kernel."""
    text = SEED.replace("n, low, BLOCK: tl", "n, low, flag_ptr, BLOCK: tl").replace(
        "    at = tl.program_id", f"{body}    at = tl.program_id"
    )
    flag = "    flag = x.new_empty((1,), dtype=torch.int32)\n    _clear[(1,)](flag)\n"
    text = text.replace("\ndef clip_infer", FLAG).replace("    _clip[", f"{flag}    _clip[")
    return text.replace(LAUNCH, "(x, y, n, low, flag, BLOCK=16)")


WAITS = with_flag(
    """    if tl.program_id(0) == 0:
        if n > 16:
            while tl.load(flag_ptr, volatile=True) == 0:
                pass
    else:
        tl.store(flag_ptr, 1)
"""
)
LOCKS = with_flag("    while tl.atomic_cas(flag_ptr, 0, 1) == 1:\n        pass\n")
COUNTS = with_flag("    tl.atomic_add(flag_ptr, 1)\n")


class KeptWorker:
    """A real worker that outlives the commands that close it."""

    def __init__(self, worker: Worker) -> None:
        self.submit, self.end = worker.submit, worker.close

    def close(self) -> None:
        """Not yet: the next command uses it."""


class KeptSandbox:
    """The real sandbox. Its workers are started once: what one candidate does to them, the next
    would meet."""

    def __init__(self) -> None:
        self._real = choose("auto", trusted_origin=False)
        self._workers: dict[Role, KeptWorker] = {}

    def start(self, role: Role) -> KeptWorker:
        if role not in self._workers:
            self._workers[role] = KeptWorker(self._real.start(role))
        return self._workers[role]

    def describe(self) -> dict[str, Any]:
        return self._real.describe()

    def close(self) -> None:
        """Not yet."""

    def end(self) -> None:
        for worker in self._workers.values():
            worker.end()
        self._real.close()


@pytest.fixture(scope="module")
def wiring() -> Iterator[Wiring]:
    sandbox = KeptSandbox()
    yield replace(real(), sandbox=lambda name, trusted: sandbox)
    sandbox.end()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the task ``clip``."""
    made = tmp_path_factory.mktemp("clip")
    (made / "clip.py").write_text(SEED)
    words = ["--arg", "x=T[M]", "--arg", "low=0.25", "--device", "cpu", "--tokens", "0:40"]
    given = ["tasks", "new", "clip", "--from", str(made / "clip.py"), "--to", str(made)]
    assert main([*given, *words]) == 0
    return made


@pytest.fixture
def gate(
    folder: Path,
    wiring: Wiring,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str]]:
    """``gate(source)``: exit code and the JSON document, or what a person is shown."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELSMITH_DB", raising=False)

    def command(source: str, *, shown: str = "--json") -> tuple[int, str]:
        Path("mine.py").write_text(source)
        capsys.readouterr()
        words = ["gate", "mine.py", "--task", "clip", "--tasks", str(folder)]
        code = main([*words, shown] if shown else words, wiring)
        return code, capsys.readouterr().out

    return command


def line_of(source: str, text: str) -> int:
    return source[: source.index(text)].count("\n") + 1


def failed(document: dict[str, Any]) -> dict[str, Any]:
    (check,) = [check for check in document["checks"] if check["status"] == "fail"]
    return dict(check)


def test_a_race_is_rejected_with_line_and_bytes_though_the_bits_agree(gate: Any) -> None:
    first = "    tl.store(y_ptr, tl.where(first < low, low, first).to(y_ptr.dtype.element_ty))\n"
    source = SEED.replace(STORE, f"{STORE}    first = tl.load(x_ptr)\n{first}")
    code, out = gate(source, shown="")
    assert code == 1
    assert "NONDETERMINISTIC" in out
    checks = [line.split()[1] for line in out.splitlines() if line.strip().startswith("✗")]
    assert checks == ["determinism"]
    line = line_of(source, "tl.store(y_ptr, ")
    assert "race: program 1 of _clip writes bytes 0 to 1 of output y (y_ptr)" in out
    assert f"at line {line}, which program 0 writes at line " in out
    assert f'line: "candidate.py:{line}"' in out
    assert "bytes: [0, 2]" in out


def test_a_tail_read_out_of_bounds_is_rejected_with_line_and_bytes(gate: Any) -> None:
    source = SEED.replace(LOAD, "tl.load(x_ptr + at)")
    code, out = gate(source)
    document = json.loads(out)
    check = failed(document)
    assert (code, document["status"], check["name"]) == (1, "MEMORY", "memory")
    line = line_of(source, "tl.load")
    assert "out of bounds: program 0 of _clip reads bytes 2 to 31 of x (x_ptr) " in check["message"]
    assert f"at line {line}; x (x_ptr) has 2 bytes" in check["message"]


def test_a_float_atomic_is_rejected_with_its_line_before_it_runs(gate: Any) -> None:
    add = STORE.replace("tl.store", "tl.atomic_add")
    source = SEED.replace(STORE, f"{STORE.replace('y, m', 'y * 0, m')}{add}")
    code, out = gate(source)
    document = json.loads(out)
    check = failed(document)
    assert (code, document["status"], check["name"]) == (1, "NONDETERMINISTIC", "witness")
    line = line_of(source, "tl.atomic_add")
    assert check["message"] == (
        f"kernel _clip at line {line} adds floats atomically, in whatever order programs run"
    )


@pytest.mark.parametrize(("source", "loop"), [(WAITS, "while"), (LOCKS, "while")])
def test_a_program_that_waits_for_another_is_stopped_and_named(
    gate: Any, source: str, loop: str
) -> None:
    code, out = gate(source)
    document = json.loads(out)
    check = failed(document)
    assert (code, document["status"]) == (1, "TIMEOUT")
    line = line_of(source, loop)
    program = 1 if source is LOCKS else 0
    assert (
        f"program {program} of _clip waits in the loop at line {line} for another program"
        in (check["message"])
    )
    assert "to change bytes 0 to 3 of scratch 1 (flag_ptr)" in check["message"]


def test_a_loop_that_nobody_can_end_is_stopped_and_named(gate: Any) -> None:
    source = SEED.replace(STORE, f"    while n > 0:\n    {STORE}")
    code, out = gate(source)
    document = json.loads(out)
    assert (code, document["status"]) == (1, "TIMEOUT")
    line = line_of(source, "while")
    message = failed(document)["message"]
    assert f"never leaves the loop at line {line}: a turn of it changes nothing" in message


def test_integer_atomics_that_commute_pass_every_check_about_bits(gate: Any) -> None:
    document = json.loads(gate(COUNTS)[1])
    assert failed(document)["name"] in ("latency", "confirm")


def test_what_cannot_be_observed_is_rejected_and_ends_no_run(gate: Any) -> None:
    names = [f"p{number}" for number in range(130)]
    source = SEED.replace("low, BLOCK: tl", f"low, {', '.join(names)}, BLOCK: tl")
    added = " + ".join(names)
    source = source.replace(STORE, f"    at = at + ({added}) * 0\n{STORE}")
    source = source.replace(
        "low, BLOCK=16)", f"low, {', '.join(['n + 2'] * len(names))}, BLOCK=16)"
    )
    code, out = gate(source)
    document = json.loads(out)
    check = failed(document)
    assert (code, document["status"], check["name"]) == (1, "MEMORY", "determinism")
    assert "parameters cannot be observed, at most 128 are allowed" in check["message"]
