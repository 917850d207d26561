"""The queries of ``runs``, ``show`` and ``diff`` are answered by indexes, however many rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from kernelsmith.lineage import (
    conversations,
    histories,
    queries,
    review_queue,
    reviews,
    spending,
    standings,
)
from kernelsmith.lineage.journal import open_journal
from kernelsmith.lineage.store import open_store
from kernelsmith.lineage.verdicts import accepted, candidate_record, newest
from tests.lineage import talks
from tests.loop import fakes

BIG = (
    *("candidates", "verdicts", "checks", "parents", "blobs", "events", "timing_sessions"),
    *("sessions", "model_calls", "model_answers", "tool_results", "session_ends", "submissions"),
    *("reviews", "exports", "retimings"),
)


def runs(connection: Any, run_id: str, name: str) -> None:
    assert queries.run_ids(connection) == [run_id]
    standings.run_standing(connection, run_id)


def show(connection: Any, run_id: str, name: str) -> None:
    candidate_record(connection, queries.find_candidate(connection, name[:7]))
    queries.find_candidate(connection, "latest")


def show_run(connection: Any, run_id: str, name: str) -> None:
    newest(connection, run_id, 20)
    accepted(connection, run_id)


def diff(connection: Any, run_id: str, name: str) -> None:
    record = queries.find_candidate(connection, name)
    queries.load_candidate(connection, queries.seed_record(connection, record))
    queries.parent_records(connection, record)


def show_session(connection: Any, run_id: str, name: str) -> None:
    found = queries.find_session(connection, talks.SESSION[:4])
    conversations.session(connection, *found)
    spending.brief(connection, run_id, talks.SESSION, {})
    spending.submissions(connection, talks.SESSION)


def resume(connection: Any, run_id: str, name: str) -> None:
    conversations.sessions(connection, run_id)
    conversations.resumable(connection, run_id)
    conversations.usage_of_run(connection, run_id)
    conversations.kept_request(connection, run_id, talks.SESSION)
    histories.history(connection, run_id, "toy")


def review(connection: Any, run_id: str, name: str) -> None:
    item, *_ = review_queue.accepted_items(connection, run_id)
    assert review_queue.item_of(connection, item.record) == item
    review_queue.exports_of(connection, item.record)
    reviews.approved(connection, run_id)
    standings.confirms_by_hand(connection, "toy")
    standings.before(connection, item.run_id)


@pytest.mark.parametrize("command", [runs, show, show_run, show_session, resume, diff, review])
def test_no_query_of_a_command_scans_a_table_that_grows(
    tmp_path: Path, command: Callable[[Any, str, str], None]
) -> None:
    store = open_store(tmp_path / "runs.db")
    task = fakes.make_task()
    journal = open_journal(tmp_path / "runs.db")
    run_id = talks.record_story(store, journal)
    journal.close()
    candidate = fakes.make_candidate("# faster\n", parents=(fakes.seed_of(task).id,))
    store.append(run_id, "candidate", {"candidate": candidate, "normal_hash": "0"})
    facts = {"seconds": 1.0, "elapsed_s": 1.0, "gain_vs_seed": 1.05}
    store.append(run_id, "verdict", {"verdict": fakes.make_verdict(candidate), **facts})
    asked: list[tuple[str, Any]] = []
    engine = store.database.connection.engine

    def remember(_c: Any, _cursor: Any, text: str, values: Any, _x: Any, _many: bool) -> None:
        asked.append((text, values))

    event.listen(engine, "before_cursor_execute", remember)
    with store.database.reading() as connection:
        command(connection, run_id, candidate.id)
    event.remove(engine, "before_cursor_execute", remember)
    driver = store.database.connection.connection.driver_connection
    assert driver is not None
    plans = [
        (row[3], text)
        for text, values in asked
        if text.startswith("SELECT")
        for row in driver.execute(f"EXPLAIN QUERY PLAN {text}", values)
    ]
    store.close()
    assert plans
    scans = [(plan, text) for plan, text in plans if plan.startswith("SCAN")]
    assert not [found for found in scans if found[0].split()[1] in BIG]
