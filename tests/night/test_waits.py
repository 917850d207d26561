"""Every wait of the host has a limit, or a reason why it ends, which stands here."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "kernelsmith"
ELSEWHERE = ("worker", "devices/cpu", "library/package", "rehearsal", "onpolicy")
"""Not of a night's host: behind the wall, where the template's clock ends a job; a kernel library's
own runtime; a scripted server; the audit of other programs."""
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
NAMES = ("result", "join", "wait", "get", "acquire")

JOBS = "waits for jobs of workers, each of which has a time limit"
DONE = "asked only of what is done"
THAW = "lasts as long as the pause that a person asked for; a thaw, an end or a failure ends it"
REASONS = {
    "cli/detaching.py _detach.wait": "of a process that was told to end, or has closed its pipe",
    "cli/detaching.py _wait.wait": "of a process that has closed its pipe",
    "cli/proxying.py proxy.wait": "a server that a person started, until they end it",
    "gate/determinism.py _beside_another.join": JOBS,
    "gate/every.py _check.result": JOBS,
    "lineage/journal.py _refuse_what_is_left.get": DONE,
    "lineage/journal.py _write.get": "the writer's own thread, until close() puts None there",
    "lineage/journal.py close.join": "each step waits for a lock at most its busy time-out",
    "lineage/journal.py open_journal.result": "it waits for a lock at most its busy time-out",
    "operations/metrics.py _written.join": "its thread waits for an event that was just set",
    "pauses.py admit.wait": THAW,
    "pauses.py rest.wait": THAW,
    "proposers/agent/budget.py admit.wait": "each ticket in flight is settled, its call having a "
    "time limit",
    "proposers/agent/crew.py _note_done.result": DONE,
    "proposers/agent/guards.py _sent.result": DONE,
    "proving.py prove_all.result": JOBS,
    "sandbox/docker_build.py _build.join": "its pipe is closed, or the engine has ended",
    "sandbox/docker_line.py _change.result": "the engine's client has a time limit",
    "sandbox/docker_line.py _lives.result": "the engine's client has a time limit",
    "sandbox/docker_line.py end.result": "the engine's client has a time limit",
    "sandbox/docker_line.py _state.result": "the engine's client has a time limit",
}


def waits() -> Iterator[tuple[str, int]]:
    """Calls that wait without an argument that could be a limit."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(ELSEWHERE):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            around = [each for each in functions if each.lineno <= node.lineno <= _end(each)]
            function = max(around, key=lambda each: each.lineno, default=tree)
            called = f"{name} {getattr(function, 'name', '')}.{node.func.attr}"
            if node.func.attr == "flock":
                text = ast.unparse(function)
                if "LOCK_NB" not in text and "LOCK_UN" not in text:
                    yield called, node.lineno
            elif node.func.attr in NAMES and not node.args and not node.keywords:
                yield called, node.lineno


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def test_each_wait_has_a_limit_or_a_reason_and_each_reason_is_of_a_wait_that_is_there() -> None:
    found = dict(waits())
    assert {name: line for name, line in found.items() if name not in REASONS} == {}
    assert set(REASONS) - set(found) == set()
