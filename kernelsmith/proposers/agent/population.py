"""Which conversation comes next: its task, its parent; and when one goes nowhere.

Everything here follows from the run's id and what is on record, so that a resumed run goes on as
it would have: draws are seeded by run, task and the session's ordinal.
"""

import ast
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelsmith.model import AgentSettings, Candidate, SessionRecord, SessionStart
from kernelsmith.ports import Judged
from kernelsmith.proposers.agent.desk import View

MIN_DISTANCE = 0.05  # twins of an accepted candidate are rarely worth a session, but they may be
GRAM = 3  # tokens; single ones hardly tell two kernels apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the next session is about."""

    task: str
    ordinal: int
    parent: Candidate


@dataclass(slots=True, kw_only=True)
class _Course:
    """How a session went: its last submissions in a row without a gain, its best gain so far."""

    in_vain: int = 0
    best_gain: float = 0.0


@dataclass(slots=True, kw_only=True)
class Population:
    """The sessions of a run: who was started from what, and how each one goes. One thread."""

    run_id: str
    settings: AgentSettings
    started: list[SessionStart] = field(default_factory=list)
    _promised: list[Choice] = field(default_factory=list)
    _courses: dict[str, _Course] = field(default_factory=dict)
    _grams: dict[str, frozenset[tuple[str, ...]]] = field(default_factory=dict)

    @property
    def sessions(self) -> int:
        """Begun so far, those that are about to begin included."""
        return len(self.started) + len(self._promised)

    @property
    def full(self) -> bool:
        """Whether no further session may begin."""
        limit = self.settings.sessions_max
        return limit is not None and self.sessions >= limit

    def next(self, views: Mapping[str, View]) -> Choice | None:
        """The next session's task and parent; None: enough have begun, or no task is open. The
        task has the fewest sessions so far, then the least gain; ``note_started`` confirms it."""
        if self.full or not views:
            return None
        counts = {name: self._begun(name) for name in views}
        name = min(views, key=lambda each: (counts[each], _gain_so_far(views[each])))
        ordinal = counts[name]
        choice = Choice(task=name, ordinal=ordinal, parent=self._parent(views[name], ordinal))
        self._promised.append(choice)
        return choice

    def note_started(self, choice: Choice, start: SessionStart) -> None:
        """The chosen session is on record."""
        self._promised.remove(choice)
        self.started.append(start)

    def note_record(self, record: SessionRecord) -> None:
        """A session of the run that is resumed, with what came of its submissions."""
        if record.start is None:
            return
        self.started.append(record.start)
        for done in record.results:
            if done.name == "submit" and "status" in done.facts:
                self._count(record.id, done.facts["status"], done.facts.get("gain_vs_seed"))

    def note_judged(self, session_id: str, judged: Judged) -> None:
        """The answer to a submission of this session."""
        self._count(session_id, judged.status, judged.gain_vs_seed)

    async def should_end(self, session_id: str) -> str:
        """Asked between turns: why this session should end now; "" if it should go on."""
        in_vain = self._courses.get(session_id, _Course()).in_vain
        return "stale" if in_vain >= self.settings.stale_submissions else ""

    def weights(self, view: View) -> dict[str, float]:
        """Fitness to be a parent by candidate id: gain x novelty. The seed, accepted candidates
        and those that measured above 1 without being proved faster qualify."""
        fit: dict[str, tuple[Candidate, float]] = {view.seed.id: (view.seed, 1.0)}
        for judged in view.history:
            gain = judged.gain_vs_seed
            if gain is not None and (
                judged.status == "ACCEPTED" or (judged.status == "NOT_FASTER" and gain > 1)
            ):
                fit[judged.candidate.id] = (judged.candidate, gain)
        children = self._children(view)
        accepted = [view.seed] + [
            judged.candidate for judged in view.history if judged.status == "ACCEPTED"
        ]
        return {
            id_: gain * self._distance(candidate, accepted) / (1 + children.get(id_, 0)) ** 0.5
            for id_, (candidate, gain) in fit.items()
        }

    def _parent(self, view: View, ordinal: int) -> Candidate:
        known = {judged.candidate.id: judged.candidate for judged in view.history}
        known[view.seed.id] = view.seed
        weights = self.weights(view)
        rng = random.Random(f"{self.run_id}:{view.task.name}:{ordinal}")
        return known[rng.choices(list(weights), list(weights.values()))[0]]

    def _begun(self, task: str) -> int:
        begun = [start.task for start in self.started]
        return (begun + [choice.task for choice in self._promised]).count(task)

    def _count(self, session_id: str, status: str, gain_vs_seed: float | None) -> None:
        course = self._courses.setdefault(session_id, _Course())
        gain = gain_vs_seed or 0.0
        forward = status == "ACCEPTED" or gain > course.best_gain
        course.in_vain = 0 if forward else course.in_vain + 1
        course.best_gain = max(course.best_gain, gain)

    def _children(self, view: View) -> dict[str, int]:
        """How often each candidate was built upon: by candidates, and by sessions given it."""
        task = view.task.name
        parents = [parent for judged in view.history for parent in judged.candidate.parents]
        parents += [start.parent for start in self.started if start.task == task]
        parents += [choice.parent.id for choice in self._promised if choice.task == task]
        return {id_: parents.count(id_) for id_ in set(parents)}

    def _distance(self, candidate: Candidate, accepted: Sequence[Candidate]) -> float:
        """Mean structural distance to the other accepted ones, 0 to 1."""
        own = self._grams_of(candidate)
        others = [self._grams_of(each) for each in accepted if each.id != candidate.id]
        if not others:
            return 1.0
        distances = [1 - len(own & each) / max(len(own | each), 1) for each in others]
        return max(MIN_DISTANCE, sum(distances) / len(distances))

    def _grams_of(self, candidate: Candidate) -> frozenset[tuple[str, ...]]:
        if candidate.id not in self._grams:
            tokens = normalised_tokens(candidate.source)
            ends = range(GRAM, len(tokens) + 1)
            self._grams[candidate.id] = frozenset(tuple(tokens[i - GRAM : i]) for i in ends)
        return self._grams[candidate.id]


def normalised_tokens(source: str) -> list[str]:
    """A module as a list of tokens that comments, layout and the choice of names do not change:
    node types of its syntax tree, attribute names, constants. Text that does not parse is split
    at white space."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source.split()
    tokens = []
    for node in _in_order(tree):
        match node:
            case ast.Attribute(attr=name):
                tokens.append(f".{name}")
            case ast.Constant(value=value):
                tokens.append("text" if isinstance(value, str) else repr(value))
            case ast.Load() | ast.Store():
                pass
            case _:
                tokens.append(type(node).__name__)
    return tokens


def _in_order(tree: ast.AST) -> list[ast.AST]:
    """Depth first, as written; an own stack, since sources may nest deeply."""
    found: list[ast.AST] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


def _gain_so_far(view: View) -> float:
    gains = [judged.gain_vs_seed or 0.0 for judged in view.history if judged.status == "ACCEPTED"]
    return max(gains, default=1.0)
