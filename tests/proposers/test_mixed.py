"""Search and agent in one run: neither starves the other, both build on what either won."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kernelsmith.catalog import load_task
from kernelsmith.errors import (
    DatabaseError,
    EvidenceError,
    InfrastructureError,
    InputError,
    MissingError,
    StorageError,
)
from kernelsmith.model import Candidate, Task, new_candidate
from kernelsmith.proposers.mixed import Mixed
from kernelsmith.proposers.search import Search
from tests.agent.night import Gate, Night, Script, judged, settings
from tests.loop.fakes import make_task

TOY, OTHER = make_task(), make_task("other")


@dataclass
class Told:
    """A proposer that has so many candidates for each task; the agent's ``ready`` say when."""

    author: str
    left: dict[str, int]
    ready: list[str | None] = field(default_factory=list)
    name: str = "told"
    asked: list[tuple[tuple[str, ...], float]] = field(default_factory=list)
    closed: bool = False
    proposals: int = 0

    def choose(self, histories: Mapping[str, Sequence[Any]], wait_s: float) -> str | None:
        self.asked.append((tuple(histories), wait_s))
        if self.ready:
            return self.ready.pop(0)
        return next((name for name in histories if self.left[name] == 0), None)

    def propose(self, task: Task, history: Sequence[Any]) -> Candidate | None:
        self.proposals += 1
        if self.left[task.name] == 0:
            return None
        self.left[task.name] -= 1
        source = f"{self.author} {task.name} {self.left[task.name]}"
        return new_candidate(source, task.name, author=self.author)

    def standing(self) -> str:
        return f"{self.author} stands"

    def close(self, histories: Any = None) -> None:
        self.closed = True


def play(mixed: Mixed, choices: int, histories: dict[str, list[Any]]) -> list[str]:
    """As the loop does: authors in order, "-" where no one had anything, "TASK over" at its end."""
    tasks = {"toy": TOY, "other": OTHER}
    told = []
    for _ in range(choices):
        if not histories:
            break
        name = mixed.choose(histories, 0.5)
        if name is None:
            told.append("-")
            continue
        candidate = mixed.propose(tasks[name], histories[name])
        if candidate is None:
            del histories[name]
            told.append(f"{name} over")
            continue
        histories[name].append(judged(candidate, "NOT_FASTER"))
        told.append(candidate.author)
    return told


def test_the_search_goes_on_while_the_agent_thinks() -> None:
    search, agent = Told("search", {"toy": 3}), Told("agent", {"toy": 1}, [None] * 9)
    assert play(Mixed(search, agent, [TOY]), 3, {"toy": []}) == ["search"] * 3
    assert agent.asked == [(("toy",), 0.0)] * 3


def test_they_take_turns_where_both_have_something() -> None:
    search, agent = Told("search", {"toy": 9}), Told("agent", {"toy": 9}, ["toy"] * 9)
    assert play(Mixed(search, agent, [TOY]), 6, {"toy": []}) == ["agent", "search"] * 3


def test_the_agent_is_asked_before_each_candidate_of_the_search() -> None:
    ready = [None, "toy", None, None, "toy"]
    search, agent = Told("search", {"toy": 9}), Told("agent", {"toy": 9}, list(ready))
    told = play(Mixed(search, agent, [TOY]), 5, {"toy": []})
    assert told == ["search", "agent", "search", "search", "agent"]


def test_when_the_search_has_nothing_the_agent_is_waited_for() -> None:
    search = Told("search", {"toy": 0})
    agent = Told("agent", {"toy": 2}, [None, None, None, "toy", "toy"])
    mixed, histories = Mixed(search, agent, [TOY]), {"toy": list[Any]()}
    assert play(mixed, 1, histories) == ["-"]
    assert play(mixed, 1, histories) == ["agent"]
    assert search.proposals == 1  # nothing new to build on: not asked again
    assert play(mixed, 1, histories) == ["agent"]
    assert agent.asked[:4] == [(("toy",), wait_s) for wait_s in (0.0, 0.5, 0.0, 0.5)]


def test_when_the_agent_ends_the_search_goes_on_and_is_the_last_to_end() -> None:
    search, agent = Told("search", {"toy": 3}), Told("agent", {"toy": 1}, ["toy"])
    told = play(Mixed(search, agent, [TOY]), 9, {"toy": []})
    assert told == ["agent", "search", "search", "search", "toy over"]
    assert len(agent.asked) <= 3


def test_a_lane_ends_when_neither_has_anything_left_for_it() -> None:
    search = Told("search", {"toy": 0, "other": 1})
    agent = Told("agent", {"toy": 0, "other": 0})
    told = play(Mixed(search, agent, [TOY, OTHER]), 9, {"toy": [], "other": []})
    assert sorted(told) == ["other over", "search", "toy over"]


def test_the_search_tries_the_next_task_where_it_has_nothing() -> None:
    search = Told("search", {"toy": 0, "other": 2})
    agent = Told("agent", {"toy": 1, "other": 1}, [None] * 9)
    histories: dict[str, list[Any]] = {"toy": [], "other": []}
    assert play(Mixed(search, agent, [TOY, OTHER]), 2, histories) == ["search", "search"]
    assert len(histories["other"]) == 2


def test_the_search_is_asked_again_when_the_agent_has_added_to_the_history() -> None:
    search = Told("search", {"toy": 0})
    agent = Told("agent", {"toy": 9}, [None, None, "toy", None, None])
    mixed, histories = Mixed(search, agent, [TOY]), {"toy": list[Any]()}
    assert play(mixed, 2, histories) == ["-", "agent"]
    search.left["toy"] = 1
    assert play(mixed, 1, histories) == ["search"]


def test_it_stands_and_closes_for_both() -> None:
    search, agent = Told("search", {}), Told("agent", {})
    mixed = Mixed(search, agent, [TOY])
    assert mixed.name == "search,agent"
    assert mixed.standing() == "agent stands"
    mixed.close()
    assert search.closed
    assert agent.closed


@dataclass
class Failing(Told):
    """An agent that raises where it is asked or where it should propose."""

    error: BaseException | None = None
    on: str = "choose"
    closes: int = 0

    def choose(self, histories: Mapping[str, Sequence[Any]], wait_s: float) -> str | None:
        if self.error is not None and self.on == "choose":
            raise self.error
        return super().choose(histories, wait_s)

    def propose(self, task: Task, history: Sequence[Any]) -> Candidate | None:
        if self.error is not None:
            raise self.error
        return super().propose(task, history)

    def close(self, histories: Any = None) -> None:
        self.closes += 1


@pytest.mark.parametrize("on", ["choose", "propose"])
@pytest.mark.parametrize(
    "error", [MissingError("no key", hint="export it"), InputError("no money")]
)
def test_an_agent_that_cannot_go_on_leaves_the_search_to_its_end(error: Exception, on: str) -> None:
    search = Told("search", {"toy": 3, "other": 1})
    agent = Failing("agent", {"toy": 9, "other": 9}, ["toy"], error=error, on=on)
    mixed = Mixed(search, agent, [TOY, OTHER])
    assert mixed.ended_early() == ""
    told = play(mixed, 9, {"toy": [], "other": []})
    assert sorted(told) == ["other over", *["search"] * 4, "toy over"]
    why = "no key (export it)" if isinstance(error, MissingError) else "no money"
    assert mixed.ended_early() == why
    assert mixed.standing() == f"agent: ended: {why}; the search goes on"
    assert agent.closes == 1  # at once: nothing more is spent


@pytest.mark.parametrize(
    "error",
    [
        StorageError("full"),
        DatabaseError("locked"),
        EvidenceError("untrue"),
        InfrastructureError("the template died"),
        KeyboardInterrupt(),
    ],
)
def test_what_is_not_the_agents_ends_the_run(error: BaseException) -> None:
    mixed = Mixed(Told("search", {"toy": 3}), Failing("agent", {"toy": 9}, error=error), [TOY])
    with pytest.raises(type(error)):
        play(mixed, 1, {"toy": []})
    assert mixed.ended_early() == ""


def test_search_and_sessions_build_on_each_other_in_one_history() -> None:
    """The real two: a winner of the agent becomes the search's base, one of the search the
    incumbent that the agent's looks are timed against."""
    task = load_task("linear", "cpu")
    smaller = task.seed_source.replace("BLOCK_M=128", "BLOCK_M=64").replace(
        "cdiv(m_size, 128)", "cdiv(m_size, 64)"
    )
    script = Script([[("bits", smaller), ("submit", smaller), *[("time", smaller)] * 30]])
    night = Night(
        script, Gate(statuses={smaller: "ACCEPTED"}), tasks=[task], settings=settings(turns_max=99)
    )
    gate, search = night.gate, Search(0)

    def verdict(wanted: Candidate) -> Any:
        """Accepts the first candidate of the search that builds on the agent's."""
        won = [each for each in night.histories["linear"] if each.status == "ACCEPTED"]
        if wanted.author == "search" and len(won) == 1 and wanted.parents == (won[0].candidate.id,):
            return judged(wanted, "ACCEPTED", 1.5)
        return Gate.verdict(gate, wanted)

    gate.verdict = verdict  # type: ignore[method-assign]
    night.run(Mixed(search, night.agent, [task]), steps=12)
    won = [each.candidate for each in night.histories["linear"] if each.status == "ACCEPTED"]
    assert [each.author for each in won[:2]] == ["agent", "search"]
    assert won[1].parents == (won[0].id,)
    against = {incumbent for _, incumbent, _ in gate.looks}
    assert won[1].source in against
