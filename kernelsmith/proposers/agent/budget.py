"""What the conversations may cost, in dollars and tokens: a hard stop, exact to one call.

A call may begin while the spend is below the limit. While calls are in flight their worst cases
are set aside, and another begins only if its own fits beside them; when none is in flight one is
let through whatever it may cost. So at most one call ever begins that can take the spend past the
limit, and none after it did. Money is exact: ``Decimal``, by ``model.cost_usd``.

What counts is what the proxy has recorded, not what a client saw: an answer whose client gave up is
paid for too. It is counted before its client sees the end, so before its ticket is settled. A
ticket whose client gives up first stays set aside while the proxy still reads its answer, until
that is counted. A call whose client has given up before the proxy began it is not begun.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal

from kernelsmith.errors import InfrastructureError, InputError
from kernelsmith.model import AgentSettings, Price, Usage, cost_usd

# No tokenizer at hand: source and JSON have three bytes a token or more in every count we know of;
# where a server counts more densely, its densest count so far holds from then on.
BYTES_A_TOKEN = 3

Call = tuple[str, int | None, int | None]
"""A try of a turn: session, turn, attempt."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ticket:
    """Leave for one call: what it may cost at worst. ``call``: by which the proxy knows it; None:
    it goes through none."""

    prompt_bytes: int
    worst_tokens: int
    worst_usd: Decimal
    call: Call | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What was spent so far. ``calls`` counts those that came back with a usage."""

    calls: int = 0
    tokens: int = 0
    usd: Decimal = Decimal(0)


class Budget:
    """One budget over all conversations of a run. ``admit`` and ``settle`` belong to one event
    loop, all else to any thread."""

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
        self._in_flight: list[Ticket] = []  # all that is set aside
        self._held: dict[Call, Ticket] = {}  # whose clients wait
        self._carried: dict[Call, Ticket] = {}  # which the proxy has begun and not yet recorded
        self._settled = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tokens_a_byte = 1 / BYTES_A_TOKEN
        self._spend = Spend()
        self._lock = threading.Lock()
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

    async def admit(
        self, prompt_bytes: int, max_tokens: int, call: Call | None = None
    ) -> Ticket | None:
        """Leave to begin one call, at once or when enough others came back; None: the budget is
        spent. Each ticket must be settled, also when its call fails or is cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            settled = self._settled
            with self._lock:
                if self.spent:
                    return None
                ticket = self._ticket(prompt_bytes, max_tokens, call)
                if not self._in_flight or self._fits(ticket):
                    self._in_flight.append(ticket)
                    if call is not None:
                        self._held[call] = ticket
                    return ticket
            await settled.wait()

    def settle(self, ticket: Ticket, usage: Usage | None) -> None:
        """The ticket's client is done; ``usage``: what it saw of the call, for better estimates.
        What was set aside is free, unless the proxy still carries the call."""
        with self._lock:
            if usage is not None and ticket.prompt_bytes:
                dense = usage.prompt_tokens / ticket.prompt_bytes
                self._tokens_a_byte = max(self._tokens_a_byte, dense)
            carried = None
            if ticket.call is not None:
                del self._held[ticket.call]
                carried = self._carried.get(ticket.call)
            if carried is not ticket:
                self._in_flight.remove(ticket)
        self._wake()

    def begin(self, call: Call) -> None:
        """The proxy is about to begin a call; each ends with :meth:`over`.

        Raises:
            InfrastructureError: nobody has leave for it (any more); it must not begin.
        """
        with self._lock:
            ticket = self._held.get(call)
            if ticket is None or call in self._carried:
                raise InfrastructureError(f"call {call}: nobody waits for it with leave to spend")
            self._carried[call] = ticket

    def over(self, call: Call) -> None:
        """The proxy is done with a call: its answer is counted, or it has none."""
        with self._lock:
            ticket = self._carried.pop(call)
            if call in self._held:
                return
            self._in_flight.remove(ticket)
        if self._loop is not None:
            with suppress(RuntimeError):  # the conversations are over, and nobody waits
                self._loop.call_soon_threadsafe(self._wake)

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
        with self._lock:
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

    def _wake(self) -> None:
        self._settled.set()
        self._settled = asyncio.Event()

    def _fits(self, ticket: Ticket) -> bool:
        usd, tokens = self._settings.budget_usd, self._settings.budget_tokens
        tickets = [*self._in_flight, ticket]
        worst_usd = self._spend.usd + sum((each.worst_usd for each in tickets), Decimal(0))
        worst_tokens = self._spend.tokens + sum(each.worst_tokens for each in tickets)
        return (usd is None or worst_usd <= usd) and (tokens is None or worst_tokens <= tokens)

    def _ticket(self, prompt_bytes: int, max_tokens: int, call: Call | None) -> Ticket:
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
            call=call,
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
