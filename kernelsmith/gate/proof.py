"""The gate proves itself: at each run's start it must reject planted cheats and one-spot mutants
for the right reason, and pass the seed. A gate that fails this refuses to judge (exit 5)."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelsmith.errors import EvidenceError
from kernelsmith.gate.judge import BITS, Gate
from kernelsmith.gate.probes.cheats import BUILT, Cheat, cheats
from kernelsmith.gate.probes.drawn import drawn
from kernelsmith.gate.probes.mutants import mutants
from kernelsmith.model import Candidate, Share, Verdict, new_candidate

MUTANT_REASONS = ("BITS_DIFFER", "PATHS_DIFFER")
MOST_DRAWN = 6
NEVER_RAN = ("POLICY", "TRACE", "SIGNATURE", "COMPILE")


@dataclass(slots=True, kw_only=True)
class _Record:
    """What was rejected so far, and mutants that were not."""

    rejections: list[dict[str, str]]
    survived: list[str]

    def add(self, kind: str, name: str, verdict: Verdict) -> None:
        last = verdict.checks[-1]
        self.rejections.append(
            {
                "kind": kind,
                "name": name,
                "check": last.name,
                "status": verdict.status,
                "message": last.message,
            }
        )

    def counts(self, kind: str) -> dict[str, int]:
        rejected = sum(each["kind"] == kind for each in self.rejections)
        tried = rejected + (len(self.survived) if kind == "mutants" else 0)
        return {"tried": tried, "rejected": rejected}


def prove(gate: Gate, share: Share | None = None) -> dict[str, Any]:
    """Runs the proof of one gate: the seed, and all that is planted or a run's share of it.

    Returns:
        ``{"cheats": {"tried", "rejected"}, "mutants": {"tried", "rejected"}, "checks": {check:
        what it rejected}, "unchecked", "seed": "pass", "seconds", "survived", "rejections":
        [{"kind", "name", "check", "status", "message"}]}``. A user's own task has the mutants that
        are drawn from its seed: "survived" names those that were not told from it, and "unchecked"
        is ["mutants"] if none was.

    Raises:
        TaskError: the task gives cheats nothing to hang on.
        EvidenceError: something got through, was rejected for another reason, or the seed failed.
    """
    begun = time.monotonic()
    record = _Record(rejections=[], survived=[])
    for cheat in _cheats(gate, share):
        verdict = gate.judge_bits(_candidate(gate, cheat.source), cheat.walk or BITS)
        _require(cheat.name, verdict, (cheat.status,), cheat.checks)
        record.add("cheats", cheat.name, verdict)
    for name, source in _drawn_of(mutants(gate.task), share):
        verdict = gate.judge_bits(_candidate(gate, source), BITS)
        _require(name, verdict, MUTANT_REASONS, ())
        record.add("mutants", name, verdict)
    # Parity sees these too; here the order check has nothing but its probes.
    for name, source in _drawn_of(mutants(gate.task, order=True), share, 1):
        verdict = gate.judge_bits(_candidate(gate, source), (*BUILT, "order"))
        _require(name, verdict, ("ORDER_DIFFERS",), ("order",))
        record.add("mutants", f"{name}, told by its order alone", verdict)
    _require_seed(gate)
    if not gate.task.shipped:
        _try_drawn(gate, record)
    counts = record.counts("mutants")
    return {
        "cheats": record.counts("cheats"),
        "mutants": counts,
        "checks": dict(Counter(each["check"] for each in record.rejections)),
        "survived": record.survived,
        "unchecked": [] if counts["rejected"] else ["mutants"],
        "seed": "pass",
        "seconds": time.monotonic() - begun,
        "rejections": record.rejections,
    }


def _cheats(gate: Gate, share: Share | None) -> Sequence[Cheat]:
    """All of a task; or, of those that cost no run, all, and of the others this task's part: the
    gate is the same code for every task of a run, so each is tried on one of them."""
    found = cheats(gate.task)
    if share is None:
        return found
    cheap = [each for each in found if each.status in NEVER_RAN]
    dear = [each for each in found if each not in cheap]
    random.Random(share.draw).shuffle(dear)
    return [*cheap, *dear[share.number :: share.of]]


def _drawn_of(
    made: Sequence[tuple[str, str]], share: Share | None, most: int = MOST_DRAWN
) -> Sequence[tuple[str, str]]:
    if share is None or share.mutants is None:
        return made
    return random.Random(share.draw).sample(made, min(share.mutants, most, len(made)))


def _try_drawn(gate: Gate, record: _Record) -> None:
    """Mutants of a user's own seed: which are rejected, and which are not told from the seed."""
    tried = 0
    for name, source in drawn(gate.task.seed_source, gate.task.entries):
        if tried == MOST_DRAWN:
            break
        verdict = gate.judge_bits(_candidate(gate, source), BITS)
        if verdict.status in NEVER_RAN:
            continue
        tried += 1
        if verdict.accepted:
            record.survived.append(name)
        else:
            record.add("mutants", name, verdict)


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
