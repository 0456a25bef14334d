"""How much an answer took, and what that costs.

Keep true:
1. What is not known is None, never 0.
2. An answer is charged at one price, the whole of it: above a length it may be another one.
"""

from __future__ import annotations

import msgspec

from placet.ir.usage import Usage as Usage

_PER = 1_000_000


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Price of a model in US dollars for a million tokens."""

    input: float
    """Price of input tokens."""
    output: float
    """Price of output tokens."""
    cached: float | None = None
    """Price of input tokens from a cache. `None`: as `input`."""
    cache_written: float | None = None
    """Price of input tokens put into a cache. `None`: as `input`."""
    beyond: Beyond | None = None
    """Another price for long requests."""

    def cost(self, usage: Usage | None) -> float | None:
        """Return the cost of an answer in US dollars; `None` if the usage is not known.

        >>> price = Price(input=2, output=10, beyond=Beyond(tokens=200_000, price=Price(input=4, output=15)))
        >>> price.cost(Usage(input=200_000, output=1000)), price.cost(Usage(input=200_001, output=1000))
        (0.41, 0.815004)

        Args:
            usage: Tokens of the answer.
        """
        if usage is None or usage.input is None or usage.output is None:
            return None
        if self.beyond is not None and usage.input > self.beyond.tokens:
            return self.beyond.price.cost(usage)
        cached, written = usage.cached or 0, usage.cache_written or 0
        plain = max(usage.input - cached - written, 0)
        return (
            plain * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + written * (self.input if self.cache_written is None else self.cache_written)
            + usage.output * self.output
        ) / _PER


class Beyond(msgspec.Struct, frozen=True, kw_only=True):
    """Another price, from a length on."""

    tokens: int
    """Number of input tokens; with more, the other price holds for the whole answer."""
    price: Price
    """The other price."""
