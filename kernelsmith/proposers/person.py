"""The proposer of a run that judges one file of a person's: that file waits already, and nothing
follows it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.lineage.past import PERSON
from kernelsmith.model import Candidate, Task
from kernelsmith.ports import Judged


@dataclass(slots=True, kw_only=True)
class Person:
    """``ports.Proposer`` with nothing to propose."""

    name: str = PERSON

    def choose(self, histories: Mapping[str, Sequence[Judged]], wait_s: float) -> str | None:
        """The first task, to hear that nothing is left."""
        return next(iter(histories), None)

    def propose(self, task: Task, history: Sequence[Judged]) -> Candidate | None:
        """Nothing."""
        return None

    def standing(self) -> str:
        """Nothing is spent."""
        return ""

    def close(self, histories: Mapping[str, Sequence[Judged]] | None = None) -> None:
        """Nothing is under way."""
