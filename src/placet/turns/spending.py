"""Questions to a model outside of a loop of turns, within a budget."""

from __future__ import annotations

from placet.errors import BudgetSpent
from placet.inference.model import Model, Request, Result
from placet.policy.budget import Budget


def check_budget(budget: Budget | None) -> None:
    """Refuse to ask once a limit leaves nothing to go on with.

    Raises:
        BudgetSpent: so it is; says which.
    """
    over = budget.exceeded() if budget is not None else None
    if over is not None:
        raise BudgetSpent(over.words)


async def generate_within(model: Model, request: Request, budget: Budget | None) -> Result:
    """The answer of a model, charged to a budget. Raises as `Model.generate`.

    Raises:
        BudgetSpent: nothing was asked: a limit is used up.
    """
    check_budget(budget)
    result = await model.generate(request)
    if budget is not None:
        budget.charge(result.usage, result.cost)
    return result
