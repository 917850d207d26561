"""Tokens of a model call and what they cost. Prices are US dollars for a million tokens, exact."""

from dataclasses import dataclass
from decimal import Decimal

MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call, as the server counts them. ``input`` excludes what the cache gave
    (``cache_read``) and what was written to it for 5 minutes or 1 hour."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, read, written and made."""
        return (
            self.input + self.output + self.cache_read + self.cache_write_5m + self.cache_write_1h
        )

    @property
    def prompt_tokens(self) -> int:
        """All tokens but the output."""
        return self.tokens - self.output

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write_5m=self.cache_write_5m + other.cache_write_5m,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars for a million tokens."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A model's rates. A call whose prompt has more than ``long_above`` tokens (cache included)
    pays ``long`` for all of its tokens."""

    rates: Rates
    long_above: int | None = None
    long: Rates | None = None


def cost_usd(usage: Usage, price: Price) -> Decimal:
    """What one call costs, exact."""
    rates = price.rates
    if price.long is not None and price.long_above is not None:
        rates = price.long if usage.prompt_tokens > price.long_above else rates
    return (
        usage.input * rates.input
        + usage.output * rates.output
        + usage.cache_read * rates.cache_read
        + usage.cache_write_5m * rates.cache_write_5m
        + usage.cache_write_1h * rates.cache_write_1h
    ) / MILLION
