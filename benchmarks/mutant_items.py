"""What the proof by planted bugs judges: drawn mutants of seeds and winners, and those by hand."""

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsmith.gate.probes import engine
from kernelsmith.model import Task, candidate_id

TABLES = Path(__file__).resolve().parents[1] / "tests" / "mutants"
TASKS = ("rms_norm", "linear", "logprob", "swiglu")
DRAW = "1"
PER_KIND = 5
RULES = ("torch.testing", "KernelBench")
SETS = ("declared", "public")
DRAWS = 5
"""Tolerances, what they are tried on, and draws of public inputs: see ``mutant_tolerance``."""
KIND_OF = {
    "association": "numeric",
    "rsqrt": "numeric",
    "division": "numeric",
    "exp": "numeric",
    "log": "numeric",
    "fma": "numeric",
    "eps": "numeric",
    "cast": "numeric",
    "zero": "numeric",
    "special": "numeric",
    "accumulator": "dtype",
    "tail": "boundary",
    "forward_infer": "host",
    "wiring": "host",
    "dispatch": "host",
    "carry": "host",
    "race": "order",
}
"""The finer kinds of the tables by hand, in the engine's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One mutant to judge. ``parent`` is "seed" or "winner", ``origin`` "drawn" or "hand".

    By hand: ``status`` and ``check`` that must see it ("parity" is either path's), or ACCEPTED and
    None with the ``reason`` why no bit can differ."""

    task: str
    parent: str
    origin: str
    kind: str
    operator: str
    name: str
    line: int
    old: str
    new: str
    source: str
    status: str = ""
    check: str | None = None
    reason: str = ""

    @property
    def id(self) -> str:
        return candidate_id(self.source)


def hand(task: Task) -> list[Item]:
    """The table of a task: ``old`` becomes ``new`` where it stands for the ``nth`` time in the
    seed; first the mutants, then the survivors.

    Raises:
        ValueError: a spot is not there.
    """
    raw = tomllib.loads((TABLES / f"{task.name}.toml").read_text(encoding="utf-8"))
    return [_by_hand(task, entry) for entry in (*raw["mutants"], *raw["survivors"])]


def replaced(source: str, old: str, new: str, nth: int = 1) -> tuple[str, int]:
    """The source with ``new`` where ``old`` stands for the ``nth`` time, and the line of that.

    Raises:
        ValueError: it does not stand there so often.
    """
    at = -1
    for _ in range(nth):
        at = source.find(old, at + 1)
        if at < 0:
            raise ValueError(f"the source no longer has {old!r} {nth} times")
    return source[:at] + new + source[at + len(old) :], source[:at].count("\n") + 1


def _by_hand(task: Task, entry: dict[str, Any]) -> Item:
    old, new = str(entry["old"]), str(entry["new"])
    source, line = replaced(task.seed_source, old, new, entry.get("nth", 1))
    return Item(
        task=task.name,
        parent="seed",
        origin="hand",
        kind=KIND_OF.get(entry["kind"], entry["kind"]),
        operator=entry["kind"],
        name=entry["name"],
        line=line,
        old=" ".join(old.split()),
        new=" ".join(new.split()),
        source=source,
        status=entry.get("status", "ACCEPTED"),
        check=entry.get("check"),
        reason=entry.get("reason", ""),
    )


def parents(task: Task) -> dict[str, str]:
    """Sources that mutants are drawn from: the seed, and the winner of a recorded run."""
    winner = TABLES / "winners" / f"{task.name}.py.txt"
    return {"seed": task.seed_source, "winner": winner.read_text(encoding="utf-8")}


def drawn(task: Task, parent: str, per_kind: int = PER_KIND, seed: str = DRAW) -> list[Item]:
    """``per_kind`` mutants of each kind of one parent, by the engine."""
    source = parents(task)[parent]
    label = f"{seed} {task.name} {parent}"
    return [
        Item(
            task=task.name,
            parent=parent,
            origin="drawn",
            kind=each.kind,
            operator=each.operator,
            name=each.name,
            line=each.line,
            old=each.old,
            new=each.new,
            source=each.source,
        )
        for each in engine.draw(engine.planted(source), task.entries, label, per_kind)
    ]


def items(task: Task, per_kind: int = PER_KIND, seed: str = DRAW) -> list[Item]:
    """All mutants of a task, each source once: drawn ones first, by the hash of the source, so that
    any beginning is a fair part of them."""
    every = [*hand(task)]
    for parent in parents(task):
        every += drawn(task, parent, per_kind, seed)
    once = {item.id: item for item in reversed(every)}

    def turn(item: Item) -> tuple[bool, str]:
        return item.origin == "hand", hashlib.sha256(item.id.encode()).hexdigest()

    return sorted(once.values(), key=turn)
