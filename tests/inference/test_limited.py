"""How long a model may take, and how a request is called off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from threading import Thread

import pytest

from placet.errors import ModelCancelled, ModelTimeout, ModelUnavailable, UsageError
from placet.inference.messages import User
from placet.inference.model import Piece, Request, Result, Words, stream
from placet.inference.scripted import Scripted
from placet.inference.wrappers.limits import Limited
from placet.tools.context import Cancel


def asking(cancel: Cancel | None = None) -> Request:
    return Request(messages=[User("Hello")], cancel=cancel)


class Hanging:
    """Says one word, then nothing more; knows whether it was closed."""

    name = "hanging"

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.asked = 0
        self.closed = 0

    async def generate(self, request: Request) -> Result:
        self.asked += 1
        return await self._hang()

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        self.asked += 1
        try:
            yield Words("one")
            await self._hang()
        finally:
            self.closed += 1

    async def _hang(self) -> Result:
        self.waiting.set()
        await asyncio.Event().wait()
        raise AssertionError


class Clock:
    """Goes only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def subscriptions(cancel: Cancel) -> int:
    return len(cancel._soft) + len(cancel._callbacks)


async def drain(model: Limited, request: Request) -> list[Piece]:
    return [piece async for piece in model.stream(request)]


async def test_an_answer_in_time_is_passed_on() -> None:
    cancel = Cancel()
    model = Limited(Scripted(["here", "and here"], name="scripted:x"))

    assert (await model.generate(asking(cancel))).text == "here"
    assert (await drain(model, asking(cancel)))[-1] == Result(text="and here", model="scripted:x")
    assert model.name == "scripted:x"
    assert subscriptions(cancel) == 0


async def test_too_late_is_a_timeout_with_words() -> None:
    with pytest.raises(ModelTimeout, match=r"hanging did not finish within 0\.01 s"):
        await Limited(Hanging(), total_s=0.01).generate(asking())


async def test_a_stream_that_stalls_is_closed_and_timed_out() -> None:
    inside = Hanging()
    seen: list[Piece] = []

    with pytest.raises(ModelTimeout):
        async for piece in Limited(inside, total_s=0.05).stream(asking()):
            seen.append(piece)

    assert seen == [Words("one")]
    assert inside.closed == 1


async def test_the_readers_own_time_does_not_count() -> None:
    clock = Clock()
    seen = []

    async for piece in Limited(Scripted(["many words in many pieces"]), total_s=10, clock=clock).stream(
        asking()
    ):
        seen.append(piece)
        clock.now += 1000

    assert isinstance(seen[-1], Result)


async def test_the_models_time_adds_up_over_the_pieces() -> None:
    clock = Clock()

    class Slow(Scripted):
        async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
            for _ in range(5):
                clock.now += 4
                yield Words("x")

    seen: list[Piece] = []
    with pytest.raises(ModelTimeout):
        async for piece in Limited(Slow([]), total_s=10, clock=clock).stream(asking()):
            seen.append(piece)

    assert len(seen) == 3


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("way", ["generate", "stream"])
async def test_a_cancel_from_another_thread_ends_the_request(hard: bool, way: str) -> None:
    cancel = Cancel()
    inside = Hanging()
    model = Limited(inside)
    work = model.generate(asking(cancel)) if way == "generate" else drain(model, asking(cancel))
    task = asyncio.create_task(work)
    await inside.waiting.wait()
    Thread(target=lambda: cancel.cancel("stop\x1b[31m it", hard=hard)).start()

    with pytest.raises(
        ModelCancelled, match=r"The request to hanging was called off: stop\\e\[31m it\."
    ) as caught:
        await task

    assert "\x1b" not in str(caught.value)
    assert inside.closed == (way == "stream")
    assert subscriptions(cancel) == 0


async def test_what_is_called_off_before_it_begins_is_not_asked() -> None:
    cancel = Cancel()
    cancel.cancel()
    inside = Hanging()

    with pytest.raises(ModelCancelled):
        await Limited(inside).generate(asking(cancel))
    with pytest.raises(ModelCancelled):
        await drain(Limited(inside), asking(cancel))

    assert inside.asked == 0


async def test_a_cancel_while_the_reader_works_ends_the_stream_at_the_next_piece() -> None:
    cancel = Cancel()
    inside = Hanging()
    seen: list[Piece] = []

    with pytest.raises(ModelCancelled):
        async for piece in Limited(inside).stream(asking(cancel)):
            seen.append(piece)
            cancel.cancel()

    assert seen == [Words("one")]
    assert inside.closed == 1
    assert not inside.waiting.is_set()


@pytest.mark.parametrize("way", ["generate", "stream"])
async def test_a_cancelled_task_is_cancelled_and_nothing_else(way: str) -> None:
    cancel = Cancel()
    inside = Hanging()
    model = Limited(inside)
    work = model.generate(asking(cancel)) if way == "generate" else drain(model, asking(cancel))
    task = asyncio.create_task(work)
    await inside.waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert task.cancelled()
    assert inside.closed == (way == "stream")
    assert subscriptions(cancel) == 0


async def test_a_task_that_was_stopped_can_go_on_waiting_for_other_things() -> None:
    cancel = Cancel()
    inside = Hanging()

    async def stop() -> None:
        await inside.waiting.wait()
        cancel.cancel()

    stopping = asyncio.create_task(stop())
    with pytest.raises(ModelCancelled):
        await Limited(inside).generate(asking(cancel))
    await stopping
    await asyncio.sleep(0)

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_closing_the_stream_closes_the_one_underneath() -> None:
    cancel = Cancel()
    inside = Hanging()

    async with aclosing(stream(Limited(inside), asking(cancel))) as pieces:
        assert await anext(pieces) == Words("one")

    assert inside.closed == 1
    assert subscriptions(cancel) == 0


async def test_errors_of_the_model_pass_even_a_timeout_of_its_own() -> None:
    error = TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await Limited(Scripted([error])).generate(asking(Cancel()))
    with pytest.raises(ModelUnavailable):
        await Limited(Scripted([ModelUnavailable("away")])).generate(asking(Cancel()))


async def test_whatever_a_stopped_model_says_on_its_way_out_it_was_called_off() -> None:
    cancel = Cancel()

    class Loud(Hanging):
        async def generate(self, request: Request) -> Result:
            try:
                return await self._hang()
            except asyncio.CancelledError:
                raise ModelUnavailable("the connection was closed") from None

    inside = Loud()
    task = asyncio.create_task(Limited(inside).generate(asking(cancel)))
    await inside.waiting.wait()
    cancel.cancel()

    with pytest.raises(ModelCancelled):
        await task


@pytest.mark.parametrize("total_s", [0, -1, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(total_s: float) -> None:
    with pytest.raises(UsageError, match="total_s"):
        Limited(Scripted([]), total_s=total_s)
