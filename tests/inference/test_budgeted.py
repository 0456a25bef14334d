"""No more than so many calls, tokens or dollars."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from placet.errors import BudgetSpent, ModelCancelled, ModelTimeout, ModelUnavailable, UsageError
from placet.inference.messages import User
from placet.inference.model import Request, Result, Words
from placet.inference.scripted import Scripted
from placet.inference.usage import Usage
from placet.inference.wrappers.budget import Budgeted, Spent

REQUEST = Request(messages=[User("Hello")])


def answer(tokens: int | None = None, cost: float | None = None) -> Result:
    usage = None if tokens is None else Usage(input=tokens - 1, output=1)
    return Result(text="x", usage=usage, cost=cost)


async def ask(model: Budgeted, *, streamed: bool = False) -> None:
    if streamed:
        async for _ in model.stream(REQUEST):
            pass
    else:
        await model.generate(REQUEST)


@pytest.mark.parametrize("streamed", [False, True])
async def test_tokens_and_cost_add_up_and_the_one_that_goes_over_is_the_last(streamed: bool) -> None:
    inside = Scripted([answer(60, 0.25), answer(60, 0.25), "never"])
    model = Budgeted(inside, max_tokens=100)

    await ask(model, streamed=streamed)
    await ask(model, streamed=streamed)
    with pytest.raises(BudgetSpent, match="120 of 100 tokens are used"):
        await ask(model, streamed=streamed)

    assert model.spent == Spent(calls=2, tokens=120, cost=0.5)
    assert len(inside.requests) == 2
    assert model.name == "scripted"


async def test_a_limit_on_cost() -> None:
    model = Budgeted(Scripted([answer(1, 0.02), "never"]), max_cost=0.01)
    await ask(model)

    with pytest.raises(BudgetSpent, match=r"\$0\.0200 of \$0\.0100 are used"):
        await ask(model)


async def test_a_limit_of_nothing_asks_nothing() -> None:
    for limit in ({"max_tokens": 0}, {"max_cost": 0.0}, {"max_calls": 0}):
        inside = Scripted(["never"])

        with pytest.raises(BudgetSpent):
            await ask(Budgeted(inside, **limit))

        assert inside.requests == []


async def test_calls_at_the_same_time_cannot_go_over_the_limit() -> None:
    going = asyncio.Event()

    async def slowly(request: Request) -> str:
        await going.wait()
        return "x"

    inside = Scripted(slowly)
    model = Budgeted(inside, max_calls=3)
    tasks = [asyncio.create_task(model.generate(REQUEST)) for _ in range(10)]
    await asyncio.sleep(0)
    going.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert sum(isinstance(each, Result) for each in outcomes) == 3
    assert sum(isinstance(each, BudgetSpent) for each in outcomes) == 7
    assert len(inside.requests) == 3


async def test_a_failed_call_counts_as_a_call_and_nothing_else() -> None:
    model = Budgeted(Scripted([ModelUnavailable("away"), answer(5, 0.1)]), max_calls=2)

    with pytest.raises(ModelUnavailable):
        await ask(model)
    await ask(model)

    assert model.spent == Spent(calls=2, tokens=5, cost=0.1)


async def test_unknown_usage_is_counted_as_unknown_and_never_guessed() -> None:
    partly = Result(text="x", usage=Usage(input=7))
    model = Budgeted(Scripted(["x", partly, answer(3)]), max_calls=10)

    for _ in range(3):
        await ask(model)

    assert model.spent == Spent(calls=3, tokens=10, unknown_calls=2, unpriced_calls=3)


async def test_a_limit_that_cannot_be_kept_refuses_the_next_call() -> None:
    priceless = Budgeted(Scripted([answer(5), "never"]), max_cost=1.0)
    countless = Budgeted(Scripted(["x", "never"]), max_tokens=1000)
    await ask(priceless)
    await ask(countless)

    with pytest.raises(
        BudgetSpent, match=r"does not tell what an answer costs, so max_cost=1 cannot be kept"
    ):
        await ask(priceless)
    with pytest.raises(BudgetSpent, match=r"does not tell how many tokens .*max_tokens=1000 cannot be kept"):
        await ask(countless)


async def test_a_stream_that_was_broken_off_is_unknown_and_refuses_nothing() -> None:
    model = Budgeted(Scripted([answer(50, 0.1), answer(5, 0.1)]), max_tokens=100, max_cost=1)

    async with aclosing(model.stream(REQUEST)) as pieces:
        assert isinstance(await anext(pieces), Words)
    await ask(model)

    assert model.spent == Spent(calls=2, tokens=5, cost=0.1, unknown_calls=1, unpriced_calls=1)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_whose_task_is_cancelled_is_unknown_and_refuses_nothing(streamed: bool) -> None:
    is_asked = asyncio.Event()

    async def hang_once(request: Request) -> Result:
        if not is_asked.is_set():
            is_asked.set()
            await asyncio.Event().wait()
        return answer(5, 0.1)

    model = Budgeted(Scripted(hang_once), max_tokens=100, max_cost=1)
    task = asyncio.create_task(ask(model, streamed=streamed))
    await is_asked.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ask(model, streamed=streamed)

    assert model.spent == Spent(calls=2, tokens=5, cost=0.1, unknown_calls=1, unpriced_calls=1)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("error", [ModelCancelled("stopped"), ModelTimeout("late")])
async def test_a_call_that_was_stopped_from_within_is_unknown_as_well(
    error: Exception, streamed: bool
) -> None:
    model = Budgeted(Scripted([error]), max_tokens=100)

    with pytest.raises(type(error)):
        await ask(model, streamed=streamed)

    assert model.spent == Spent(calls=1, unknown_calls=1, unpriced_calls=1)


@pytest.mark.parametrize("limit", [{"max_tokens": -1}, {"max_cost": float("nan")}, {"max_calls": -5}])
def test_a_limit_that_means_nothing_is_refused(limit: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(limit))):
        Budgeted(Scripted([]), **limit)  # type: ignore[arg-type]
