"""What the journal keeps: conversations exactly, every byte about once, credentials never."""

import sqlite3
from pathlib import Path

import pytest

from kernelsmith.errors import DatabaseError, EvidenceError
from kernelsmith.lineage.journal import LineageJournal, open_journal
from kernelsmith.lineage.store import LineageStore
from kernelsmith.lineage.verify import verify
from tests.lineage import talks
from tests.lineage.asking import counted, counted_bytes, intact

# ---------------------------------------------------------------------------- what is recorded


def test_a_conversation_comes_back_as_it_was_given(
    store: LineageStore, journal: LineageJournal
) -> None:
    run_id = talks.begin_run(store)
    start = talks.start(run_id)
    requests = [talks.body([talks.OPENING]), talks.body([talks.OPENING, b'{"odd":"\xff\x00"}'])]
    assert journal.append(start).result() == talks.SESSION
    calls = [journal.append(talks.sent(run_id, n, r)).result() for n, r in enumerate(requests)]
    answer = talks.answered(calls[0], b"\x1f\x8b odd bytes", complete=False, error="reset")
    silent = talks.answered(calls[1], b"", status=None, headers=(), first_byte_s=None)
    results = [talks.done(0, n, f"toolu_{n}", f"text {n} \ud800") for n in (1, 0)]
    assert journal.append(answer).result() == calls[0]
    assert journal.append(silent).result() == calls[1]
    assert journal.append(results[0]).result() == f"{talks.SESSION}/toolu_1"
    journal.append(results[1]).result()
    assert journal.append(talks.end()).result() == talks.SESSION
    (found,) = journal.sessions(run_id)
    assert (found.id, found.start, found.end) == (talks.SESSION, start, talks.end())
    assert found.results == (results[1], results[0])
    assert [call.id for call in found.calls] == calls
    assert [call.sent for call in found.calls] == [
        talks.sent(run_id, n, r) for n, r in enumerate(requests)
    ]
    assert [call.answer for call in found.calls] == [answer, silent]
    intact(store)


def test_sessions_come_in_the_order_of_their_beginning_foreign_ones_too(
    store: LineageStore, journal: LineageJournal
) -> None:
    run_id = talks.begin_run(store)
    journal.append(talks.start(run_id, "s00000000002")).result()
    journal.append(talks.sent(run_id, None, b"{}", session_id="A client's")).result()
    journal.append(talks.sent("no-run", None, b"{}", session_id="elsewhere")).result()
    journal.append(talks.start(run_id, "s00000000001", ordinal=1)).result()
    journal.append(talks.sent(run_id, 0, b"{}", session_id="s00000000002")).result()
    found = journal.sessions(run_id)
    assert [each.id for each in found] == ["s00000000002", "A client's", "s00000000001"]
    assert [(each.start is None, len(each.calls)) for each in found] == [
        (False, 1),
        (True, 1),
        (False, 0),
    ]
    assert [each.id for each in journal.sessions("no-run")] == ["elsewhere"]


def test_texts_that_sqlite_cannot_hold_do_not_lose_an_answer(
    store: LineageStore, journal: LineageJournal
) -> None:
    run_id = talks.begin_run(store)
    call = journal.append(talks.sent(run_id, None, b"{}")).result()
    journal.append(talks.answered(call, b"body", message_id="\ud800", model="\x00")).result()
    (answer,) = [each.answer for each in journal.sessions(run_id)[0].calls]
    assert answer is not None
    assert (answer.message_id, answer.model, answer.body) == ("\\ud800", "\x00", b"body")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Basic abc"),
        ("x-api-key", "abc"),
        ("Cookie", "a=b"),
        ("proxy-authorization", "abc"),
        ("anthropic-auth-token", "abc"),
        ("x-anthropic-api-key", "abc"),
        ("x-note", "Bearer abc"),
        ("x-note", "a sk-ant-api03-abcdefghijkl"),
    ],
)
def test_a_request_with_a_credential_is_refused_and_leaves_no_trace(
    store: LineageStore, journal: LineageJournal, path: Path, name: str, value: str
) -> None:
    run_id = talks.begin_run(store)
    with pytest.raises(EvidenceError) as caught:
        journal.append(talks.sent(run_id, 0, b"{}", headers=(("accept", "*"), (name, value))))
    assert value not in caught.value.message
    assert counted(path, "model_calls") == 0


def test_headers_of_the_client_itself_are_no_credentials(
    store: LineageStore, journal: LineageJournal
) -> None:
    names = ("anthropic-version", "anthropic-beta", "x-stainless-retry-count", "user-agent")
    headers = tuple((name, "1") for name in names)
    run_id = talks.begin_run(store)
    journal.append(talks.sent(run_id, 0, b"{}", headers=headers)).result()
    assert journal.sessions(run_id)[0].calls[0].sent.headers == headers


# ------------------------------------------------------------------------- every byte about once


def test_a_long_conversation_is_stored_about_once(
    store: LineageStore, journal: LineageJournal, path: Path
) -> None:
    run_id = talks.begin_run(store)
    before = counted_bytes(path)
    journal.append(talks.start(run_id)).result()
    bodies = talks.long_talk(50)
    for turn, request in enumerate(bodies):
        for attempt in range(2):  # a retry sends the same bytes again
            journal.append(talks.sent(run_id, turn, request, attempt=attempt)).result()
    sent_bytes = 2 * sum(map(len, bodies))
    kept_bytes = counted_bytes(path) - before
    assert sent_bytes > 40 * len(bodies[-1])
    assert kept_bytes <= len(bodies[-1]) + 2 * len(bodies)
    assert [call.sent.request for call in journal.sessions(run_id)[0].calls[::2]] == bodies


def test_a_resumed_conversation_goes_on_from_the_bytes_on_record(
    store: LineageStore, path: Path
) -> None:
    run_id = talks.begin_run(store)
    before = counted_bytes(path)
    bodies = talks.long_talk(6)
    for turn, request in enumerate(bodies):
        journal = open_journal(path)
        journal.append(talks.sent(run_id, turn, request)).result()
        journal.close()
    assert counted_bytes(path) - before <= len(bodies[-1]) + 2 * len(bodies)
    found = open_journal(path)
    assert [call.sent.request for call in found.sessions(run_id)[0].calls] == bodies
    found.close()


def test_a_request_whose_pieces_were_changed_is_refused_and_the_next_is_kept_whole(
    store: LineageStore, journal: LineageJournal, path: Path
) -> None:
    run_id = talks.begin_run(store)
    first, second, third = talks.long_talk(3)
    journal.append(talks.sent(run_id, 0, first)).result()
    journal.append(talks.sent(run_id, 1, second)).result()
    journal.close()
    plain = sqlite3.connect(path)
    (text,) = plain.execute("SELECT manifest FROM model_calls WHERE turn = 1").fetchone()
    moved = text.replace(",0,", ",1,", 1)
    assert moved != text
    plain.execute("UPDATE model_calls SET manifest = ? WHERE turn = 1", (moved,))
    plain.commit()
    plain.close()
    again = open_journal(path)
    with pytest.raises(DatabaseError, match="does not have its hash"):
        again.sessions(run_id)
    again.append(talks.sent(run_id, 2, third)).result()
    again.close()
    plain = sqlite3.connect(path)
    (text,) = plain.execute("SELECT manifest FROM model_calls WHERE turn = 2").fetchone()
    plain.close()
    assert f",0,{len(third)}]" in text
    with store.database.reading() as connection:
        problems = {each.problem for each in verify(connection).findings}
    assert problems == {"edited", "its request's pieces do not have its hash"}
