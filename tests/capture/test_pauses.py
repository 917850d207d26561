"""While its run is paused the proxy holds calls; those under way end, or are cut, on record."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import anthropic
import httpx2
import pytest

from kernelsmith.capture import Limits, running
from kernelsmith.capture.app import PAUSED, Proxy
from kernelsmith.model import CallAnswered, CallSent, CallStalled
from kernelsmith.pauses import Pauses
from tests.capture.parts import (
    LAST_CHUNK,
    PATIENCE_S,
    Line,
    MemoryJournal,
    RawUpstream,
    chunked,
    events,
    one,
    whole,
)

NOT_YET_S = 0.15
ANSWER = (chunked(), b"%x\r\n%b\r\n" % (len(events()), events()), LAST_CHUNK)


@dataclass
class Paused:
    """A proxy whose run is paused and thawed by the test."""

    base: str
    upstream: RawUpstream
    journal: MemoryJournal
    pauses: Pauses
    said: list[str] = field(default_factory=list)

    def in_thread(self, ask: object) -> "tuple[threading.Thread, list[object]]":
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(ask()))  # type: ignore[operator]
        thread.start()
        return thread, found


@pytest.fixture
def rig() -> Iterator[Paused]:
    journal, pauses, said = MemoryJournal(), Pauses(), []
    with (
        RawUpstream() as upstream,
        running(
            journal, upstream.url, say=said.append, pauses=pauses, limits=Limits(drain_s=0.1)
        ) as base,
    ):
        yield Paused(base=base, upstream=upstream, journal=journal, pauses=pauses, said=said)
        pauses.open()


def message(rig: Paused) -> str:
    """One call of the real client, streamed."""
    with (
        anthropic.Anthropic(api_key="k", base_url=f"{rig.base}/k/run1/s1") as client,
        client.messages.stream(
            model="m", max_tokens=10, messages=[{"role": "user", "content": "hello"}]
        ) as stream,
    ):
        return stream.get_final_text()


def test_new_calls_of_the_real_client_wait_and_nothing_of_them_has_happened(rig: Paused) -> None:
    rig.upstream.answers(*ANSWER)
    rig.pauses.close("resident")
    asked = [rig.in_thread(lambda: message(rig)) for _ in range(3)]
    for thread, _ in asked:
        thread.join(NOT_YET_S)
    assert (rig.journal.entries, rig.upstream.requests) == ([], [])
    assert rig.pauses.calls_under_way() == 0
    rig.pauses.open()
    for thread, found in asked:
        thread.join(PATIENCE_S)
        assert found == ["Grüße 核"]
    assert [answer.complete for answer in rig.journal.answered(3)] == [True] * 3
    stalled = [entry for entry in rig.journal.entries if isinstance(entry, CallStalled)]
    assert [entry.run_id for entry in stalled] == ["run1"] * 3
    assert all(entry.seconds >= NOT_YET_S for entry in stalled)
    assert len(rig.journal.sent()) == 3


def test_a_call_under_way_goes_on_to_its_end(rig: Paused) -> None:
    rest = threading.Event()

    async def script(line: Line) -> None:
        await line.send(ANSWER[0])
        await line.when(rest)
        await line.send(*ANSWER[1:])

    rig.upstream.script = script
    thread, found = rig.in_thread(lambda: message(rig))
    with rig.journal.changed:
        assert rig.journal.changed.wait_for(lambda: rig.journal.sent(), PATIENCE_S)
    rig.pauses.close("resident")
    assert rig.pauses.calls_under_way() == 1
    rest.set()
    thread.join(PATIENCE_S)
    assert found == ["Grüße 核"]
    assert one(rig.journal.answered()).complete
    assert not [entry for entry in rig.journal.entries if isinstance(entry, CallStalled)]


def test_a_call_that_takes_too_long_is_cut_and_sent_again_by_its_client(rig: Paused) -> None:
    """The real client tries again by itself; both tries are on record, with what came of each."""
    reached, forever = threading.Event(), threading.Event()

    async def script(line: Line) -> None:
        if len(rig.upstream.requests) == 1:
            reached.set()
            await line.when(forever)
        else:
            await line.send(*ANSWER)

    rig.upstream.script = script
    thread, found = rig.in_thread(lambda: message(rig))
    assert reached.wait(PATIENCE_S)
    rig.pauses.close("freeze")
    assert rig.pauses.cut_calls() == 1
    cut = one(rig.journal.answered())
    assert (cut.complete, cut.status, cut.error) == (False, None, PAUSED)
    assert rig.pauses.cut_calls() == 0
    thread.join(NOT_YET_S)
    assert len(rig.upstream.requests) == 1  # its second try is held
    rig.pauses.open()
    forever.set()
    thread.join(PATIENCE_S)
    assert found == ["Grüße 核"]
    assert [answer.complete for answer in rig.journal.answered(2)] == [False, True]
    sent = rig.journal.sent()
    assert sent[0].request == sent[1].request


def test_what_a_cut_answer_had_brought_is_on_record_and_has_no_clean_end(rig: Paused) -> None:
    came = events()[:300]
    forever = threading.Event()

    async def script(line: Line) -> None:
        await line.send(chunked())
        await line.chunks(came)
        await line.when(forever)

    rig.upstream.script = script

    body = bytearray()
    url = f"{rig.base}/k/run1/s1/v1/messages"
    with httpx2.stream("POST", url, content=b"{}") as response:
        pieces = response.iter_raw()
        body += next(pieces)
        rig.pauses.close("resident")
        rig.pauses.cut_calls()
        with pytest.raises(httpx2.RemoteProtocolError):
            body += b"".join(pieces)
    assert body == came
    answer = one(rig.journal.answered())
    assert (answer.body, answer.complete, answer.error) == (came, False, PAUSED)
    assert answer.usage.input == 11  # what is paid for is counted
    forever.set()


def test_a_client_that_leaves_while_it_is_held_has_cost_nothing(rig: Paused) -> None:
    rig.upstream.answers(whole(b"{}"))
    rig.pauses.close("freeze")
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{rig.base}/k/run1/s1/v1/messages", content=b"{}", timeout=NOT_YET_S)
    rig.pauses.open()
    assert httpx2.post(f"{rig.base}/k/run1/s1/v1/count", content=b"{}").status_code == 200
    assert [entry.path for entry in rig.journal.sent()] == ["/v1/count"]
    assert len(rig.upstream.requests) == 1


def test_a_proxy_that_ends_while_it_holds_refuses(rig: Paused) -> None:
    journal, pauses = MemoryJournal(), Pauses()
    pauses.close("resident")
    with running(journal, rig.upstream.url, pauses=pauses) as base:
        asking = rig.in_thread(lambda: httpx2.post(f"{base}/k/run1/s1/v1/messages", content=b"{}"))
        asking[0].join(NOT_YET_S)
    asking[0].join(PATIENCE_S)
    assert one(asking[1]).status_code == 503
    assert not [e for e in journal.entries if isinstance(e, CallSent | CallAnswered)]


class Closing:
    """Pauses that close between two looks, and open again."""

    def __init__(self, *levels: str | None) -> None:
        self.levels = iter(levels)

    @property
    def level(self) -> str | None:
        return next(self.levels)


def test_a_call_that_begins_as_the_run_is_paused_is_counted_or_waits() -> None:
    pauses = Closing(None, "freeze", "freeze", None, None)
    proxy = Proxy(
        journal=MemoryJournal(),
        upstream="",
        limits=Limits(),
        say=print,
        pauses=pauses,  # type: ignore[arg-type]
    )

    async def receive() -> dict[str, object]:
        await asyncio.sleep(PATIENCE_S)
        return {"type": "http.disconnect"}

    waited_s = asyncio.run(proxy._held(receive))
    assert waited_s is not None
    assert waited_s > 0
    assert proxy.under_way() == 1
