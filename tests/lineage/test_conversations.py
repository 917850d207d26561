"""Conversations on record: origins and histories, spend, edits that show, databases from before."""

import json
import sqlite3
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from kernelsmith.errors import DatabaseError, InputError
from kernelsmith.lineage import conversations, models, queries, records, spending
from kernelsmith.lineage.database import open_for_reading
from kernelsmith.lineage.journal import LineageJournal, open_journal
from kernelsmith.lineage.standings import run_standing
from kernelsmith.lineage.store import LineageStore, open_existing, open_store
from kernelsmith.lineage.verify import Report, verify
from kernelsmith.model import Usage
from tests.lineage import talks
from tests.lineage.asking import intact
from tests.loop import fakes

TABLES = (
    "sessions",
    "model_calls",
    "model_answers",
    "tool_results",
    "session_ends",
    "submissions",
)


def report(path: Path, head: str | None = None) -> Report:
    opened = open_for_reading(path)
    with opened.reading() as connection:
        found = verify(connection, head)
    opened.close()
    return found


# --------------------------------------------------------------------------- origins, histories


def test_a_history_says_who_submitted_which_check_failed_and_what_was_gained(
    store: LineageStore,
) -> None:
    run_id = talks.begin_run(store)
    made = [
        replace(
            fakes.make_candidate(f"# {number}\n", parents=(talks.SEED.id,)),
            author="agent",
            origin=f"{talks.SESSION}/toolu/{number}",
        )
        for number in range(4)
    ]
    verdicts = [
        fakes.make_verdict(made[0], "BITS_DIFFER"),
        fakes.make_verdict(made[1], "ACCEPTED", gain=1.25, against=talks.SEED.id),
    ]
    for candidate in made[:3]:
        store.append(run_id, "candidate", {"candidate": candidate, "normal_hash": candidate.id})
    for verdict in verdicts:
        facts = {"seconds": 1.0, "elapsed_s": 1.0, "gain_vs_seed": None}
        store.append(run_id, "verdict", {"verdict": verdict, **facts})
    dropped = {"candidate": made[3], "of": made[0].id, "elapsed_s": 2.0}
    store.append(run_id, "duplicate", dropped)
    history = store.history(run_id, "toy")
    assert [each.candidate for each in history] == [made[0], made[1], made[3]]
    assert [each.check for each in history] == ["parity.train", "", ""]
    assert [each.gain for each in history] == [None, verdicts[1].gain, None]
    assert list(store.pending(run_id, "toy")) == [made[2]]
    with store.database.reading() as connection:
        record = queries.find_candidate(connection, made[1].id)
        assert queries.load_candidate(connection, record) == made[1]
        assert [each["candidate"] for each in spending.submissions(connection, talks.SESSION)] == [
            each.id for each in made[:3]
        ]
        assert verify(connection).findings == ()


def test_a_candidate_of_the_search_has_no_submission(store: LineageStore, path: Path) -> None:
    run_id = talks.begin_run(store)
    candidate = fakes.make_candidate("# mine\n", parents=(talks.SEED.id,))
    store.append(run_id, "candidate", {"candidate": candidate, "normal_hash": "n"})
    assert [each.origin for each in store.pending(run_id, "toy")] == [""]
    with store.database.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM submissions").scalar() == 0


# ---------------------------------------------------------------------------------------- spend


def test_spend_is_what_the_recorded_answers_cost(
    store: LineageStore, journal: LineageJournal
) -> None:
    run_id = talks.begin_run(store)
    journal.append(talks.start(run_id)).result()
    usages = [Usage(input=1_000_000), Usage(), Usage(output=2000, cache_read=500)]
    for turn, usage in enumerate(usages):
        call = journal.append(talks.sent(run_id, turn, b"{}")).result()
        journal.append(talks.answered(call, b"", usage=usage, model="m-1-dated")).result()
    journal.append(talks.sent(run_id, 3, b"{}")).result()  # sent, never answered: it costs nothing
    foreign = journal.append(talks.sent(run_id, None, b"{}", session_id="theirs")).result()
    journal.append(talks.answered(foreign, b"", model="m-2", usage=Usage(input=7))).result()
    with store.database.reading() as connection:
        found = conversations.usage_of_run(connection, run_id)
        assert found == [*usages, Usage(input=7)]
        agent = run_standing(connection, run_id).agent
    assert agent is not None
    assert [each.cost_usd for each in agent.sessions] == [Decimal("5.05"), None]
    assert agent.cost_usd is None  # a model without a price answered
    assert (agent.calls, agent.usage.tokens) == (5, 1_002_507)
    mine = agent.sessions[0]
    assert (mine.turns, mine.calls, mine.answers, mine.end) == (4, 4, 3, None)


def test_a_run_tells_what_its_sessions_came_to(
    store: LineageStore, journal: LineageJournal
) -> None:
    run_id = talks.record_story(store, journal)
    with store.database.reading() as connection:
        agent = run_standing(connection, run_id).agent
    assert agent is not None
    (session,) = agent.sessions
    assert (session.submissions, session.accepted) == (1, 1)
    assert (session.turns, session.calls, session.answers) == (3, 4, 3)
    assert (session.end, session.end_message) == ("finished", "nothing is left to try")
    assert session.cost_usd == agent.cost_usd == Decimal("0.02")
    assert agent.budget_usd == Decimal(5)


def test_the_budget_is_that_of_the_latest_start(store: LineageStore) -> None:
    run_id = talks.begin_run(store)
    limits = {"process": {}, "budget_usd": Decimal("7.50"), "budget_tokens": None}
    store.append(run_id, "resumed", limits)
    with store.database.reading() as connection:
        agent = run_standing(connection, run_id).agent
    assert agent is not None
    assert agent.budget_usd == Decimal("7.50")


def test_a_run_of_the_search_has_no_agent(store: LineageStore) -> None:
    run_id = store.append("", "run", fakes.run_payload([talks.TASK]))
    with store.database.reading() as connection:
        assert run_standing(connection, run_id).agent is None


def test_decimals_are_kept_digit_for_digit() -> None:
    value = {"price": Decimal("0.10"), "much": Decimal("1E+2")}
    assert records.canonical(value) == '{"much":"100","price":"0.10"}'


def test_sessions_are_found_by_their_beginning(
    store: LineageStore, journal: LineageJournal
) -> None:
    first, second = talks.begin_run(store), talks.begin_run(store)
    journal.append(talks.start(first, "s0123456789a")).result()
    journal.append(talks.start(first, "s0ff")).result()
    for run_id in (first, second):
        journal.append(talks.sent(run_id, None, b"{}", session_id="Their Talk")).result()
    with store.database.reading() as connection:
        assert queries.find_session(connection, "s01") == ("s0123456789a", first)
        assert queries.find_session(connection, "Their") == ("Their Talk", second)
        assert queries.find_session(connection, "Their", first) == ("Their Talk", first)
        with pytest.raises(InputError, match="session 's0' is ambiguous"):
            queries.find_session(connection, "s0")
        with pytest.raises(InputError, match="no session 's9'"):
            queries.find_session(connection, "s9")


def test_a_call_that_names_another_runs_session_does_not_bring_it_along(
    store: LineageStore, journal: LineageJournal
) -> None:
    """A resumed run would go on with it."""
    owner, other = talks.begin_run(store), talks.begin_run(store)
    journal.append(talks.start(owner)).result()
    journal.append(talks.sent(other, None, b"{}")).result()
    assert [each.start for each in journal.sessions(other)] == [None]
    assert [each.start and each.start.run_id for each in journal.sessions(owner)] == [owner]


# ------------------------------------------------------------------------------- later edits


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "kept.db"
    store = open_store(path)
    journal = open_journal(path)
    talks.record_story(store, journal)
    journal.close()
    store.close()
    return path


def edit(path: Path, statement: str) -> None:
    plain = sqlite3.connect(path)
    changed = plain.execute(statement).rowcount
    plain.commit()
    plain.close()
    assert changed == 1


@pytest.mark.parametrize("table", TABLES)
def test_a_deleted_row_is_named(recorded: Path, table: str) -> None:
    assert report(recorded).findings == ()
    edit(recorded, f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")
    assert (table, "deleted") in {(each.table, each.problem) for each in report(recorded).findings}


@pytest.mark.parametrize("table", TABLES)
def test_any_edited_column_is_named(recorded: Path, table: str) -> None:
    plain = sqlite3.connect(recorded)
    columns = [row[1] for row in plain.execute(f"PRAGMA table_info({table})")]
    plain.close()
    kept = recorded.read_bytes()
    for column in columns:
        recorded.write_bytes(kept)
        where = f"rowid = (SELECT max(rowid) FROM {table})"
        edit(recorded, f"UPDATE {table} SET {column} = '77' WHERE {where}")
        assert table in {each.table for each in report(recorded).findings}, column


def test_a_call_slipped_in_is_named(recorded: Path) -> None:
    columns = ", ".join(column.name for column in models.ModelCall.__table__.columns)
    values = columns.replace("id,", "'x',", 1)
    edit(recorded, f"INSERT INTO model_calls ({columns}) SELECT {values} FROM model_calls LIMIT 1")
    assert "model_calls x: no step recorded it" in [
        each.line() for each in report(recorded).findings
    ]


# -------------------------------------------------------------------------- databases from before


def make_first_schema(path: Path) -> tuple[str, str]:
    """A database as the version before conversations made it: (run, head of its chain)."""
    store = open_store(path)
    run_id = store.append("", "run", fakes.run_payload([talks.TASK]))
    candidate = fakes.make_candidate("# old\n", parents=(talks.SEED.id,))
    facts = {"seconds": 1.0, "elapsed_s": 1.0, "gain_vs_seed": 1.05}
    verdict = fakes.make_verdict(candidate, against=talks.SEED.id)
    store.append(run_id, "candidate", {"candidate": candidate, "normal_hash": "n"})
    store.append(run_id, "verdict", {"verdict": verdict, **facts})
    head = intact(store).head
    store.close()
    plain = sqlite3.connect(path)
    for table in (*TABLES, "reviews", "exports"):
        plain.execute(f"DROP TABLE {table}")
    plain.execute("UPDATE alembic_version SET version_num = '0001'")
    plain.commit()
    plain.close()
    return run_id, head


def tables(path: Path) -> set[str]:
    plain = sqlite3.connect(path)
    found = {row[0] for row in plain.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    plain.close()
    return found


def test_a_database_of_the_first_schema_is_upgraded_and_keeps_its_chain(path: Path) -> None:
    run_id, head = make_first_schema(path)
    assert not set(TABLES) & tables(path)
    with pytest.raises(DatabaseError, match="has schema 0001, this version reads 0002") as caught:
        open_for_reading(path)
    assert "`kernelsmith run` or `resume` on it upgrades it" in str(caught.value.hint)
    store = open_existing(path)  # as `resume` does
    (past,) = store.history(run_id, "toy")
    assert (past.candidate.origin, past.check, past.status) == ("", "", "ACCEPTED")
    assert past.gain == fakes.make_gain(1.05, talks.SEED.id)
    journal = open_journal(path)
    journal.append(talks.start(run_id)).result()
    call = journal.append(talks.sent(run_id, 0, talks.body([talks.OPENING]))).result()
    journal.append(talks.answered(call, b"{}")).result()
    journal.close()
    store.close()
    assert set(TABLES) <= tables(path)
    found = report(path, head)
    assert (found.findings, found.steps) == ((), 6)


def test_duplicates_recorded_before_origins_were_kept_are_still_read(
    store: LineageStore, path: Path
) -> None:
    run_id = talks.begin_run(store)
    candidate = fakes.make_candidate("# again\n", parents=(talks.SEED.id,))
    store.append(run_id, "duplicate", {"candidate": candidate, "of": "x", "elapsed_s": 1.0})
    plain = sqlite3.connect(path)
    (text,) = plain.execute("SELECT payload FROM events WHERE kind = 'duplicate'").fetchone()
    payload = json.loads(text)
    del payload["dropped"]["origin"]
    plain.execute("UPDATE events SET payload = ? WHERE kind = 'duplicate'", (json.dumps(payload),))
    plain.commit()
    plain.close()
    assert [each.candidate for each in store.history(run_id, "toy")] == [candidate]
