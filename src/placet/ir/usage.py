"""How many tokens an answer took.

Keep true: what is not known is None, never 0.
"""

from __future__ import annotations

import msgspec

from placet.ir.to_dict import ToDict


class Usage(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """Tokens as the provider counts them; `None` if a number is not reported."""

    input: int | None = None
    """Tokens read, including those from a cache."""
    output: int | None = None
    """Tokens written, including reasoning."""
    cached: int | None = None
    """Input tokens that came from the provider's cache."""
    cache_written: int | None = None
    """Input tokens that were put into the provider's cache."""

    @property
    def total(self) -> int:
        """Input and output together, as far as they are known."""
        return (self.input or 0) + (self.output or 0)

    def __add__(self, other: Usage) -> Usage:
        """Return the sum; a number that neither of them has stays `None`.

        Args:
            other: The other usage.
        """

        def add(a: int | None, b: int | None) -> int | None:
            return (a or 0) + (b or 0) if a is not None or b is not None else None

        return Usage(
            input=add(self.input, other.input),
            output=add(self.output, other.output),
            cached=add(self.cached, other.cached),
            cache_written=add(self.cache_written, other.cache_written),
        )
