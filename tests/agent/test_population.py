"""The population: the next session's task and parent, and when a session goes nowhere."""

import asyncio
from collections import Counter
from typing import Any

from kernelsmith.lineage.past import PastCandidate
from kernelsmith.model import SessionEnd, SessionRecord, new_candidate, seed_candidate
from kernelsmith.proposers.agent.desk import View
from kernelsmith.proposers.agent.population import Population, normalised_tokens
from tests.agent.night import RUN, Reply, candidate, done, judged, settings, start_of
from tests.loop.fakes import make_task

PLAIN = "def f(x):\n    return x + 1\n"
TWIN = "# faster\ndef g(y):  # renamed\n    return y + 1\n"
NEW = "def f(x):\n    while x < 3:\n        x = [x for x in range(x)][-1]\n    return x\n"


def view(history: list[PastCandidate] | None = None, task: str = "toy", seed: str = PLAIN) -> View:
    toy = make_task(task, seed)
    first = seed_candidate(toy)
    return View(task=toy, seed=first, incumbent=first, history=tuple(history or ()))


def population(**changes: Any) -> Population:
    return Population(run_id=RUN, settings=settings(sessions_max=None, **changes))


def begin(people: Population, views: dict[str, View], number: int) -> tuple[str, int, str]:
    choice = people.next(views)
    assert choice is not None
    people.note_started(choice, start_of(choice, number))
    return choice.task, choice.ordinal, choice.parent.source


def test_sessions_go_to_the_task_with_the_fewest_then_the_least_gain() -> None:
    won = [judged(candidate("a"), "ACCEPTED", 1.4)]
    views = {"won": view(won, "won"), "lost": view([], "lost")}
    people = population()
    begun = [begin(people, views, number)[:2] for number in range(4)]
    assert begun == [("lost", 0), ("won", 0), ("lost", 1), ("won", 1)]


def test_sessions_that_are_about_to_begin_count() -> None:
    people = population()
    views = {"a": view([], "a"), "b": view([], "b")}
    choices = [people.next(views), people.next(views)]
    assert [choice.task for choice in choices if choice] == ["a", "b"]


def test_no_more_than_the_wanted_sessions_begin() -> None:
    people = Population(run_id=RUN, settings=settings(sessions_max=2))
    begin(people, {"toy": view()}, 0)
    assert people.next({"toy": view()}) is not None
    assert people.full
    assert people.next({"toy": view()}) is None
    assert population().next({}) is None


def test_the_seed_winners_and_promising_ones_are_parents() -> None:
    history = [
        judged(candidate("accepted"), "ACCEPTED", 1.2),
        judged(candidate("promising"), "NOT_FASTER", 1.05),
        judged(candidate("slow"), "NOT_FASTER", 0.9),
        judged(candidate("wrong"), "BITS_DIFFER"),
        judged(candidate("regresses"), "REGRESSES", 1.3),
    ]
    weights = population().weights(view(history))
    ids = {candidate(name).id for name in ("accepted", "promising")}
    assert set(weights) == ids | {view().seed.id}
    assert min(weights.values()) > 0


def test_gain_and_novelty_make_the_weight() -> None:
    twin, new = candidate(TWIN), candidate(NEW)
    both = [judged(twin, "ACCEPTED", 1.3), judged(new, "ACCEPTED", 1.3)]
    weights = population().weights(view(both))
    assert weights[new.id] > 1.5 * weights[twin.id]
    assert weights[twin.id] > weights[view().seed.id]  # the same program, but faster
    child = judged(new_candidate("c", "toy", author="agent", parents=(new.id,)), "COMPILE")
    crowded = population().weights(view([*both, child]))
    assert crowded[new.id] * 2**0.5 == weights[new.id]


def test_sessions_that_were_given_a_parent_count_as_its_children() -> None:
    people, seed = population(), view().seed.id
    alone = people.weights(view())[seed]
    choice = people.next({"toy": view()})
    assert choice is not None
    assert people.weights(view())[seed] * 2**0.5 == alone
    people.note_started(choice, start_of(choice, 0))
    assert people.weights(view())[seed] * 2**0.5 == alone


def test_parents_follow_from_what_is_on_record() -> None:
    history = [judged(candidate(NEW), "ACCEPTED", 1.3), judged(candidate(TWIN), "ACCEPTED", 1.1)]

    def parents() -> list[str]:
        people = population()
        return [begin(people, {"toy": view(history)}, number)[2] for number in range(24)]

    first = parents()
    assert parents() == first
    assert set(Counter(first)) == {PLAIN, TWIN, NEW}


def test_tokens_are_blind_to_names_comments_and_layout() -> None:
    assert normalised_tokens(PLAIN) == normalised_tokens(TWIN)
    assert normalised_tokens(PLAIN) != normalised_tokens(NEW)
    assert normalised_tokens("def f(:") == ["def", "f(:"]
    assert normalised_tokens("x = " + "(" * 300 + ")" * 300)


def ends(people: Population, session_id: str = "s1") -> str:
    return asyncio.run(people.should_end(session_id))


def submit(people: Population, status: str, gain: float | None = None) -> None:
    people.note_judged("s1", judged(candidate("x"), status, gain))


def test_a_session_ends_after_so_many_submissions_in_vain() -> None:
    people = population(stale_submissions=3)
    for _ in range(2):
        submit(people, "BITS_DIFFER")
    assert ends(people) == ""
    submit(people, "DUPLICATE")
    assert ends(people) == "stale"
    assert ends(people, "s2") == ""


def test_a_win_or_a_better_gain_keeps_a_session_going() -> None:
    people = population(stale_submissions=2)
    for status, gain in [("COMPILE", None), ("NOT_FASTER", 0.95), ("COMPILE", None)]:
        submit(people, status, gain)
    assert ends(people) == ""
    submit(people, "ACCEPTED", 1.1)
    submit(people, "NOT_FASTER", 1.1)
    assert ends(people) == ""
    submit(people, "NOT_FASTER", 0.9)
    assert ends(people) == "stale"


def test_a_resumed_session_is_as_stale_as_it_was() -> None:
    people = population(stale_submissions=3)
    choice = people.next({"toy": view()})
    assert choice is not None
    start = start_of(choice, 1)
    replies = [
        Reply("", facts={"status": "NOT_FASTER", "gain_vs_seed": 0.9}),
        Reply("", facts={"status": "BITS_DIFFER", "gain_vs_seed": None}),
        Reply("no such candidate", is_error=True),
        Reply("", facts={"status": "DUPLICATE", "gain_vs_seed": None}),
    ]
    results = tuple(done(start.id, turn, "submit", each) for turn, each in enumerate(replies))
    record = SessionRecord(id=start.id, start=start, calls=(), results=results, end=None)
    resumed = population(stale_submissions=3)
    resumed.note_record(record)
    assert resumed.sessions == 1
    assert ends(resumed, start.id) == ""
    resumed.note_judged(start.id, judged(candidate("b"), "COMPILE"))
    assert ends(resumed, start.id) == "stale"


def test_sessions_on_record_count_for_ordinals_and_tasks() -> None:
    people = population()
    views = {"a": view([], "a"), "b": view([], "b")}
    choice = people.next({"a": views["a"]})
    assert choice is not None
    start = start_of(choice, 1)
    over = SessionEnd(session_id=start.id, reason="stale")
    record = SessionRecord(id=start.id, start=start, calls=(), results=(), end=over)
    resumed = population()
    resumed.note_record(record)
    assert [begin(resumed, views, number)[:2] for number in range(3)] == [
        ("b", 0),
        ("a", 1),
        ("b", 1),
    ]
