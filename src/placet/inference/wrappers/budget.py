"""No more than so many calls, tokens or dollars.

Keep true:
1. A call is counted before it is asked, so that calls at the same time cannot go over `max_calls`.
2. What an answer took is known only after it: the one that goes over a limit of tokens or dollars is still
   handed out, and so are those that were asked at the same time. None is asked after it.
3. Nothing is estimated. A limit on something that an answer does not tell cannot be kept, so after such an
   answer the next request is refused, with words. An answer that was broken off, by whoever asked or by the
   time that it took, is counted as unknown, and refuses nothing.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncGenerator
from contextlib import aclosing
from math import isfinite

import msgspec

from placet.errors import BudgetSpent, ModelCancelled, ModelTimeout, UsageError
from placet.inference.model import Model, Piece, Request, Result, stream
from placet.inference.wrappers.wrapped import Wrapped

_BROKEN_OFF = (CancelledError, ModelCancelled, ModelTimeout)
"""The model was at work by then, as far as anybody knows."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a `Budgeted` model so far."""

    calls: int = 0
    """Requests, including those that failed or are running."""
    tokens: int = 0
    """Tokens, as far as they are known."""
    cost: float = 0.0
    """Cost in US dollars, as far as it is known."""
    unknown_calls: int = 0
    """Answers whose tokens are not, or not all, known."""
    unpriced_calls: int = 0
    """Answers whose cost is not known."""


class Budgeted(Wrapped):
    """Wrapper that refuses further requests once a limit is used up.

    The answer that exceeds a limit is still returned. If a model does not report what a limit counts, the
    next request is refused.
    """

    def __init__(
        self,
        model: Model,
        *,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        max_calls: int | None = None,
    ) -> None:
        """Wrap a model.

        Args:
            model: The inner model.
            max_tokens: Tokens over all requests.
            max_cost: Cost over all requests, in US dollars.
            max_calls: Number of requests.

        Raises:
            UsageError: a limit is negative or not a number.
        """
        for name, limit in (("max_tokens", max_tokens), ("max_cost", max_cost), ("max_calls", max_calls)):
            if limit is not None and not (isfinite(limit) and limit >= 0):
                raise UsageError(f"Budgeted got {name}={limit}: it must be zero or more.")
        super().__init__(model)
        self.spent: Spent = Spent()
        """Usage so far."""
        self._max_tokens = max_tokens
        self._max_cost = max_cost
        self._max_calls = max_calls
        self._hides_tokens = False
        self._hides_cost = False

    async def generate(self, request: Request) -> Result:
        """The whole answer.

        Raises:
            BudgetSpent: nothing was asked: a limit is reached, or cannot be kept.
        """
        self._reserve()
        try:
            result = await self.model.generate(request)
        except _BROKEN_OFF:
            self._add(unknown_calls=1, unpriced_calls=1)
            raise
        self._count(result)
        return result

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes. Raises as `generate`."""
        self._reserve()
        is_under_way = is_counted = False
        try:
            async with aclosing(stream(self.model, request)) as pieces:
                async for piece in pieces:
                    is_under_way = True
                    if isinstance(piece, Result):
                        self._count(piece)
                        is_counted = True
                    yield piece
        except _BROKEN_OFF:
            is_under_way = True
            raise
        finally:
            if is_under_way and not is_counted:
                self._add(unknown_calls=1, unpriced_calls=1)

    def _reserve(self) -> None:
        spent = self.spent
        if self._max_calls is not None and spent.calls >= self._max_calls:
            raise self._refusal(f"{spent.calls} of {self._max_calls} calls are used")
        if self._max_tokens is not None and spent.tokens >= self._max_tokens:
            raise self._refusal(f"{spent.tokens} of {self._max_tokens} tokens are used")
        if self._max_cost is not None and spent.cost >= self._max_cost:
            raise self._refusal(f"${spent.cost:.4f} of ${self._max_cost:.4f} are used")
        if self._max_tokens is not None and self._hides_tokens:
            raise self._unkept("how many tokens an answer took", f"max_tokens={self._max_tokens}")
        if self._max_cost is not None and self._hides_cost:
            raise self._unkept("what an answer costs", f"max_cost={self._max_cost:g}")
        self._add(calls=1)

    def _count(self, result: Result) -> None:
        usage = result.usage
        hides_tokens = usage is None or usage.input is None or usage.output is None
        self._hides_tokens |= hides_tokens
        self._hides_cost |= result.cost is None
        self._add(
            tokens=0 if usage is None else usage.total,
            cost=result.cost or 0.0,
            unknown_calls=int(hides_tokens),
            unpriced_calls=int(result.cost is None),
        )

    def _add(
        self,
        *,
        calls: int = 0,
        tokens: int = 0,
        cost: float = 0.0,
        unknown_calls: int = 0,
        unpriced_calls: int = 0,
    ) -> None:
        spent = self.spent
        self.spent = Spent(
            calls=spent.calls + calls,
            tokens=spent.tokens + tokens,
            cost=spent.cost + cost,
            unknown_calls=spent.unknown_calls + unknown_calls,
            unpriced_calls=spent.unpriced_calls + unpriced_calls,
        )

    def _refusal(self, what: str) -> BudgetSpent:
        return BudgetSpent(f"{self.name} may not be asked any more: {what}. Raise the limit to go on.")

    def _unkept(self, what: str, limit: str) -> BudgetSpent:
        return BudgetSpent(
            f"{self.name} does not tell {what}, so {limit} cannot be kept. Limit max_calls instead, "
            "or say what the model costs."
        )
