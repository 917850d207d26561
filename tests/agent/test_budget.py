"""A budget stops exactly: nothing begins after it is spent, at most one call passes its edge."""

import asyncio
import random
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kernelsmith.errors import InputError
from kernelsmith.model import CallAnswered, Price, Rates, Usage, cost_usd
from kernelsmith.proposers.agent.budget import Budget
from kernelsmith.proposers.agent.guards import CountingJournal
from tests.agent.night import PRICES, RATES, MemoryJournal, settings

usages = st.builds(
    Usage,
    input=st.integers(0, 400),
    output=st.integers(0, 100),
    cache_read=st.integers(0, 400),
    cache_write_5m=st.integers(0, 400),
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
    in_flight: list[Usage] = []
    finished: list[Usage] = []

    def usd(some: list[Usage]) -> Decimal:
        return sum((cost_usd(each, price) for each in some), Decimal(0))

    def count(some: list[Usage]) -> int:
        return sum(each.tokens for each in some)

    async def session() -> None:
        while left:
            ticket = await budget.admit(rng.choice([300, 900]), 100)
            if ticket is None or not left:
                if ticket is not None:
                    over(budget, ticket, None)
                return
            usage = left.pop()
            assert limit is None or usd(finished) < limit
            assert tokens is None or count(finished) < tokens
            in_flight.append(usage)
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            in_flight.remove(usage)
            finished.append(usage)
            over(budget, ticket, usage)

    async def night() -> None:
        await asyncio.gather(*(session() for _ in range(concurrency)))

    asyncio.run(night())
    assert budget.spend.usd == usd(finished)
    assert budget.spend.tokens == count(finished)
    if left:
        assert budget.spent


@hypothesis_settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(0, 1 << 16))
def test_at_most_one_call_can_take_the_spend_past_the_limit(outputs: list[int], seed: int) -> None:
    """Where no call costs more than was set aside, all but the last one end within the limit."""
    limit = 1000
    budget, rng = Budget(settings(budget_tokens=limit)), random.Random(seed)
    ended: list[int] = []

    async def call(output: int) -> None:
        ticket = await budget.admit(30, 100)
        if ticket is None:
            return
        for _ in range(rng.randrange(5)):
            await asyncio.sleep(0)
        over(budget, ticket, Usage(input=10, output=output))
        ended.append(10 + output)

    async def night() -> None:
        await asyncio.gather(*(call(output) for output in outputs))

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
    counting = CountingJournal(journal=MemoryJournal(), count=budget.count)
    counting.append(
        CallAnswered(
            call_id="c",
            status=200,
            headers=(),
            body=b"",
            complete=True,
            delivered_bytes=0,
            error="",
            first_byte_s=None,
            seconds=1.0,
            model="free",
            usage=Usage(output=1000),
        )
    ).result()
    assert budget.spend.usd == Decimal("0.015")


def test_an_answer_counts_when_it_is_on_record_whoever_still_waits_for_it() -> None:
    budget = Budget(settings(budget_tokens=100))
    counting = CountingJournal(journal=MemoryJournal(), count=budget.count)
    given_up = CallAnswered(
        call_id="c",
        status=200,
        headers=(),
        body=b"",
        complete=True,
        delivered_bytes=0,
        error="the client left",
        first_byte_s=None,
        seconds=1.0,
        usage=Usage(output=60),
    )
    counting.append(given_up).result()
    assert (budget.spend.tokens, budget.spent) == (60, False)
    counting.append(replace(given_up, usage=Usage(output=40))).result()
    assert budget.spent
