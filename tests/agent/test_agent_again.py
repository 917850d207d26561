"""An agent goes on from its record: what waited, what was told, who had begun."""

from typing import Any

from tests.agent.night import MemoryJournal, Night, Script, candidate, judged, settings


def cut_off(steps: list[tuple[str, str]]) -> tuple[MemoryJournal, str]:
    """A journal of a session that was cut off while it waited for the verdict on its first."""
    night = Night(Script([steps]))
    agent = night.agent
    assert agent.choose({"toy": []}, 60.0) == "toy"
    wanted = agent.propose(night.tasks[0], [])
    assert wanted is not None
    agent.close()
    assert night.journal.answers == []
    return night.journal, wanted.origin


def test_a_verdict_that_came_while_no_one_waited_is_given_on_resume() -> None:
    steps = [("submit", "a"), ("submit", "b")]
    journal, origin = cut_off(steps)
    history: list[Any] = [judged(candidate("a", origin), "ACCEPTED", 1.25)]
    night = Night(Script([steps]), journal=journal, histories={"toy": history})
    night.run()
    assert night.statuses() == [("a", "ACCEPTED"), ("b", "NOT_FASTER")]
    assert journal.answers == ["ACCEPTED", "NOT_FASTER"]
    assert len(journal.starts) == 1


def test_a_resumed_session_keeps_its_recorded_start() -> None:
    steps = [("submit", "a")]
    journal, _ = cut_off(steps)
    script = Script([steps])
    night = Night(script, journal=journal, settings=settings(sessions_max=2))
    night.run()
    assert [record.start for record in script.resumed] == journal.starts[:1]
    assert [start.ordinal for start in journal.starts] == [0, 1]
