"""A budget stops exactly: nothing begins after it is spent, at most one call passes its edge."""

import asyncio
import itertools
import random
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kernelsmith.errors import InfrastructureError, InputError, KernelsmithError, StorageError
from kernelsmith.model import CallAnswered, CallSent, JournalEntry, Price, Rates, Usage, cost_usd
from kernelsmith.proposers.agent.budget import Budget, Call
from kernelsmith.proposers.agent.guards import CountingJournal
from tests.agent.night import PRICES, RATES, MemoryJournal, settings

usages = st.builds(
    Usage,
    input=st.integers(0, 400),
    output=st.integers(0, 100),
    cache_read=st.integers(0, 400),
    cache_write_5m=st.integers(0, 400),
)


SENT = CallSent(
    run_id="run-1",
    session_id="s1",
    turn=0,
    attempt=0,
    method="POST",
    path="/v1/messages",
    headers=(),
    dropped=(),
    request=b"{}",
)
ANSWERED = CallAnswered(
    call_id="c",
    status=200,
    headers=(),
    body=b"",
    complete=True,
    delivered_bytes=0,
    error="",
    first_byte_s=None,
    seconds=1.0,
)


def over(budget: Budget, ticket: object, usage: Usage | None) -> None:
    """As the proxy and the client do: what is on record counts, then the client is done."""
    if usage is not None:
        budget.count(usage)
    budget.settle(ticket, usage)  # type: ignore[arg-type]


@hypothesis_settings(max_examples=150, deadline=None)
@given(
    calls=st.lists(usages, min_size=1, max_size=40),
    concurrency=st.integers(1, 8),
    cents=st.none() | st.integers(1, 4),
    tokens=st.none() | st.integers(1, 6000),
    seed=st.integers(0, 1 << 16),
)
def test_no_call_begins_after_the_spend_reached_a_limit(
    calls: list[Usage], concurrency: int, cents: int | None, tokens: int | None, seed: int
) -> None:
    limit = None if cents is None else Decimal(cents) / 100
    budget = Budget(settings(budget_usd=limit, budget_tokens=tokens))
    price, rng, left = PRICES["model"], random.Random(seed), list(calls)
    carrying: list[asyncio.Task[None]] = []
    finished: list[Usage] = []

    def usd(some: list[Usage]) -> Decimal:
        return sum((cost_usd(each, price) for each in some), Decimal(0))

    def count(some: list[Usage]) -> int:
        return sum(each.tokens for each in some)

    async def proxied(call: Call, usage: Usage) -> None:
        budget.begin(call)
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(0)
        finished.append(usage)
        budget.count(usage)
        budget.over(call)

    async def session(name: str) -> None:
        for attempt in itertools.count():
            call = (name, 0, attempt)
            ticket = await budget.admit(rng.choice([300, 900]), 100, call)
            if ticket is None or not left:
                if ticket is not None:  # it never reaches the proxy
                    budget.settle(ticket, None)
                return
            usage = left.pop()
            assert limit is None or usd(finished) < limit
            assert tokens is None or count(finished) < tokens
            carried = asyncio.create_task(proxied(call, usage))
            carrying.append(carried)
            await asyncio.sleep(0)
            if rng.random() < 0.4:  # gives up, at any time of the answer's way
                for _ in range(rng.randrange(6)):
                    await asyncio.sleep(0)
                budget.settle(ticket, None)
            else:
                await carried
                budget.settle(ticket, usage)

    async def night() -> None:
        await asyncio.gather(*(session(f"s{number}") for number in range(concurrency)))
        await asyncio.gather(*carrying)
        if not budget.spent:  # however dear, as none is left in flight
            assert await asyncio.wait_for(budget.admit(10**9, 1), 1.0) is not None

    asyncio.run(night())
    assert budget.spend.usd == usd(finished)
    assert budget.spend.tokens == count(finished)
    if left:
        assert budget.spent


@hypothesis_settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(0, 1 << 16))
def test_at_most_one_call_can_take_the_spend_past_the_limit(outputs: list[int], seed: int) -> None:
    """Where no call costs more than was set aside, all but the last one end within the limit."""
    limit = 300
    budget, rng = Budget(settings(budget_tokens=limit)), random.Random(seed)
    ended: list[int] = []

    async def call(number: int, output: int) -> None:
        ticket = await budget.admit(30, 100, ("s", number, 0))
        if ticket is None:
            return
        budget.begin(("s", number, 0))
        moments = rng.randrange(12)
        gives_up_at = rng.randrange(8)
        for moment in range(moments):
            if moment == gives_up_at:
                budget.settle(ticket, None)
            await asyncio.sleep(0)
        ended.append(10 + output)
        budget.count(Usage(input=10, output=output))
        budget.over(("s", number, 0))
        if gives_up_at >= moments:
            budget.settle(ticket, None)

    async def night() -> None:
        await asyncio.gather(*(call(*each) for each in enumerate(outputs)))

    asyncio.run(night())
    assert sum(ended) - max(ended, default=0) < limit
    past = [i for i in range(len(ended)) if sum(ended[: i + 1]) >= limit]
    assert len(past) <= 1


async def admitted(budget: Budget, prompt_bytes: int = 300) -> object:
    try:
        return await asyncio.wait_for(budget.admit(prompt_bytes, 100), 0.01)
    except TimeoutError:
        return "waits"


def test_calls_in_flight_hold_their_worst_case() -> None:
    async def night() -> None:
        budget = Budget(settings(budget_tokens=450))
        first = await budget.admit(300, 100)
        second = await budget.admit(300, 100)
        assert first is not None
        assert second is not None
        assert await admitted(budget) == "waits"
        over(budget, first, Usage(output=5))
        assert await admitted(budget) not in ("waits", None)

    asyncio.run(night())


def test_an_answer_that_is_still_read_holds_its_share_when_its_client_gives_up() -> None:
    async def night() -> None:
        budget, call = Budget(settings(budget_tokens=250)), ("s", 0, 0)
        ticket = await budget.admit(300, 100, call)
        assert ticket is not None
        budget.begin(call)
        budget.settle(ticket, None)
        assert await admitted(budget) == "waits"
        waiting = asyncio.create_task(budget.admit(300, 100))
        await asyncio.sleep(0)
        budget.count(Usage(output=20))
        await asyncio.to_thread(budget.over, call)
        assert await asyncio.wait_for(waiting, 5.0) is not None

    asyncio.run(night())


def test_a_call_begins_only_while_its_client_waits_with_leave() -> None:
    async def night() -> None:
        budget, journal = Budget(settings(budget_tokens=250)), MemoryJournal()
        counting, call = CountingJournal(journal=journal, budget=budget), ("s1", 0, 0)
        for settled in (True, False):
            ticket = await budget.admit(300, 100, call)
            assert ticket is not None
            if settled:
                budget.settle(ticket, None)
                with pytest.raises(InfrastructureError, match="nobody waits"):
                    counting.append(SENT)
        counting.append(SENT).result()
        with pytest.raises(InfrastructureError, match="nobody waits"):
            counting.append(SENT)
        assert journal.entries == [SENT]

    asyncio.run(night())


@pytest.mark.parametrize("kind", [CallSent, CallAnswered])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_call_that_cannot_be_recorded_frees_its_share(kind: type, at_once: bool) -> None:
    class Failing(MemoryJournal):
        def append(self, entry: JournalEntry) -> "Future[str]":
            if not isinstance(entry, kind):
                return super().append(entry)
            if at_once:
                raise InfrastructureError("closed")
            future: Future[str] = Future()
            future.set_exception(StorageError("disk full"))
            return future

    async def night() -> None:
        budget = Budget(settings(budget_tokens=250))
        counting = CountingJournal(journal=Failing(), budget=budget)
        ticket = await budget.admit(300, 100, ("s1", 0, 0))
        assert ticket is not None
        entries: list[JournalEntry] = [SENT, replace(ANSWERED, call_id="1")]
        for entry in entries[: 1 if kind is CallSent else 2]:
            with pytest.raises(KernelsmithError) if isinstance(entry, kind) else nullcontext():
                counting.append(entry).result()
        budget.settle(ticket, None)
        assert await admitted(budget) not in ("waits", None)

    asyncio.run(night())


def test_the_last_call_goes_alone_however_dear_it_may_be() -> None:
    async def night() -> None:
        budget = Budget(settings(budget_tokens=50))
        ticket = await budget.admit(30_000, 100)
        assert ticket is not None
        assert await admitted(budget) == "waits"
        over(budget, ticket, Usage(output=50))
        assert budget.spent
        assert await budget.admit(1, 1) is None

    asyncio.run(night())


def test_who_waits_when_the_budget_is_spent_is_sent_away() -> None:
    async def night() -> None:
        budget = Budget(settings(budget_tokens=200))
        ticket = await budget.admit(300, 100)
        assert ticket is not None
        waiting = asyncio.create_task(budget.admit(300, 100))
        await asyncio.sleep(0)
        over(budget, ticket, Usage(output=200))
        assert await waiting is None

    asyncio.run(night())


def test_a_call_without_a_counted_answer_costs_nothing_and_frees_its_share() -> None:
    async def night() -> None:
        budget = Budget(settings(budget_tokens=250))
        for _ in range(3):
            ticket = await budget.admit(300, 100)
            assert ticket is not None
            over(budget, ticket, None)
        assert budget.spend.calls == 0
        assert budget.spend.tokens == 0

    asyncio.run(night())


def test_the_worst_case_of_a_long_prompt_has_the_long_rates() -> None:
    dear = Price(
        rates=RATES,
        long_above=1000,
        long=RATES.__class__(
            **{
                name: getattr(RATES, name) * 2
                for name in ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
            }
        ),
    )

    async def worst(prompt_bytes: int) -> Decimal:
        budget = Budget(settings(prices={"model": dear}, budget_usd=Decimal(1)))
        ticket = await budget.admit(prompt_bytes, 0)
        assert ticket is not None
        return ticket.worst_usd

    assert asyncio.run(worst(2997)) == 1000 * RATES.cache_write_5m / 1_000_000
    assert asyncio.run(worst(3000)) == 1001 * 2 * RATES.cache_write_5m / 1_000_000


def test_a_denser_tokenizer_is_learned_from_its_counts() -> None:
    async def night() -> None:
        budget = Budget(settings())
        first = await budget.admit(300, 0)
        assert first is not None
        assert first.worst_tokens == 101
        over(budget, first, Usage(cache_read=100, input=50, output=7))
        second = await budget.admit(300, 0)
        assert second is not None
        assert second.worst_tokens == 151

    asyncio.run(night())


def test_a_resumed_run_starts_from_what_was_spent() -> None:
    spent = [Usage(output=1000), Usage(input=1000)]
    budget = Budget(settings(budget_usd=Decimal("0.018")), spent)
    assert budget.spend.usd == Decimal("0.018")
    assert budget.spend.calls == 2
    assert budget.spent
    assert asyncio.run(budget.admit(1, 1)) is None


def test_dollars_without_a_price_are_refused_at_the_start() -> None:
    with pytest.raises(InputError, match="no price is known for model free") as caught:
        Budget(settings(model="free", budget_usd=Decimal(5)))
    assert caught.value.hint is not None
    assert "budget" in caught.value.hint
    assert Budget(settings(model="free", budget_tokens=10)).standing() == "0 of 10 tokens"


def test_the_standing_names_spend_and_limits() -> None:
    spent = [Usage(output=12_345)]
    limited = settings(budget_usd=Decimal(5), budget_tokens=2_000_000)
    assert Budget(limited, spent).standing() == "$0.19 of $5, 12k of 2.0M tokens"
    assert Budget(settings(), spent).standing() == "$0.19, 12k tokens"


def test_an_answer_costs_what_the_asked_model_does_whatever_it_says_it_is_of() -> None:
    """A gateway may answer under a cheaper model's name; show and resume go by the asked one."""
    free = Price(rates=Rates(**dict.fromkeys(Rates.__dataclass_fields__, Decimal(0))))
    budget = Budget(settings(prices={**PRICES, "free": free}))
    counting = CountingJournal(journal=MemoryJournal(), budget=budget)
    counting.append(replace(ANSWERED, model="free", usage=Usage(output=1000))).result()
    assert budget.spend.usd == Decimal("0.015")


def test_an_answer_counts_when_it_is_on_record_whoever_still_waits_for_it() -> None:
    budget = Budget(settings(budget_tokens=100))
    counting = CountingJournal(journal=MemoryJournal(), budget=budget)
    given_up = replace(ANSWERED, error="the client left", usage=Usage(output=60))
    counting.append(given_up).result()
    assert (budget.spend.tokens, budget.spent) == (60, False)
    counting.append(replace(given_up, usage=Usage(output=40))).result()
    assert budget.spent
