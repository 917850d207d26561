"""A client that gives up on an answer: what the proxy still reads of it is paid for first."""

import asyncio
import threading

from kernelsmith import capture
from kernelsmith.proposers.agent import Budget, CountingJournal
from kernelsmith.proposers.agent.client import Caller
from kernelsmith.wire import Answer
from tests.agent.night import settings
from tests.capture.parts import (
    LAST_CHUNK,
    Line,
    MemoryJournal,
    RawUpstream,
    chunked,
    events,
)

SPLIT = events().index(b"event: content_block_delta")
BEGIN, REST = events()[:SPLIT], events()[SPLIT:]
TOKENS = 11 + 7 + 29
OWN = capture.OneRun(run_id="run1", token="t0ken")


def call_that_times_out_once(tokens: int) -> tuple[Answer | None, int, Budget]:
    """(What a caller is answered whose first try times out in the middle of its answer, how many
    requests went out, the budget): the answer goes on to its end after that."""
    gave_up, journal = threading.Event(), MemoryJournal()
    budget = Budget(settings(budget_tokens=tokens))

    async def script(line: Line) -> None:
        await line.send(chunked())
        await line.chunks(BEGIN)
        await line.when(gave_up)
        await line.chunks(REST)
        await line.send(LAST_CHUNK)

    async def sleep(_: float) -> None:
        gave_up.set()

    async def call(base: str) -> Answer | None:
        caller = Caller(
            f"{base}/k/run1", "", proxy_token=OWN.token, read_timeout_s=0.5, sleep=sleep
        )
        try:
            return await caller.call("s1", 0, 0, b"{}", budget, 100)
        finally:
            await caller.close()

    counting = CountingJournal(journal=journal, budget=budget)
    with RawUpstream() as upstream, capture.running(counting, upstream.url, only=OWN) as base:
        upstream.script = script
        answer = asyncio.run(call(base))
        return answer, len(upstream.requests), budget


def test_another_try_is_not_begun_where_the_answer_given_up_spends_the_budget() -> None:
    answer, requests, budget = call_that_times_out_once(tokens=TOKENS)
    assert (answer, requests) == (None, 1)
    assert (budget.spend.calls, budget.spend.tokens, budget.spent) == (1, TOKENS, True)


def test_another_try_begins_when_the_answer_given_up_has_left_enough() -> None:
    answer, requests, budget = call_that_times_out_once(tokens=TOKENS + 1)
    assert answer is not None
    assert (answer.received, requests) == (True, 2)
    assert (budget.spend.calls, budget.spend.tokens) == (2, 2 * TOKENS)
