"""``kernelsmith`` on the small task: ``python benchmarks/night/small_run.py run slow_scale ...``.

Loop, gate, sandbox and database are what users get. The proposals are those of ``small``, the
gate's proof of itself is left out, final timings are shorter, and the gate writes down what it does
(``agent/watched.py``).
"""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "agent"))

import program
import small

from kernelsmith.cli.main import main
from kernelsmith.ports import Judge
from kernelsmith.wiring import Wiring


def watched(*parts: Any) -> Judge:
    return replace(program.gate(*parts), sessions=small.FINAL_SESSIONS)


def wiring() -> Wiring:
    made = program.wiring("gate")
    proposer = small.Listed(small.proposal)
    return replace(made, judge=watched, proposer=lambda parts: nullcontext(proposer))


if __name__ == "__main__":
    sys.exit(main(wiring=wiring()))
