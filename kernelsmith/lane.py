"""A task's lane in a run: its history, its incumbents, its counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelsmith.errors import EvidenceError
from kernelsmith.lineage.past import TaskBefore
from kernelsmith.model import Candidate, Gain, Task, Verdict
from kernelsmith.ports import Judge, Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A task's standing, for display. ``estimate``: the incumbent's gain over the seed as a
    product of confirms; only ``retimed`` is a result."""

    task: str
    judged: int
    accepted: int
    duplicates: int
    incumbent: str
    estimate: float
    retimed: Gain | None


@dataclass(slots=True, kw_only=True)
class Lane:
    """One task's state. ``chain``: the seed, then each incumbent that still stands, with its gain
    over the seed; ``waiting``: on record, not judged yet; ``seen``: normalised hash -> id;
    ``timings``: those against the seed that were begun, each with its chance of an error."""

    task: Task
    judge: Judge
    history: list[Judged]
    waiting: list[Candidate]
    chain: list[tuple[Candidate, float]]
    seen: dict[str, str]
    used_s: float
    longest_s: float
    judged: int
    accepted: int
    retimed: dict[str, tuple[bool, Gain]]
    timings: int = 0
    session_s: float | None = None
    exhausted: bool = False
    duplicates: int = 0
    duplicates_in_a_row: int = 0

    @property
    def incumbent(self) -> Candidate:
        """The candidate to beat."""
        return self.chain[-1][0]

    @property
    def is_due(self) -> bool:
        """Whether a final timing is still to come."""
        return len(self.chain) > 1 and self.incumbent.id not in self.retimed

    def note_verdict(self, verdict: Verdict, seconds: float) -> bool:
        """Counts a verdict; whether the candidate reached confirm."""
        self.judged += 1
        self.longest_s = max(self.longest_s, seconds)
        confirm = next((check for check in verdict.checks if check.name == "confirm"), None)
        if confirm is None or confirm.status == "unchecked":
            return False
        if verdict.gain is not None and verdict.gain.sessions:
            self.session_s = verdict.session_s or confirm.seconds / verdict.gain.sessions
        return True

    def progress(self) -> Progress:
        """For display."""
        incumbent, estimate = self.chain[-1]
        holds, gain = self.retimed.get(incumbent.id, (False, None))
        return Progress(
            task=self.task.name,
            judged=self.judged,
            accepted=self.accepted,
            duplicates=self.duplicates,
            incumbent=incumbent.id,
            estimate=estimate,
            retimed=gain if holds else None,
        )


def open_lane(
    task: Task,
    judge: Judge,
    seed: Candidate,
    before: TaskBefore,
    history: Sequence[Judged],
    waiting: Sequence[Candidate],
    normal_hash: Callable[[str], str],
) -> Lane:
    """A task as it stands on record."""
    chain = [(seed, 1.0)]
    for past in history:
        holds, gain = before.retimed.get(past.candidate.id, (True, None))
        if past.status != "ACCEPTED" or not holds:
            continue
        gain_vs_seed = gain.geomean if gain else past.gain_vs_seed
        if gain_vs_seed is None:
            raise EvidenceError(f"{past.candidate.id} of {task.name} is on record without a gain")
        chain.append((past.candidate, gain_vs_seed))
    return Lane(
        task=task,
        judge=judge,
        history=list(history),
        waiting=list(waiting),
        timings=before.timings,
        chain=chain,
        seen={normal_hash(seed.source): seed.id, **before.seen},
        used_s=before.used_s,
        longest_s=before.longest_s,
        judged=before.judged,
        accepted=sum(past.status == "ACCEPTED" for past in history),
        retimed=dict(before.retimed),
    )
