"""The gate proves itself: at each run's start it must reject planted cheats and one-spot mutants
for the right reason, and pass the seed. A gate that fails this refuses to judge (exit 5)."""

import time
from typing import Any

from kernelsmith.errors import EvidenceError
from kernelsmith.gate.judge import BITS, Gate
from kernelsmith.gate.probes.cheats import cheats
from kernelsmith.gate.probes.drawn import drawn
from kernelsmith.gate.probes.mutants import mutants
from kernelsmith.model import Candidate, Verdict, new_candidate

BEFORE_MEMORY = ("policy", "trace", "compile", "parity.train", "parity.infer", "memory")
"""What a cheat of memory must get through: repeats that it passes anyway are left out here."""
MUTANT_REASONS = ("BITS_DIFFER", "PATHS_DIFFER")
MOST_DRAWN = 6
NEVER_RAN = ("POLICY", "TRACE", "SIGNATURE", "COMPILE")


def prove(gate: Gate) -> dict[str, Any]:
    """Runs the proof of one gate.

    Returns:
        ``{"cheats": {"tried", "rejected"}, "mutants": {"tried", "rejected"}, "unchecked",
        "seed": "pass", "seconds", "survived", "rejections": [{"name", "check", "status",
        "message"}]}``. A user's own task has the mutants that are drawn from its seed: "survived"
        names those that were not told from it, and "unchecked" is ["mutants"] if none was.

    Raises:
        TaskError: the task gives cheats nothing to hang on.
        EvidenceError: something got through, was rejected for another reason, or the seed failed.
    """
    begun = time.monotonic()
    rejections: list[dict[str, str]] = []
    tried_cheats = cheats(gate.task)
    for cheat in tried_cheats:
        names = BEFORE_MEMORY if "memory" in cheat.checks else BITS
        verdict = gate.judge_bits(_candidate(gate, cheat.source), names)
        _require(cheat.name, verdict, (cheat.status,), cheat.checks)
        rejections.append(_rejection(cheat.name, verdict))
    tried_mutants = mutants(gate.task)
    for name, source in tried_mutants:
        verdict = gate.judge_bits(_candidate(gate, source), BITS)
        _require(name, verdict, MUTANT_REASONS, ())
        rejections.append(_rejection(name, verdict))
    _require_seed(gate)
    killed, survived = ([], []) if gate.task.shipped else _try_drawn(gate)
    rejections += killed
    rejected = len(tried_mutants) + len(killed)
    return {
        "cheats": {"tried": len(tried_cheats), "rejected": len(tried_cheats)},
        "mutants": {"tried": rejected + len(survived), "rejected": rejected},
        "survived": survived,
        "unchecked": [] if rejected else ["mutants"],
        "seed": "pass",
        "seconds": time.monotonic() - begun,
        "rejections": rejections,
    }


def _try_drawn(gate: Gate) -> tuple[list[dict[str, str]], list[str]]:
    """(rejections, names of what was not told from the seed) of mutants of a user's own seed."""
    killed: list[dict[str, str]] = []
    survived: list[str] = []
    for name, source in drawn(gate.task.seed_source, gate.task.entries):
        if len(killed) + len(survived) == MOST_DRAWN:
            break
        verdict = gate.judge_bits(_candidate(gate, source), BITS)
        if verdict.accepted:
            survived.append(name)
        elif verdict.status not in NEVER_RAN:
            killed.append(_rejection(name, verdict))
    return killed, survived


def _require(
    name: str, verdict: Verdict, reasons: tuple[str, ...], checks: tuple[str, ...]
) -> None:
    last = verdict.checks[-1]
    if verdict.accepted:
        raise EvidenceError(
            f"the gate of {verdict.task} let {name!r} through every check about bits",
            hint="no verdict of this gate can be trusted; report it with this line",
        )
    if verdict.status not in reasons or (checks and last.name not in checks):
        where = f" in {' or '.join(checks)}" if checks else ""
        raise EvidenceError(
            f"the gate of {verdict.task} rejected {name!r} with {verdict.status} in {last.name}, "
            f"not with {' or '.join(reasons)}{where}: {last.message}"
        )
    if not last.message:
        raise EvidenceError(f"the gate of {verdict.task} rejected {name!r} without a word")


def _require_seed(gate: Gate) -> None:
    verdict = gate.judge_bits(gate.seed, BITS)
    last = verdict.checks[-1]
    if not verdict.accepted:
        raise EvidenceError(
            f"the gate of {verdict.task} rejects the seed itself: {verdict.status} in {last.name}: "
            f"{last.message}"
        )


def _candidate(gate: Gate, source: str) -> Candidate:
    parents = (gate.seed.id,)
    return new_candidate(source, gate.task.name, author="seed", parents=parents, note="self-proof")


def _rejection(name: str, verdict: Verdict) -> dict[str, str]:
    last = verdict.checks[-1]
    return {
        "name": name,
        "check": last.name,
        "status": verdict.status,
        "message": last.message,
    }
