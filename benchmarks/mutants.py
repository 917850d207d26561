"""Every one-spot mutant of the seeds through the real gate: who rejects it, at which element.

    python benchmarks/mutants.py [--task NAME] [--only TEXT]

The tables are ``tests/mutants/*.toml``: what is replaced, and the check and status that must
reject it. Each also lists changes that keep all bits, with the reason; those must pass every
check about bits. Nothing is timed. Writes ``benchmarks/results/mutants.json`` unless ``--only``
is given. Exit code 1 if anything came out otherwise than the table says.
"""

import argparse
import hashlib
import json
import secrets
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelsmith import catalog, devices
from kernelsmith.gate.judge import Gate
from kernelsmith.model import Candidate, Task, new_candidate, seed_candidate
from kernelsmith.sandbox.process import open_process

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "mutants.json"
TASKS = ("rms_norm", "linear", "swiglu", "logprob")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """``old`` becomes ``new`` where it stands for the ``nth`` time. ``status`` ACCEPTED and no
    ``check`` for a change that keeps all bits, for the ``reason``."""

    name: str
    old: str
    new: str
    nth: int = 1
    kind: str = "equal"
    check: str | None = None
    status: str = "ACCEPTED"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the gate made of a mutant; ``message`` names the first differing element.

    The check "parity" stands for parity.train or parity.infer, whichever met the mutant first.
    """

    name: str
    kind: str
    expected: tuple[str, str | None]
    found: tuple[str, str | None]
    message: str
    seconds: float

    @property
    def as_expected(self) -> bool:
        status, check = self.found
        if self.expected[1] == "parity" and check is not None:
            check = check.partition(".")[0]
        return self.expected == (status, check)


def table(task: str) -> list[Mutant]:
    """Mutants, then equal changes, of a task's seed."""
    text = (ROOT / "tests" / "mutants" / f"{task}.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    return [Mutant(**entry) for entry in (*raw["mutants"], *raw["equal"])]


def mutated(source: str, mutant: Mutant) -> str:
    """The seed with the one spot changed.

    Raises:
        ValueError: the spot is not there.
    """
    at = -1
    for _ in range(mutant.nth):
        at = source.index(mutant.old, at + 1)
    return source[:at] + mutant.new + source[at + len(mutant.old) :]


def candidate(task: Task, mutant: Mutant) -> Candidate:
    """The mutant as a candidate of its task."""
    source = mutated(task.seed_source, mutant)
    parents = (seed_candidate(task).id,)
    return new_candidate(
        source, task.name, author="mutant", parents=parents, changes=(mutant.name,)
    )


def judge(gate: Gate, mutant: Mutant) -> Judged:
    """Puts one mutant through the checks about bits."""
    begun = time.monotonic()
    verdict = gate.judge_bits(candidate(gate.task, mutant))
    failed = [check for check in verdict.checks if check.status == "fail"]
    return Judged(
        name=mutant.name,
        kind=mutant.kind,
        expected=(mutant.status, mutant.check),
        found=(verdict.status, failed[0].name if failed else None),
        message=failed[0].message if failed else mutant.reason,
        seconds=round(time.monotonic() - begun, 3),
    )


def judge_all(name: str, only: str) -> Iterator[Judged]:
    """Judges a task's mutants one by one; the seed first, which must keep its bits.

    Raises:
        SystemExit: the seed fails.
    """
    task = catalog.load_task(name, "cpu")
    sandbox = open_process()
    gate = Gate(task, devices.get("cpu"), sandbox, secrets.randbits(128))
    try:
        seed = gate.judge_bits(seed_candidate(task))
        if seed.status != "ACCEPTED":
            raise SystemExit(f"the seed of {name} fails: {seed.checks[-1].message}")
        for mutant in table(name):
            if only in mutant.name:
                yield judge(gate, mutant)
    finally:
        gate.close()
        sandbox.close()


def summary(judged: list[Judged]) -> dict[str, Any]:
    """Counts for the top of the file."""
    mutants = [one for one in judged if one.expected[0] != "ACCEPTED"]
    equal = [one for one in judged if one.expected[0] == "ACCEPTED"]
    return {
        "mutants": len(mutants),
        "rejected_by_the_right_check": sum(one.as_expected for one in mutants),
        "equal": len(equal),
        "equal_kept_their_bits": sum(one.as_expected for one in equal),
        "by_check": dict(Counter(str(one.found[1]) for one in mutants)),
        "by_kind": dict(Counter(one.kind for one in mutants)),
    }


def main() -> int:
    """Judges what is asked for, prints one line each, writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--task", choices=TASKS, action="append")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    if RESULT.exists():
        results = json.loads(RESULT.read_text(encoding="utf-8"))
    wrong = 0
    for name in arguments.task or TASKS:
        judged: list[Judged] = []
        for one in judge_all(name, arguments.only):
            judged.append(one)
            wrong += not one.as_expected
            mark = "ok " if one.as_expected else "BAD"
            print(f"{mark} {name}: {one.name}: {one.found} {one.seconds:.1f} s {one.message}")
            sys.stdout.flush()
        task = catalog.load_task(name, "cpu")
        results[name] = {
            "device": "cpu",
            "seed_sha256": hashlib.sha256(task.seed_source.encode()).hexdigest(),
            **summary(judged),
            "judged": [asdict(one) for one in judged],
        }
        if not arguments.only:
            RESULT.parent.mkdir(exist_ok=True)
            document = {"schema": "kernelsmith.benchmark.mutants/1", **results}
            RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
