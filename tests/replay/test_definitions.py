"""A task's definition goes on record with its run and comes back the same task."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelsmith import catalog, continuity
from kernelsmith.errors import DatabaseError, InputError, TaskError
from kernelsmith.lineage import queries, records
from kernelsmith.lineage.definitions import definition, task_of
from kernelsmith.lineage.store import LineageStore, open_store
from kernelsmith.model import Task
from tests.loop import fakes


def shipped() -> Iterator[Task]:
    for name in catalog.tasks():
        for device in ("cpu", "cuda"):
            try:
                yield catalog.load_task(name, device)
            except TaskError:
                continue


def test_every_shipped_task_comes_back_equal() -> None:
    tasks = list(shipped())
    assert tasks
    for task in tasks:
        text = records.canonical(task)
        back = task_of(json.loads(text))
        assert back == task
        assert records.canonical(back) == text


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LineageStore]:
    opened = open_store(tmp_path / "runs.db")
    yield opened
    opened.close()


def test_a_run_keeps_its_definitions_beside_small_options(store: LineageStore) -> None:
    task = catalog.load_task("rms_norm", "cpu")
    run_id = store.append("", "run", fakes.run_payload([task], definitions=[task]))
    with store.database.reading() as connection:
        options = queries.run_row(connection, run_id)["options"]
        assert definition(connection, options, "rms_norm") == task
        assert definition(connection, options, "other") is None
    assert len(json.dumps(options)) < 500


def test_a_run_without_definitions_has_none(store: LineageStore) -> None:
    task = fakes.make_task()
    run_id = store.append("", "run", fakes.run_payload([task]))
    with store.database.reading() as connection:
        options = queries.run_row(connection, run_id)["options"]
        assert "definitions" not in options
        assert definition(connection, options, "toy") is None


def test_what_is_no_definition_is_refused(store: LineageStore) -> None:
    with store.database.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO blobs VALUES ('b', 2, ?)", (records.compress(b"{}"),)
        )
    with store.database.reading() as connection:
        with pytest.raises(DatabaseError, match="none of this version's"):
            definition(connection, {"definitions": {"toy": "b"}}, "toy")
        with pytest.raises(DatabaseError, match="missing"):
            definition(connection, {"definitions": {"toy": "c"}}, "toy")


def test_a_run_goes_on_by_the_definition_it_began_with_only() -> None:
    task = fakes.make_task()
    told = replace(task, summary="other words", shipped=False)
    continuity.require_same_definitions((told,), {"toy": task})
    continuity.require_same_definitions((told,), {"toy": None})
    with pytest.raises(InputError, match="its min_gain"):
        continuity.require_same_definitions((replace(task, min_gain=0.5),), {"toy": task})
