"""What the conversations may cost, in dollars and tokens: a hard stop, exact to one call.

A call may begin while the spend is below the limit. While calls are in flight their worst cases
are set aside, and another begins only if its own fits beside them; when none is in flight one is
let through whatever it may cost. So at most one call ever begins that can take the spend past the
limit, and none after it did. Money is exact: ``Decimal``, by ``model.cost_usd``.

What counts is what the proxy has recorded, not what a client saw: an answer whose client gave up is
paid for too. It is counted before its client sees the end, so before its ticket is settled.
"""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from kernelsmith.errors import InputError
from kernelsmith.model import AgentSettings, Price, Usage, cost_usd

# No tokenizer at hand: source and JSON have three bytes a token or more in every count we know of;
# where a server counts more densely, its densest count so far holds from then on.
BYTES_A_TOKEN = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ticket:
    """Leave for one call: what it may cost at worst."""

    prompt_bytes: int
    worst_tokens: int
    worst_usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What was spent so far. ``calls`` counts those that came back with a usage."""

    calls: int = 0
    tokens: int = 0
    usd: Decimal = Decimal(0)


class Budget:
    """One budget over all conversations of a run. ``admit`` and ``settle`` belong to one event
    loop; ``count``, ``spend`` and ``spent`` to any thread."""

    def __init__(self, settings: AgentSettings, spent: Sequence[Usage] = ()) -> None:
        """``spent``: usage of every answer on record of a resumed run.

        Raises:
            InputError: dollars are limited and the model has no price.
        """
        self._settings = settings
        if settings.budget_usd is not None and settings.price is None:
            raise InputError(
                f"no price is known for model {settings.model}, so dollars cannot be limited",
                hint="give its price in the settings, or limit tokens instead: "
                "budget_usd none, budget_tokens a number",
            )
        self._in_flight: list[Ticket] = []
        self._settled = asyncio.Event()
        self._tokens_a_byte = 1 / BYTES_A_TOKEN
        self._spend = Spend()
        self._counting = threading.Lock()
        for usage in spent:
            self.count(usage)

    @property
    def spend(self) -> Spend:
        """So far, calls in flight left out."""
        return self._spend

    @property
    def spent(self) -> bool:
        """Whether no further call may begin."""
        usd, tokens = self._settings.budget_usd, self._settings.budget_tokens
        return (usd is not None and self._spend.usd >= usd) or (
            tokens is not None and self._spend.tokens >= tokens
        )

    async def admit(self, prompt_bytes: int, max_tokens: int) -> Ticket | None:
        """Leave to begin one call, at once or when enough others came back; None: the budget is
        spent. Each ticket must be settled, also when its call fails or is cancelled."""
        while not self.spent:
            ticket = self._ticket(prompt_bytes, max_tokens)
            if not self._in_flight or self._fits(ticket):
                self._in_flight.append(ticket)
                return ticket
            await self._settled.wait()
        return None

    def settle(self, ticket: Ticket, usage: Usage | None) -> None:
        """The ticket's call is over; ``usage``: what its client saw of it, for better estimates."""
        self._in_flight.remove(ticket)
        if usage is not None and ticket.prompt_bytes:
            dense = usage.prompt_tokens / ticket.prompt_bytes
            self._tokens_a_byte = max(self._tokens_a_byte, dense)
        self._settled.set()
        self._settled = asyncio.Event()

    def require_no_limits(self) -> None:
        """For an answer without a usage, which no limit would ever stop.

        Raises:
            InputError: dollars or tokens are limited.
        """
        if self._settings.budget_usd is not None or self._settings.budget_tokens is not None:
            raise InputError(
                "the server does not say how many tokens an answer took: no budget can be kept",
                hint="limit time and --max-candidates instead: a new run with --budget-usd none",
            )

    def count(self, usage: Usage) -> None:
        """One recorded answer, at the price of the model that was asked, whichever it says it is
        of."""
        if not usage.tokens:
            return
        with self._counting:
            self._spend = Spend(
                calls=self._spend.calls + 1,
                tokens=self._spend.tokens + usage.tokens,
                usd=self._spend.usd + _cost_usd(usage, self._settings.price),
            )

    def standing(self) -> str:
        """For display: the spend beside its limits."""
        spend, limits = self._spend, self._settings
        parts = []
        if limits.price is not None:
            of = "" if limits.budget_usd is None else f" of ${limits.budget_usd}"
            parts.append(f"${spend.usd:.2f}{of}")
        of = "" if limits.budget_tokens is None else f" of {_short(limits.budget_tokens)}"
        parts.append(f"{_short(spend.tokens)}{of} tokens")
        return ", ".join(parts)

    def _fits(self, ticket: Ticket) -> bool:
        usd, tokens = self._settings.budget_usd, self._settings.budget_tokens
        tickets = [*self._in_flight, ticket]
        worst_usd = self._spend.usd + sum((each.worst_usd for each in tickets), Decimal(0))
        worst_tokens = self._spend.tokens + sum(each.worst_tokens for each in tickets)
        return (usd is None or worst_usd <= usd) and (tokens is None or worst_tokens <= tokens)

    def _ticket(self, prompt_bytes: int, max_tokens: int) -> Ticket:
        prompt = int(prompt_bytes * self._tokens_a_byte) + 1
        price = self._settings.price
        # Either nothing of the prompt is cached yet, or all of it is written to the cache.
        worst = (
            Usage(input=prompt, output=max_tokens),
            Usage(cache_write_5m=prompt, output=max_tokens),
        )
        return Ticket(
            prompt_bytes=prompt_bytes,
            worst_tokens=prompt + max_tokens,
            worst_usd=max(_cost_usd(each, price) for each in worst),
        )


def _cost_usd(usage: Usage, price: Price | None) -> Decimal:
    return Decimal(0) if price is None else cost_usd(usage, price)


def _short(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= 10 * size:
            return f"{number / size:.0f}{unit}"
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)
