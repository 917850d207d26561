"""The gates of a run prove themselves, two side by side."""

import os
import secrets
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernelsmith.model import Share
from kernelsmith.ports import Judge

Prove = Callable[[Any, Share | None], dict[str, Any]]
"""Takes a judge, and its share or None for everything; raises EvidenceError."""
MUTANTS_AT_START = 3


def prove_all(
    prove: Prove, judges: Mapping[str, Judge], *, whole: bool = False
) -> dict[str, dict[str, Any]]:
    """What each gate showed, by task.

    Every gate is the same code. So a cheat that costs runs is tried on one of the tasks; what a
    task's cases tell apart is proved on each, by its mutants.

    Args:
        whole: all mutants of each task and each cheat on two tasks, for a user who asked; else
            what a run starts with, drawn anew each time.

    Raises:
        EvidenceError: a gate failed its own proof.
        KeyboardInterrupt: the user ended it; the judges are closed then, as after any failure.
    """
    draw, parts = secrets.randbits(64), min(2, len(judges)) if whole else len(judges)
    mutants = None if whole else MUTANTS_AT_START
    shares = {
        name: Share(draw=draw, number=number % parts, of=parts, mutants=mutants)
        for number, name in enumerate(judges)
    }
    # All gates use the same warm workers, which take one job at a time: while one gate traces,
    # another one runs. More than the cores gains nothing.
    side_by_side = min(2, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(side_by_side, thread_name_prefix="proof") as pool:
        asked = {name: pool.submit(prove, judges[name], shares[name]) for name in judges}
        try:
            return {name: answer.result() for name, answer in asked.items()}
        except BaseException:
            for answer in asked.values():
                answer.cancel()
            for judge in judges.values():
                judge.close()
            raise


def proof_line(proofs: Mapping[str, Any]) -> str:
    """What a self-proof showed, over all tasks."""
    parts = []
    for kind in ("cheats", "mutants"):
        without = [task for task, proof in proofs.items() if kind in proof.get("unchecked", ())]
        if without:
            parts.append(f"{kind} of {', '.join(without)} unchecked")
        if len(without) == len(proofs):
            continue
        counts = total(proofs.values(), kind)
        parts.append(f"{counts['rejected']} of {counts['tried']} {kind} rejected")
    for task, proof in proofs.items():
        if told := "; ".join(proof.get("survived", ())):
            parts.append(f"not told from {task}: {told} (it changes nothing, or no case sees it)")
    return ", ".join([*parts, "the seed passes every bit check"])


def total(proofs: Collection[Mapping[str, Any]], kind: str) -> dict[str, int]:
    """Tried and rejected of a kind, over all tasks."""
    return {count: sum(proof[kind][count] for proof in proofs) for count in ("tried", "rejected")}


def summary(proofs: Mapping[str, Mapping[str, Any]], seconds: float) -> dict[str, Any]:
    """The ``gate`` field of ``doctor --gate``; ``checks``: how many each check rejected."""
    checks: dict[str, int] = {}
    for proof in proofs.values():
        for name, count in proof.get("checks", {}).items():
            checks[name] = checks.get(name, 0) + count
    return {
        **{kind: total(proofs.values(), kind) for kind in ("cheats", "mutants")},
        "checks": checks,
        "seed": "pass",
        "unchecked": [
            f"{kind} of {task}"
            for task, proof in proofs.items()
            for kind in proof.get("unchecked", ())
        ],
        "seconds": round(seconds, 1),
    }
