"""Conversations read back: whole, for a resumed run; in brief, for people; what they cost."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, func, select

from kernelsmith.lineage import manifests, records
from kernelsmith.lineage.models import (
    Blob,
    ModelAnswer,
    ModelCall,
    SessionEndRow,
    SessionRow,
    ToolResult,
)
from kernelsmith.model import (
    CallAnswered,
    CallRecord,
    CallSent,
    SessionEnd,
    SessionRecord,
    SessionStart,
    ToolDone,
    Usage,
)

Row = Mapping[Any, Any]


def sessions(connection: Connection, run_id: str) -> list[SessionRecord]:
    """All conversations of a run in order of their beginning, foreign clients' too.

    Raises:
        DatabaseError: a request or a blob is not as it was recorded.
    """
    return [session(connection, name, run_id) for name in session_ids(connection, run_id)]


def resumable(connection: Connection, run_id: str) -> list[SessionRecord]:
    """What a resumed run needs of its own conversations, in order of their beginning: whole those
    that go on, of the others how they began and ended. A long night's calls are hundreds of MB.

    Raises:
        DatabaseError: a request or a blob is not as it was recorded.
    """
    blob = blobs(connection)
    rows = connection.execute(
        select(SessionRow).where(SessionRow.run_id == run_id).order_by(SessionRow.step)
    )
    found = []
    for row in rows.mappings().all():
        end = _ended(connection, row["id"])
        found.append(
            session(connection, row["id"], run_id)
            if end is None
            else SessionRecord(id=row["id"], start=_start(row, blob), calls=(), results=(), end=end)
        )
    return found


def session_ids(connection: Connection, run_id: str) -> list[str]:
    """Ids of a run's conversations in order of their beginning."""
    own = connection.execute(
        select(SessionRow.id, SessionRow.step).where(SessionRow.run_id == run_id)
    )
    called = connection.execute(
        select(ModelCall.session_id, func.min(ModelCall.step))
        .where(ModelCall.run_id == run_id)
        .group_by(ModelCall.session_id)
    )
    began = {row[0]: row[1] for row in (*called, *own)}  # an own one begins before its calls
    return sorted(began, key=lambda name: began[name])


def session(connection: Connection, session_id: str, run_id: str) -> SessionRecord:
    """One conversation, whole.

    Raises:
        DatabaseError: a request or a blob is not as it was recorded.
    """
    blob = blobs(connection)
    started = _one(
        connection,
        select(SessionRow).where(SessionRow.id == session_id, SessionRow.run_id == run_id),
    )
    return SessionRecord(
        id=session_id,
        start=None if started is None else _start(started, blob),
        calls=tuple(_calls(connection, session_id, run_id, blob)),
        results=tuple(_results(connection, session_id, blob)),
        end=_ended(connection, session_id),
    )


def kept_request(
    connection: Connection, run_id: str, session_id: str
) -> manifests.KeptRequest | None:
    """The newest request of a conversation; before the first, the beginning they will share.

    Raises:
        DatabaseError: it is not as it was recorded.
    """
    blob = blobs(connection)
    call = _one(
        connection,
        select(ModelCall)
        .where(ModelCall.session_id == session_id, ModelCall.run_id == run_id)
        .order_by(ModelCall.step.desc())
        .limit(1),
    )
    if call is not None:
        segments = tuple((n, a, b) for n, a, b in json.loads(call["manifest"]))
        return manifests.KeptRequest(
            body=manifests.reassemble(segments, call["request_sha256"], call["id"], blob),
            segments=segments,
        )
    row = _one(connection, select(SessionRow).where(SessionRow.id == session_id))
    if row is None:
        return None
    parts = [(row[name], blob(row[name])) for name in ("prefix", "opening")]
    return manifests.KeptRequest(
        body=b"".join(data for _, data in parts),
        segments=tuple((name, 0, len(data)) for name, data in parts),
    )


def blobs(connection: Connection) -> Callable[[str], bytes]:
    """Reads blobs, each once.

    Raises:
        DatabaseError: one is damaged or missing (on calling).
    """
    read: dict[str, bytes] = {}

    def blob(name: str) -> bytes:
        if name not in read:
            packed = connection.execute(select(Blob.zstd).where(Blob.hash == name)).scalar()
            read[name] = records.decompress(packed or b"")
        return read[name]

    return blob


def usage_of_run(connection: Connection, run_id: str) -> list[Usage]:
    """Tokens of every recorded answer of a run, in order, foreign clients' too."""
    rows = connection.execute(
        select(ModelAnswer)
        .join(ModelCall, ModelCall.id == ModelAnswer.call_id)
        .where(ModelCall.run_id == run_id)
        .order_by(ModelAnswer.step)
    ).mappings()
    return [usage_of(row) for row in rows]


def usage_of(row: Row) -> Usage:
    """Tokens of a row of ``model_answers``."""
    return Usage(
        input=row["input_tokens"],
        output=row["output_tokens"],
        cache_read=row["cache_read_tokens"],
        cache_write_5m=row["cache_write_5m_tokens"],
        cache_write_1h=row["cache_write_1h_tokens"],
    )


def _one(connection: Connection, query: Any) -> Row | None:
    return connection.execute(query).mappings().first()


def _ended(connection: Connection, session_id: str) -> SessionEnd | None:
    row = _one(connection, select(SessionEndRow).where(SessionEndRow.session_id == session_id))
    if row is None:
        return None
    return SessionEnd(session_id=session_id, reason=row["reason"], message=row["message"])


def _start(row: Row, blob: Callable[[str], bytes]) -> SessionStart:
    return SessionStart(
        id=row["id"],
        run_id=row["run_id"],
        task=row["task"],
        ordinal=row["ordinal"],
        parent=row["parent"],
        model=row["model"],
        prompt=row["prompt"],
        prefix=blob(row["prefix"]),
        opening=blob(row["opening"]),
        facts=json.loads(row["facts"]),
    )


def _calls(
    connection: Connection, session_id: str, run_id: str, blob: Callable[[str], bytes]
) -> list[CallRecord]:
    calls = connection.execute(
        select(ModelCall)
        .where(ModelCall.session_id == session_id, ModelCall.run_id == run_id)
        .order_by(ModelCall.step)
    ).mappings()
    answers = connection.execute(
        select(ModelAnswer)
        .join(ModelCall, ModelCall.id == ModelAnswer.call_id)
        .where(ModelCall.session_id == session_id, ModelCall.run_id == run_id)
    ).mappings()
    by_call = {row["call_id"]: _answered(row, blob) for row in answers}
    return [
        CallRecord(id=row["id"], sent=_sent(row, blob), answer=by_call.get(row["id"]))
        for row in calls
    ]


def _sent(row: Row, blob: Callable[[str], bytes]) -> CallSent:
    segments = [(name, start, stop) for name, start, stop in json.loads(row["manifest"])]
    return CallSent(
        run_id=row["run_id"],
        session_id=row["session_id"],
        turn=row["turn"],
        attempt=row["attempt"],
        method=row["method"],
        path=row["path"],
        headers=_headers(row),
        dropped=tuple(json.loads(row["dropped"])),
        request=manifests.reassemble(segments, row["request_sha256"], row["id"], blob),
    )


def _answered(row: Row, blob: Callable[[str], bytes]) -> CallAnswered:
    return CallAnswered(
        call_id=row["call_id"],
        status=row["status"],
        headers=_headers(row),
        body=blob(row["body"]),
        complete=bool(row["complete"]),
        delivered_bytes=row["delivered_bytes"],
        error=row["error"],
        first_byte_s=row["first_byte_s"],
        seconds=row["seconds"],
        message_id=row["message_id"],
        model=row["model"],
        stop_reason=row["stop_reason"],
        usage=usage_of(row),
    )


def _headers(row: Row) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in json.loads(row["headers"]))


def _results(
    connection: Connection, session_id: str, blob: Callable[[str], bytes]
) -> list[ToolDone]:
    rows = connection.execute(
        select(ToolResult)
        .where(ToolResult.session_id == session_id)
        .order_by(ToolResult.turn, ToolResult.ordinal)
    ).mappings()
    return [
        ToolDone(
            session_id=session_id,
            turn=row["turn"],
            ordinal=row["ordinal"],
            tool_use_id=row["tool_use_id"],
            name=row["name"],
            text=blob(row["text"]).decode("utf-8", "surrogatepass"),
            is_error=bool(row["is_error"]),
            seconds=row["seconds"],
            facts=json.loads(row["facts"]),
        )
        for row in rows
    ]
