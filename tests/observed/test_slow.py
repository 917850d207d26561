"""A loop whose values change for ever is known only by its time, and named after it."""

import pytest

from kernelsmith import catalog, devices
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.subject import Limits
from kernelsmith.model import new_candidate
from kernelsmith.sandbox.process import open_process

MEAN = "    mean = tl.div_rn(tree_sum(squares)"
COUNT = """    turn = n_cols * 0
    while turn < 1000:
        turn = (turn + 1) % 1000
    n_cols = n_cols + turn - 1000
"""


@pytest.mark.slow
def test_a_run_that_timed_out_is_told_by_the_loop_it_was_in() -> None:
    task = catalog.load_task("rms_norm", "cpu")
    sandbox = open_process()
    gate = Gate(task, devices.get("cpu"), sandbox, 5, Limits(run_timeout_s=2.0))
    source = task.seed_source.replace(MEAN, f"{COUNT}{MEAN}", 1)
    try:
        candidate = new_candidate(source, task.name, author="t", parents=(gate.seed.id,))
        verdict = gate.judge_bits(candidate)
        after = gate.judge_bits(gate.seed)
    finally:
        gate.close()
        sandbox.close()
    last = verdict.checks[-1]
    line = source[: source.index("while")].count("\n") + 1
    assert (verdict.status, last.name) == ("TIMEOUT", "parity.train")
    assert f"program 0 of _forward was still in the loop at line {line} after " in last.message
    assert "did not end within" in last.evidence["seen"]
    assert after.accepted, after.checks[-1].message
