"""What a run's loop remembers and what a resumed one starts from. No database here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelsmith.model import Candidate, Gain

PERSON = "person"
"""The author of what people send in by hand, and the proposer of the run that judges it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCandidate:
    """An earlier candidate of this run and task, as a proposer may see it. ``status`` is the
    verdict's, or DUPLICATE (dropped before any work), or UNJUDGED (the machine failed on it).
    ``check``: the one that failed; ``gain``: against the incumbent of its time."""

    candidate: Candidate
    status: str
    gain_vs_seed: float | None
    message: str
    check: str = ""
    gain: Gain | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBefore:
    """What is on record of one task of a run. ``seen``: normalised hash -> candidate id, the
    seed's included. ``retimed``: incumbents timed against the seed, as (holds, gain); ``timings``:
    how many such timings were begun."""

    seen: Mapping[str, str] = field(default_factory=dict)
    used_s: float = 0.0
    longest_s: float = 0.0
    judged: int = 0
    retimed: Mapping[str, tuple[bool, Gain]] = field(default_factory=dict)
    timings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is on record of a run. ``confirms``: judgements that
    reached confirm or may have."""

    elapsed_s: float = 0.0
    confirms: int = 0
    tasks: Mapping[str, TaskBefore] = field(default_factory=dict)
