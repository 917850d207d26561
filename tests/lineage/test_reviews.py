"""Which decision stands, what may be approved, and that nobody edits it afterwards."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from kernelsmith.errors import InputError
from kernelsmith.lineage import review_queue, reviews
from kernelsmith.lineage.database import open_for_reading
from kernelsmith.lineage.store import LineageStore, open_store
from kernelsmith.lineage.verify import verify
from kernelsmith.model import Candidate
from tests.lineage.asking import intact
from tests.loop import fakes

TASK = fakes.make_task()
SEED = fakes.seed_of(TASK)


def begin(store: LineageStore) -> str:
    return store.append("", "run", fakes.run_payload([TASK]))


def add(store: LineageStore, run_id: str, source: str, parent: Candidate = SEED) -> tuple[str, str]:
    """(id, record) of an accepted candidate."""
    candidate = fakes.make_candidate(source, parents=(parent.id,))
    payload = {"candidate": candidate, "normal_hash": fakes.normal_hash(source)}
    record = store.append(run_id, "candidate", payload)
    facts = {"seconds": 2.5, "elapsed_s": 10.0, "gain_vs_seed": 1.1}
    store.append(run_id, "verdict", {"verdict": fakes.make_verdict(candidate), **facts})
    return candidate.id, record


def time_it(store: LineageStore, run_id: str, name: str, *, holds: bool = True) -> None:
    gain = fakes.make_gain(1.2 if holds else 0.98, SEED.id, 20)
    facts = {"holds": holds, "gain": gain, "evidence": {}, "elapsed_s": 11.0}
    store.append(run_id, "retiming", {"task": "toy", "candidate": name, **facts})


def decide(store: LineageStore, run_id: str, record: str, decision: str, note: str = "") -> str:
    said = {"record": record, "decision": decision, "reviewer": "Ada", "note": note}
    return store.append(run_id, "review", said)


def decision_of(store: LineageStore, record: str) -> str | None:
    with store.database.reading() as connection:
        found = reviews.standing(connection, record)
    return None if found is None else found.decision


def test_undo_restores_the_decision_before_and_then_that_it_waits(store: LineageStore) -> None:
    run_id = begin(store)
    name, record = add(store, run_id, "# faster\n")
    time_it(store, run_id, name)
    seen = []
    for decision in ("approve", "reject", "undo", "reject", "undo", "undo"):
        decide(store, run_id, record, decision, f"because {decision}")
        seen.append(decision_of(store, record))
    assert seen == ["approve", "reject", "approve", "reject", "approve", None]
    with pytest.raises(InputError, match="nothing to undo"):
        decide(store, run_id, record, "undo")
    with store.database.reading() as connection:
        rows = reviews.history(connection, record)
    assert [row["note"] for row in rows][:2] == ["because approve", "because reject"]
    intact(store)


def test_approved_lists_what_stands_approved_by_run_and_over_all(store: LineageStore) -> None:
    kept: list[tuple[str, str]] = []
    for number in range(2):
        run_id = begin(store)
        name, record = add(store, run_id, f"# faster {number}\n")
        time_it(store, run_id, name)
        decide(store, run_id, record, "approve")
        kept.append((run_id, record))
        other, rejected = add(store, run_id, f"# other {number}\n")
        time_it(store, run_id, other)
        decide(store, run_id, rejected, "approve")
        decide(store, run_id, rejected, "reject")
    with store.database.reading() as connection:
        assert reviews.approved(connection) == [record for _, record in kept]
        assert reviews.approved(connection, kept[1][0]) == [kept[1][1]]


def test_what_lacks_evidence_cannot_be_approved_whoever_asks(store: LineageStore) -> None:
    run_id = begin(store)
    name, record = add(store, run_id, "# faster\n")
    with pytest.raises(InputError, match="it was not timed against the seed"):
        decide(store, run_id, record, "approve")
    time_it(store, run_id, name, holds=False)
    with pytest.raises(InputError, match="not faster than the seed by the final timing"):
        decide(store, run_id, record, "approve")
    time_it(store, run_id, name)  # a later timing counts
    decide(store, run_id, record, "approve")
    waiting = fakes.make_candidate("# waits\n", parents=(SEED.id,))
    payload = {"candidate": waiting, "normal_hash": "0"}
    unjudged = store.append(run_id, "candidate", payload)
    with pytest.raises(InputError, match="has no verdict"):
        decide(store, run_id, unjudged, "approve")
    facts = {"seconds": 2.5, "elapsed_s": 10.0, "gain_vs_seed": None}
    verdict = fakes.make_verdict(waiting, "BITS_DIFFER")
    store.append(run_id, "verdict", {"verdict": verdict, **facts})
    with pytest.raises(InputError, match="its verdict is BITS_DIFFER"):
        decide(store, run_id, unjudged, "approve")
    decide(store, run_id, unjudged, "reject")  # a person may say so all the same
    assert decision_of(store, unjudged) == "reject"


def test_rejecting_an_ancestor_takes_support_from_descendants_until_they_are_timed_again(
    store: LineageStore,
) -> None:
    first = begin(store)
    old, old_record = add(store, first, "# one\n")
    parent = fakes.make_candidate("# one\n")
    run_id = begin(store)  # a later run that began from it
    name, record = add(store, run_id, "# two\n", parent)
    grandchild, grand_record = add(store, run_id, "# three\n", fakes.make_candidate("# two\n"))
    time_it(store, first, old)
    time_it(store, run_id, name)
    time_it(store, run_id, grandchild)
    decide(store, run_id, record, "approve")
    decide(store, first, old_record, "reject")

    def reason(each: str) -> str | None:
        with store.database.reading() as connection:
            return reviews.why_unsupported(connection, each)

    words = f"its ancestor {old} was rejected after it was timed against the seed"
    assert [reason(each) for each in (old_record, record, grand_record)] == [None, words, words]
    with pytest.raises(InputError, match="was rejected after"):
        decide(store, run_id, grand_record, "approve")
    time_it(store, run_id, grandchild)
    assert [reason(each) for each in (record, grand_record)] == [words, None]
    decide(store, first, old_record, "undo")
    assert reason(record) is None
    intact(store)


def test_where_the_newest_loses_its_final_timing_its_ancestor_stands(store: LineageStore) -> None:
    run_id = begin(store)
    first, _ = add(store, run_id, "# one\n")
    second, _ = add(store, run_id, "# two\n", fakes.make_candidate("# one\n"))
    third, _ = add(store, run_id, "# three\n", fakes.make_candidate("# two\n"))

    def places() -> list[tuple[str, str, str | None]]:
        with store.database.reading() as connection:
            found = review_queue.accepted_items(connection)
        return [(item.id, item.place, item.by) for item in found]

    waits = [(second, "superseded", third), (first, "superseded", third)]
    assert places() == [(third, "not timed", None), *waits]
    time_it(store, run_id, third, holds=False)
    time_it(store, run_id, second)
    assert places() == [
        (second, "stands", None),
        (third, "unsupported", None),
        (first, "superseded", second),
    ]


@pytest.mark.parametrize("table", ["reviews", "exports"])
@pytest.mark.parametrize("change", ["edited", "deleted", "dropped"])
def test_an_edit_behind_the_records_back_is_found(path: Path, table: str, change: str) -> None:
    store = open_store(path)
    run_id = begin(store)
    name, record = add(store, run_id, "# faster\n")
    time_it(store, run_id, name)
    decide(store, run_id, record, "reject")
    kept = {"record": record, "folder": "our_kernels", "certificate_hash": "0" * 64}
    store.append(run_id, "export", kept)
    intact(store)
    store.close()
    plain = sqlite3.connect(path)
    column = {"reviews": "decision", "exports": "folder"}[table]
    plain.execute(
        {
            "edited": f"UPDATE {table} SET {column} = 'approve'",
            "deleted": f"DELETE FROM {table}",
            "dropped": f"DROP TABLE {table}",
        }[change]
    )
    plain.commit()
    plain.close()
    opened = open_for_reading(path)
    with opened.reading() as connection:
        (found,) = verify(connection).findings
    opened.close()
    problem = "edited" if change == "edited" else "deleted"
    assert (found.table, found.problem) == (table, problem)


def test_a_file_of_the_schema_before_is_read_as_it_is_and_upgraded_by_a_writer(path: Path) -> None:
    store = open_store(path)
    run_id = begin(store)
    name, record = add(store, run_id, "# faster\n")
    time_it(store, run_id, name)
    store.close()
    plain = sqlite3.connect(path)
    plain.executescript(
        "DROP TABLE reviews; DROP TABLE exports; UPDATE alembic_version SET version_num = '0002'"
    )
    plain.close()
    opened = open_for_reading(path)
    with opened.reading() as connection:
        assert verify(connection).findings == ()
        assert reviews.approved(connection) == []
        assert reviews.standing(connection, record) is None
        assert reviews.why_not_approvable(connection, record) is None
    opened.close()
    again = open_store(path)
    decide(again, run_id, record, "approve")
    assert decision_of(again, record) == "approve"
    intact(again)
    again.close()


def test_a_timing_of_the_same_program_counts_in_its_own_epoch_alone(store: LineageStore) -> None:
    first = begin(store)
    _, record = add(store, first, "# faster\n")
    for epoch, supported in (("another", False), (fakes.make_verdict(SEED).epoch, True)):
        run_id = begin(store)
        candidate = fakes.make_candidate("# faster\n", parents=(SEED.id,))
        payload = {"candidate": candidate, "normal_hash": fakes.normal_hash("# faster\n")}
        store.append(run_id, "candidate", payload)
        facts = {"seconds": 2.5, "elapsed_s": 10.0, "gain_vs_seed": 1.1}
        verdict = replace(fakes.make_verdict(candidate), epoch=epoch)
        store.append(run_id, "verdict", {"verdict": verdict, **facts})
        time_it(store, run_id, candidate.id)
        with store.database.reading() as connection:
            assert (reviews.why_unsupported(connection, record) is None) is supported
