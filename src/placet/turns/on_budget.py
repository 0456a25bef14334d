"""A model as one of several asks it that share a budget: candidates, the agents of a team, maker and checker.

Keep true: what one of them uses is not there for the others any more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from placet.errors import BudgetSpent
from placet.inference.model import Model, Piece, Request, Result, stream
from placet.inference.usage import Usage
from placet.inference.wrappers.wrapped import Wrapped
from placet.turns.limits import used_up_words

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun


class OnBudget(Wrapped):
    """A model asked on the budget of a run; at a temperature of its own, if it is given one."""

    def __init__(self, model: Model, run: OpenRun, temperature: float | None = None) -> None:
        super().__init__(model)
        self._run = run
        self._temperature = temperature
        self._untold: set[str] = set()
        """Limits that are used up because an answer did not say what it took."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes.

        Raises:
            BudgetSpent: nothing was asked: what the run may use is used up.
        """
        async with aclosing(stream(self.model, self._asked(request))) as pieces:
            async for piece in pieces:
                if isinstance(piece, Result):
                    self.count(piece.usage, piece.cost)
                yield piece

    def _asked(self, request: Request) -> Request:
        limit = self._run.used_up()
        if limit is not None:
            assert self._run.budget is not None
            raise BudgetSpent(used_up_words(limit, self._run.budget, is_told=limit not in self._untold))
        if self._temperature is None:
            return request
        return msgspec.structs.replace(request, temperature=self._temperature)

    def count(self, usage: Usage | None, cost: float | None) -> None:
        """Take what an answer took from what the run may use; what is not told takes all of it."""
        if cost is None:
            self._untold.add("max_cost")
        is_told = usage is not None and (usage.input is not None or usage.output is not None)
        if not is_told:
            self._untold.add("max_tokens")
        self._run.spend(usage.total if usage is not None and is_told else None, cost)
