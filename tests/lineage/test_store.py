"""What the store keeps: everything of a verdict, once, in a chain that later edits break."""

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith.errors import DatabaseError, EvidenceError, InfrastructureError, InputError
from kernelsmith.lineage import database, queries, records, standings
from kernelsmith.lineage.store import LineageStore, open_store
from kernelsmith.lineage.verdicts import candidate_record, raw_sessions
from kernelsmith.lineage.verify import Report, verify
from kernelsmith.model import Candidate
from tests.loop import fakes

TASK = fakes.make_task()
SEED = fakes.seed_of(TASK)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LineageStore]:
    opened = open_store(tmp_path / "runs.db")
    yield opened
    opened.close()


def add(store: LineageStore, run_id: str, candidate: Candidate, status: str = "ACCEPTED") -> str:
    payload = {"candidate": candidate, "normal_hash": fakes.normal_hash(candidate.source)}
    record = store.append(run_id, "candidate", payload)
    verdict = fakes.make_verdict(candidate, status, against=SEED.id)
    facts = {"seconds": 2.5, "elapsed_s": 10.0, "gain_vs_seed": 1.1}
    store.append(run_id, "verdict", {"verdict": verdict, **facts})
    return record


def begin(store: LineageStore) -> str:
    return store.append("", "run", fakes.run_payload([TASK]))


@pytest.mark.parametrize("status", ["ACCEPTED", "BITS_DIFFER", "POLICY"])
def test_a_verdict_comes_back_whole(store: LineageStore, status: str) -> None:
    run_id = begin(store)
    candidate = fakes.make_candidate("# faster\n", parents=(SEED.id,))
    record = add(store, run_id, candidate, status)
    sent = fakes.make_verdict(candidate, status, against=SEED.id)
    with store.database.reading() as connection:
        found = candidate_record(connection, record)
        assert found.verdict_id is not None
        samples = raw_sessions(connection, found.verdict_id)
    assert found.candidate == candidate
    assert found.verdict is not None
    assert records.plain(found.verdict) == records.plain(sent) | {"samples": []}
    assert samples == records.plain(sent.samples)
    assert (found.seconds, found.gain_vs_seed) == (2.5, 1.1)


def test_a_second_verdict_on_one_candidate_is_refused(store: LineageStore) -> None:
    run_id = begin(store)
    candidate = fakes.make_candidate("# faster\n", parents=(SEED.id,))
    add(store, run_id, candidate)
    again = {"verdict": fakes.make_verdict(candidate), "seconds": 1.0, "elapsed_s": 1.0}
    with pytest.raises(DatabaseError, match="already holds"):
        store.append(run_id, "verdict", {**again, "gain_vs_seed": None})
    with store.database.reading() as connection:
        assert verify(connection).findings == ()


def test_a_verdict_on_an_unknown_candidate_or_odd_evidence_records_nothing(
    store: LineageStore,
) -> None:
    run_id = begin(store)
    stray = fakes.make_verdict(fakes.make_candidate("# stray\n"))
    facts = {"seconds": 1.0, "elapsed_s": 1.0, "gain_vs_seed": None}
    with pytest.raises(InfrastructureError, match="never recorded"):
        store.append(run_id, "verdict", {"verdict": stray, **facts})
    with pytest.raises(EvidenceError, match="cannot be kept"):
        store.append(run_id, "note", {"text": object()})
    with store.database.reading() as connection:
        assert verify(connection).steps == 1


def test_a_candidates_id_must_be_the_hash_of_its_source(store: LineageStore) -> None:
    run_id = begin(store)
    good = fakes.make_candidate("# faster\n", parents=(SEED.id,))
    bad = Candidate(id="0" * 16, task="toy", source=good.source, parents=(), author="search")
    with pytest.raises(InfrastructureError, match="not the hash of its source"):
        store.append(run_id, "candidate", {"candidate": bad, "normal_hash": ""})


def test_equal_sources_are_kept_once(store: LineageStore) -> None:
    candidate = fakes.make_candidate("# faster\n", parents=(SEED.id,))
    for run_id in (begin(store), begin(store)):
        add(store, run_id, candidate, "POLICY")
    with store.database.reading() as connection:
        query = "SELECT count(*), count(DISTINCT source) FROM candidates"
        assert connection.exec_driver_sql(query).one() == (4, 2)


def test_prefixes_and_latest_name_one_thing_or_say_why_not(store: LineageStore) -> None:
    first, second = begin(store), begin(store)
    candidate = fakes.make_candidate("# faster\n", parents=(SEED.id,))
    old = add(store, first, candidate, "POLICY")
    new = add(store, second, candidate, "POLICY")
    with store.database.reading() as connection:
        assert queries.find_run(connection, "latest") == second
        assert queries.find_run(connection, first.upper()) == first
        assert queries.find_candidate(connection, candidate.id[:5]) == new
        assert queries.find_candidate(connection, candidate.id, first) == old
        assert queries.find_candidate(connection, "latest") == new
        with pytest.raises(InputError, match=r"'01' is ambiguous|'0' is ambiguous"):
            queries.find_run(connection, "0")
        with pytest.raises(InputError, match="no candidate 'zz'"):
            queries.find_candidate(connection, "zz")


def test_a_runs_secret_seed_is_kept_exactly(store: LineageStore) -> None:
    secret = (1 << 128) - 3
    run_id = store.append("", "run", fakes.run_payload([TASK], secret_seed=secret))
    with store.database.reading() as connection:
        assert int(queries.run_row(connection, run_id)["secret_seed"]) == secret


def test_a_stop_request_holds_until_the_run_is_resumed(store: LineageStore) -> None:
    run_id = begin(store)
    assert not store.stop_requested(run_id)
    store.append(run_id, "stop_requested", {})
    assert store.stop_requested(run_id)
    store.append(run_id, "resumed", {"process": {}})
    assert not store.stop_requested(run_id)


# ------------------------------------------------------------------------------- later edits


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "kept.db"
    store = open_store(path)
    run_id = begin(store)
    parent = SEED.id
    for number in range(4):
        candidate = fakes.make_candidate(f"# {number}\n", parents=(parent,))
        add(store, run_id, candidate, ("ACCEPTED", "BITS_DIFFER")[number % 2])
        parent = candidate.id
    gain, facts = fakes.make_gain(1.2, "seed"), {"evidence": {"sessions": [1]}, "elapsed_s": 20.0}
    winner = {"task": "toy", "candidate": parent, "holds": True, "gain": gain}
    store.append(run_id, "retiming", {**winner, **facts})
    store.append(run_id, "finished", {"reason": "time"})
    store.close()
    return path


def report(path: Path, head: str | None = None) -> Report:
    opened = database.open_for_reading(path)
    with opened.reading() as connection:
        found = verify(connection, head)
    opened.close()
    return found


def edit(path: Path, statement: str) -> None:
    plain = sqlite3.connect(path)
    changed = plain.execute(statement).rowcount
    plain.commit()
    plain.close()
    assert changed == 1


TABLES = (
    "runs",
    "run_tasks",
    "candidates",
    "parents",
    "verdicts",
    "checks",
    "timing_sessions",
    "retimings",
    "events",
    "blobs",
)


def test_an_untouched_record_is_intact(recorded: Path) -> None:
    found = report(recorded)
    assert found.findings == ()
    assert found.steps == 11
    assert report(recorded, found.head[:16]).findings == ()


@pytest.mark.parametrize("table", TABLES)
def test_a_deleted_row_is_named(recorded: Path, table: str) -> None:
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
        findings = report(recorded).findings
        assert table in {each.table for each in findings}, column


def test_a_row_slipped_in_is_named(recorded: Path) -> None:
    edit(
        recorded,
        "INSERT INTO events SELECT 'x', step, run_id, at, kind, task, elapsed_s, payload "
        "FROM events LIMIT 1",
    )
    assert [each.line() for each in report(recorded).findings] == ["events x: no step recorded it"]


@pytest.mark.parametrize("column", ["at", "kind", "run_id", "manifest", "digest"])
def test_an_edited_step_is_named(recorded: Path, column: str) -> None:
    value = "'[]'" if column == "manifest" else "'x'"
    edit(recorded, f"UPDATE steps SET {column} = {value} WHERE seq = 5")
    findings = report(recorded).findings
    assert any(each.table == "steps" and each.key[0] in (5, 6) for each in findings)


def test_a_deleted_step_is_named(recorded: Path) -> None:
    edit(recorded, "DELETE FROM steps WHERE seq = 5")
    assert "steps 5: steps 5 to 5 are missing" in [
        each.line() for each in report(recorded).findings
    ]


def test_cutting_off_the_end_shows_against_a_head_that_was_noted(recorded: Path) -> None:
    head = report(recorded).head
    edit(recorded, "DELETE FROM events WHERE kind = 'finished'")
    edit(recorded, "DELETE FROM steps WHERE seq = 11")
    assert report(recorded).findings == ()
    assert "cut off" in report(recorded, head).findings[0].problem


# ------------------------------------------------------------------------------------ records


def test_uuid7_sorts_by_time_and_says_its_version() -> None:
    made = [records.uuid7() for _ in range(50)]
    assert len(set(made)) == 50
    assert {each[14] for each in made} == {"7"}
    assert {each[19] for each in made} <= set("89ab")
    assert [each[:13] for each in made] == sorted(each[:13] for each in made)


def test_numbers_that_json_lacks_are_kept_as_words() -> None:
    value = {"gain": float("nan"), "high": float("inf"), "bits": b"\x80", "of": (1, 2.5)}
    text = records.canonical(value)
    assert text == '{"bits":"80","gain":"nan","high":"inf","of":[1,2.5]}'


def test_blobs_survive_compression() -> None:
    data = random.Random(0).randbytes(10_000)
    assert records.decompress(records.compress(data)) == data
    assert standings.LIFE[0] == "started"
