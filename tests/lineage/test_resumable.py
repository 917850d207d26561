"""What a resumed agent reads: the calls of conversations that go on, of the others none."""

import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kernelsmith import config
from kernelsmith.errors import DatabaseError
from kernelsmith.lineage.journal import LineageJournal
from kernelsmith.lineage.store import LineageStore
from kernelsmith.model import Usage
from kernelsmith.ports import Proposer
from kernelsmith.wiring import ProposerParts, real
from tests.lineage import talks
from tests.loop import fakes

OPEN = "s00000000001"


def two_sessions(store: LineageStore, journal: LineageJournal) -> str:
    """One that has ended, one that goes on, and a foreign client's call."""
    run_id = talks.record_story(store, journal)
    journal.append(talks.start(run_id, OPEN, ordinal=1)).result()
    call = journal.append(talks.sent(run_id, 0, talks.body([talks.OPENING]), OPEN)).result()
    journal.append(talks.answered(call, b"", usage=Usage(output=3))).result()
    foreign = journal.append(talks.sent(run_id, None, b"{}", "theirs")).result()
    journal.append(talks.answered(foreign, b"", usage=Usage(input=7))).result()
    return run_id


def test_only_what_goes_on_is_read_whole(store: LineageStore, journal: LineageJournal) -> None:
    run_id = two_sessions(store, journal)
    whole = {each.id: each for each in journal.sessions(run_id)}
    (ended, going_on), usages = journal.resumable(run_id)
    assert going_on == whole[OPEN]
    assert len(going_on.calls) == 1
    assert (ended.start, ended.end) == (whole[talks.SESSION].start, whole[talks.SESSION].end)
    assert ended.calls == ended.results == ()
    answers = [call.answer for each in whole.values() for call in each.calls if call.answer]
    assert sum(usages, start=Usage()) == sum((each.usage for each in answers), start=Usage())
    assert usages[-2:] == [Usage(output=3), Usage(input=7)]


def damage(path: Path, session_id: str) -> None:
    """The requests of a session can no longer be put together."""
    plain = sqlite3.connect(path)
    plain.execute("UPDATE model_calls SET manifest = '[]' WHERE session_id = ?", (session_id,))
    plain.commit()
    plain.close()


def agent_of(path: Path, run_id: str) -> AbstractContextManager[Proposer]:
    """As a resumed run builds it; nothing is asked of the model's server before it chooses."""
    parts = ProposerParts(
        name="agent",
        seed=0,
        run_id=run_id,
        db=path,
        tasks=(talks.TASK,),
        judges={},
        device_facts={},
        normal_hash=fakes.normal_hash,
        agent=config.settings_of(talks.AGENT, {}),
        endpoint=config.Endpoint(base_url="http://127.0.0.1:9", api_key=""),
    )
    return real().proposer(parts)


def test_an_agent_goes_on_without_the_calls_of_ended_conversations_and_counts_all_they_cost(
    store: LineageStore, journal: LineageJournal, path: Path
) -> None:
    run_id = two_sessions(store, journal)
    _, usages = journal.resumable(run_id)
    calls = sum(usage.tokens > 0 for usage in usages)
    damage(path, talks.SESSION)
    with agent_of(path, run_id) as agent:
        assert f"0 of 2 sessions under way, {calls} calls" in agent.standing()
    damage(path, OPEN)
    with pytest.raises(DatabaseError), agent_of(path, run_id):
        pass
