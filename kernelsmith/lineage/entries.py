"""What each journal entry writes: one step an entry, inside the journal's transaction."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select
from sqlalchemy.orm import InstrumentedAttribute

from kernelsmith.errors import DatabaseError, EvidenceError
from kernelsmith.lineage import manifests, records
from kernelsmith.lineage.conversations import kept_request
from kernelsmith.lineage.models import (
    ModelAnswer,
    ModelCall,
    SessionEndRow,
    SessionRow,
    ToolResult,
)
from kernelsmith.lineage.step import StepWriter
from kernelsmith.lineage.writers import write_event
from kernelsmith.model import (
    CallAnswered,
    CallSent,
    CallStalled,
    JournalEntry,
    SessionEnd,
    SessionStart,
    ToolDone,
)

MAX_REMEMBERED_BYTES = 64 << 20
_CREDENTIAL = re.compile(r"auth|api[-_]?key|cookie|secret|credential|passw", re.IGNORECASE)
_KEY = re.compile(r"^bearer\s|\bsk-ant-[a-z0-9_-]{12,}", re.IGNORECASE)


def require_no_credentials(sent: CallSent) -> None:
    """Whoever records a request has left credentials out; this is the second look.

    Raises:
        EvidenceError: a header's name or value is one. Nothing of it is in the message.
    """
    for name, value in sent.headers:
        if _CREDENTIAL.search(name) or _KEY.search(value):
            raise EvidenceError(
                f"a request of session {sent.session_id} came with the credential header "
                f"{name.lower()!r}: it was not recorded",
                hint="this is a fault of kernelsmith: credentials belong in no record",
            )


@dataclass(slots=True)
class Remembered:
    """The newest request of each conversation that this process wrote, so that the next one is
    cut without reading; the oldest are forgotten when they take too much memory."""

    kept: "OrderedDict[tuple[str, str], manifests.KeptRequest]" = field(default_factory=OrderedDict)
    nbytes: int = 0

    def put(self, name: tuple[str, str], request: manifests.KeptRequest) -> None:
        old = self.kept.pop(name, None)
        self.nbytes += len(request.body) - (len(old.body) if old else 0)
        self.kept[name] = request
        while self.nbytes > MAX_REMEMBERED_BYTES:
            _, forgotten = self.kept.popitem(last=False)
            self.nbytes -= len(forgotten.body)


@dataclass(slots=True, kw_only=True)
class Batch:
    """Entries of one transaction. ``fresh``: requests that are remembered once it is durable."""

    connection: Connection
    remembered: Remembered
    fresh: dict[tuple[str, str], manifests.KeptRequest] = field(default_factory=dict)

    def write(self, entry: JournalEntry) -> str:
        """One entry as one step.

        Returns:
            A call's id for a call, its stall and its answer, "SESSION/TOOL_USE_ID" for a tool's
            result, the session's id for a session's begin and end.

        Raises:
            DatabaseError: it refers to what is not on record, or is on record already.
        """
        match entry:
            case SessionStart():
                return self._start(entry)
            case CallSent():
                return self._sent(entry)
            case CallStalled():
                return self._stalled(entry)
            case CallAnswered():
                return self._answered(entry)
            case ToolDone():
                return self._done(entry)
            case SessionEnd():
                return self._end(entry)

    def _start(self, start: SessionStart) -> str:
        writer = StepWriter(connection=self.connection, kind="session", run_id=start.run_id)
        writer.add(
            SessionRow,
            {
                "id": start.id,
                "step": writer.seq,
                "run_id": start.run_id,
                "task": start.task,
                "ordinal": start.ordinal,
                "parent": start.parent,
                "model": _text(start.model),
                "prompt": start.prompt,
                "prefix": writer.add_blob(start.prefix),
                "opening": writer.add_blob(start.opening),
                "facts": records.canonical(start.facts),
                "started_at": writer.at,
            },
        )
        writer.finish()
        return start.id

    def _sent(self, sent: CallSent) -> str:
        writer = StepWriter(connection=self.connection, kind="call", run_id=sent.run_id)
        name = (sent.run_id, sent.session_id)
        segments, tail = manifests.plan(self._previous(name), sent.request)
        if tail:
            segments = (*segments, (writer.add_blob(tail), 0, len(tail)))
        identity = writer.identity()
        writer.add(
            ModelCall,
            {
                "id": identity,
                "step": writer.seq,
                "run_id": sent.run_id,
                "session_id": sent.session_id,
                "turn": sent.turn,
                "attempt": sent.attempt,
                "method": sent.method,
                "path": _text(sent.path),
                "headers": _pairs(sent.headers),
                "dropped": records.canonical(sent.dropped),
                "manifest": records.canonical(segments),
                "request_sha256": records.sha256(sent.request),
                "request_bytes": len(sent.request),
                "sent_at": writer.at,
            },
        )
        writer.finish()
        self.fresh[name] = manifests.KeptRequest(body=sent.request, segments=segments)
        return identity

    def _stalled(self, stalled: CallStalled) -> str:
        writer = StepWriter(connection=self.connection, kind="call_stalled", run_id=stalled.run_id)
        payload = {"call": stalled.call_id, "seconds": round(stalled.seconds, 3)}
        write_event(writer, "call_stalled", payload)
        writer.finish()
        return stalled.call_id

    def _answered(self, answered: CallAnswered) -> str:
        run_id = self._run_of(ModelCall.run_id, ModelCall.id, answered.call_id, "call")
        writer = StepWriter(connection=self.connection, kind="answer", run_id=run_id)
        usage = answered.usage
        writer.add(
            ModelAnswer,
            {
                "call_id": answered.call_id,
                "step": writer.seq,
                "status": answered.status,
                "headers": _pairs(answered.headers),
                "body": writer.add_blob(answered.body),
                "complete": int(answered.complete),
                "delivered_bytes": answered.delivered_bytes,
                "error": _text(answered.error),
                "first_byte_s": answered.first_byte_s,
                "seconds": float(answered.seconds),
                "message_id": _text(answered.message_id),
                "model": _text(answered.model),
                "stop_reason": _text(answered.stop_reason),
                "input_tokens": usage.input,
                "output_tokens": usage.output,
                "cache_read_tokens": usage.cache_read,
                "cache_write_5m_tokens": usage.cache_write_5m,
                "cache_write_1h_tokens": usage.cache_write_1h,
                "answered_at": writer.at,
            },
        )
        writer.finish()
        return answered.call_id

    def _done(self, done: ToolDone) -> str:
        run_id = self._run_of(SessionRow.run_id, SessionRow.id, done.session_id, "session")
        writer = StepWriter(connection=self.connection, kind="tool_result", run_id=run_id)
        writer.add(
            ToolResult,
            {
                "session_id": done.session_id,
                "turn": done.turn,
                "ordinal": done.ordinal,
                "step": writer.seq,
                "tool_use_id": _text(done.tool_use_id),
                "name": _text(done.name),
                "text": writer.add_blob(done.text.encode("utf-8", "surrogatepass")),
                "is_error": int(done.is_error),
                "seconds": float(done.seconds),
                "facts": records.canonical(done.facts),
                "done_at": writer.at,
            },
        )
        writer.finish()
        return f"{done.session_id}/{done.tool_use_id}"

    def _end(self, end: SessionEnd) -> str:
        run_id = self._run_of(SessionRow.run_id, SessionRow.id, end.session_id, "session")
        writer = StepWriter(connection=self.connection, kind="session_end", run_id=run_id)
        writer.add(
            SessionEndRow,
            {
                "session_id": end.session_id,
                "step": writer.seq,
                "reason": _text(end.reason),
                "message": _text(end.message),
                "ended_at": writer.at,
            },
        )
        writer.finish()
        return end.session_id

    def _previous(self, name: tuple[str, str]) -> manifests.KeptRequest | None:
        found = self.fresh.get(name) or self.remembered.kept.get(name)
        if found is not None:
            return found
        try:
            return kept_request(self.connection, *name)
        except DatabaseError:  # damaged before: the new one is kept whole
            return None

    def _run_of(
        self,
        run_column: InstrumentedAttribute[str],
        column: InstrumentedAttribute[str],
        identity: str,
        what: str,
    ) -> str:
        run_id = self.connection.execute(select(run_column).where(column == identity)).scalar()
        if run_id is None:
            raise DatabaseError(
                f"{what} {identity} is not on record", hint="`kernelsmith lineage verify` checks"
            )
        return run_id


def _pairs(headers: Sequence[tuple[str, str]]) -> str:
    return records.canonical([list(pair) for pair in headers])


def _text(text: str) -> str:
    """``text`` as SQLite can hold it: lone surrogates as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
