"""``kernelsmith`` on the stream: ``python benchmarks/night/soak_run.py run slow_turns ...``.

Loop, gate, workers, walls and database are what users get. Time limits of jobs are short, so that
what hangs costs seconds; the gate's proof of itself is left out; a worker is killed whenever it
compiles a certain kernel.
"""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "agent"))

import program
import small
import stream
from killing import Killing

from kernelsmith.cli.main import main
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.subject import Limits
from kernelsmith.model import CompileJob, Task
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Device, Judge, Sandbox
from kernelsmith.wiring import Wiring, real

LIMITS = Limits(
    run_timeout_s=1.5,
    trace_timeout_s=8.0,
    compile_timeout_s=2.0,
    octets=1,
    window_ms=1.0,
)


def judge(
    task: Task, device: Device, sandbox: Sandbox, secret_seed: int, pauses: Pauses | None = None
) -> Judge:
    return Gate(task, device, sandbox, secret_seed, LIMITS, pauses)


def wiring() -> Wiring:
    made = real()
    return replace(
        made,
        proposer=lambda parts: nullcontext(small.Listed(stream.proposal)),
        judge=judge,
        prove=program.unproved,
        sandbox=lambda name, _trusted: Killing(made.sandbox(name, True), CompileJob),
    )


if __name__ == "__main__":
    sys.exit(main(wiring=wiring()))
