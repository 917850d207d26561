"""The gate on a GPU, as far as a stand-in goes: real front end, launcher, session and verdict.

The kernels are the CPU's machine code of the text that a GPU would get; their bits and times say
nothing of one. What is shown is that every check asks a GPU's worker for what it has.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kernelsmith import catalog
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.probes.cheats import cheats
from kernelsmith.gate.subject import Limits
from kernelsmith.model import Candidate, Task
from tests.cuda.in_process import GateDevice, InProcess
from tests.cuda.stand_in import Fake


def small_task() -> Task:
    """rms_norm for a GPU: plain forward calls in bfloat16, one small case a call form."""
    task = catalog.load_task("rms_norm", "cuda")
    chosen = {}
    for case in sorted(task.cases, key=lambda c: c.dim("M") * c.dim("N")):
        if case.call in ("train", "infer") and case.dtype == "bfloat16":
            chosen.setdefault(
                case.call,
                replace(
                    case,
                    dims=(("M", 5), ("N", 128)),
                    weight=1.0,
                    row_stride_pad=0,
                    regime="normal",
                    id=f"small {case.call}",
                ),
            )
    return replace(task, cases=tuple(chosen.values()), token_range=(0, 3), ranges=())


@pytest.fixture
def turns() -> list[bool]:
    return []


@pytest.fixture
def gate(fake: Fake, turns: list[bool]) -> Iterator[Gate]:
    limits = Limits(sessions_max=1, octets=1, window_ms=0.1, hidden_per_call=1)
    made = Gate(
        small_task(), GateDevice(turns), InProcess(fake.path), secret_seed=20_261_130, limits=limits
    )
    yield made
    made.close()


def candidate(gate: Gate, source: str) -> Candidate:
    ident = hashlib.sha256(source.encode()).hexdigest()[:16]
    return Candidate(
        id=ident, task=gate.task.name, source=source, parents=(gate.seed.id,), author="search"
    )


def test_the_seed_passes_every_bit_check_and_is_timed(gate: Gate, turns: list[bool]) -> None:
    # Other launch options: other code by name, so that it is timed at all.
    source = gate.seed.source.replace("num_warps=4", "num_warps=8")
    verdict = gate.judge(candidate(gate, source), gate.seed, 0)
    told = {check.name: (check.status, check.message) for check in verdict.checks}
    names = ("policy", "trace", "compile", "parity.train", "parity.infer", "cross_path")
    for name in (*names, "determinism", "memory"):
        assert told[name][0] == "pass", told[name]
    assert verdict.status == "NOT_FASTER"
    evidence = {check.name: check.evidence for check in verdict.checks}
    ways = " ".join(evidence["determinism"]["repeats"])
    assert "co-runners in another stream" in ways
    assert "program order" not in ways
    assert verdict.device["gpu"] == "a stand-in"
    # Timing sessions have the GPU alone; on a busy machine the screen may leave it to more of them.
    assert turns.count(True) >= 1
    assert turns.count(False) > 3


@pytest.mark.slow
def test_cheats_of_bits_and_memory_are_rejected_for_the_right_reason(gate: Gate) -> None:
    for cheat in cheats(gate.task):
        if cheat.status not in ("BITS_DIFFER", "MEMORY", "NONDETERMINISTIC"):
            continue
        verdict = gate.judge_bits(candidate(gate, cheat.source))
        assert verdict.status == cheat.status, f"{cheat.name}: {verdict.checks[-1].message}"
