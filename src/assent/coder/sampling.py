"""The model as one session asks it: with a temperature of its own, and on a budget that all candidates share.

Keep true: what one candidate uses is not there for the others any more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from assent.errors import BudgetSpent
from assent.inference.model import Model, Piece, Request, Result, stream
from assent.inference.wrappers.wrapped import Wrapped
from assent.turns.limits import used_up_words

if TYPE_CHECKING:
    from assent.runtime.open_run import OpenRun


class Sampled(Wrapped):
    """A model asked at one temperature, on the budget of a run."""

    def __init__(self, model: Model, run: OpenRun, temperature: float) -> None:
        super().__init__(model)
        self._run = run
        self._temperature = temperature
        self.tokens = 0
        """Counted here so far."""

    async def generate(self, request: Request) -> Result:
        """The whole answer.

        Raises:
            BudgetSpent: nothing was asked: what the session may use is used up.
        """
        result = await self.model.generate(self._asked(request))
        self._count(result)
        return result

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes. Raises as `generate`."""
        async with aclosing(stream(self.model, self._asked(request))) as pieces:
            async for piece in pieces:
                if isinstance(piece, Result):
                    self._count(piece)
                yield piece

    def _asked(self, request: Request) -> Request:
        limit = self._run.used_up()
        if limit is not None:
            assert self._run.budget is not None
            raise BudgetSpent(used_up_words(limit, self._run.budget))
        return msgspec.structs.replace(request, temperature=self._temperature)

    def _count(self, result: Result) -> None:
        usage = result.usage
        known = usage.total if usage is not None and (usage.input or usage.output) is not None else None
        self.tokens += known or 0
        self._run.spend(known, result.cost)
