"""A conversation with a model: what is recorded of it, byte for byte, and what it may cost.

A *session* is one conversation about one task. Its request bodies all begin with ``prefix`` and go
on with JSON fragments, one a message: ``prefix + b",".join(fragments) + b"]}"``. A *turn* is one
request and its answer; a *call* is one try of a turn (a turn that met a 529 has several).
Everything here is written once and never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kernelsmith.model.usage import Price, Usage

END_OF_BODY = b"]}"
# By these an answer of the rehearsal's server is known, whoever started it.
SCRIPTED_MODEL = "scripted-replies"
SCRIPTED_HEADER = "x-rehearsal"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How the agent talks to its model and when it stops. Recorded with the run; holds no key.

    ``thinking`` and ``effort``: passed on as they are, None leaves them to the server.
    ``budget_usd`` None: dollars are not limited; a model without a price needs that.
    ``sessions_max``: conversations in all; ``concurrency``: at once.
    ``stale_submissions``: a session ends after this many submissions in a row without a gain.
    ``rehearsal``: the server plays recorded replies; it is no model.
    """

    model: str
    max_tokens: int = 16_000
    thinking: str | None = None
    effort: str | None = None
    concurrency: int = 2
    sessions_max: int | None = None
    turns_max: int = 60
    stale_submissions: int = 4
    budget_usd: Decimal | None = Decimal(5)
    budget_tokens: int | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    rehearsal: bool = False

    @property
    def price(self) -> Price | None:
        """The price of the chosen model, if it is known."""
        return self.prices.get(self.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """A session begins. ``id`` is "s" and 11 hex digits. ``parent``: the candidate it is given to
    improve. ``prompt``: hash of the prompt files. ``opening``: the first user message."""

    id: str
    run_id: str
    task: str
    ordinal: int
    parent: str
    model: str
    prompt: str
    prefix: bytes
    opening: bytes
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSent:
    """A request is about to go out. ``session_id`` may name a session of a foreign client, which
    has no SessionStart. ``turn`` and ``attempt`` count from 0; None for foreign clients.
    ``headers``: as sent, without credentials; ``dropped``: names of those left out."""

    run_id: str
    session_id: str
    turn: int | None
    attempt: int | None
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    request: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStalled:
    """A call had waited for so many seconds before it went out, since its run was paused."""

    run_id: str
    call_id: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswered:
    """What came back for a call: ``body`` as received, still encoded. ``status`` None: no answer
    (``error`` says why). ``complete``: the server ended it properly; ``delivered_bytes``: how much
    of it the client was given."""

    call_id: str
    status: int | None
    headers: tuple[tuple[str, str], ...]
    body: bytes
    complete: bool
    delivered_bytes: int
    error: str
    first_byte_s: float | None
    seconds: float
    message_id: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDone:
    """A tool call's result, as it goes back to the model. ``facts``: JSON-able, for people."""

    session_id: str
    turn: int
    ordinal: int
    tool_use_id: str
    name: str
    text: str
    is_error: bool
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """A session ends for good; one without an end goes on when its run is resumed."""

    session_id: str
    reason: str
    message: str = ""


JournalEntry = SessionStart | CallSent | CallStalled | CallAnswered | ToolDone | SessionEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A call as recorded; ``answer`` None: it was sent, nothing is known to have come back."""

    id: str
    sent: CallSent
    answer: CallAnswered | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session as recorded, calls and results in order. ``start`` None: a foreign client's."""

    id: str
    start: SessionStart | None
    calls: tuple[CallRecord, ...]
    results: tuple[ToolDone, ...]
    end: SessionEnd | None
