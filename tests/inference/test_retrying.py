"""Once more, where the same request may be answered later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from threading import Thread

import pytest

from placet.errors import (
    KeyRefused,
    ModelCancelled,
    ModelError,
    ModelMissing,
    ModelUnavailable,
    RateLimited,
    RequestRefused,
    UsageError,
)
from placet.inference.messages import User
from placet.inference.model import Piece, Request, Result, Words, makes_vectors, stream
from placet.inference.scripted import Scripted
from placet.inference.wrappers.limits import Limited
from placet.inference.wrappers.reasoning import ReasoningApart
from placet.inference.wrappers.retry import Retrying
from placet.tools.context import Cancel

REQUEST = Request(messages=[User("Hello")])


class Waits:
    """A sleep that takes no time and remembers how long it was to be."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.now = 0.0

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


def retrying(model: Scripted, waits: Waits, *, attempts: int = 3, random: float = 0.5) -> Retrying:
    return Retrying(model, attempts=attempts, sleep=waits, random=lambda: random, clock=waits.clock)


async def pieces_of(model: Retrying) -> list[Piece]:
    return [piece async for piece in stream(model, REQUEST)]


async def test_what_may_pass_is_asked_again() -> None:
    model = Scripted([ModelUnavailable("away"), RateLimited("slowly"), "here"])
    waits = Waits()

    result = await retrying(model, waits).generate(REQUEST)

    assert result.text == "here"
    assert len(model.requests) == 3
    assert waits.seconds == [0.25, 0.5]
    assert result.latency_ms == pytest.approx(750)


async def test_an_answer_at_once_is_passed_on_as_it_is() -> None:
    whole = Result(text="here", latency_ms=12.5)

    assert await retrying(Scripted([Result(text="here", latency_ms=12.5, model="m")]), Waits()).generate(
        REQUEST
    ) == Result(text=whole.text, latency_ms=whole.latency_ms, model="m")


@pytest.mark.parametrize("error", [KeyRefused("no"), RequestRefused("no"), ValueError("a bug")])
async def test_what_cannot_pass_is_asked_once(error: Exception) -> None:
    model = Scripted([error, "never"])
    waits = Waits()

    with pytest.raises(type(error)) as caught:
        await retrying(model, waits).generate(REQUEST)

    assert caught.value is error
    assert len(model.requests) == 1
    assert waits.seconds == []


async def test_the_last_error_says_how_often_it_was_asked() -> None:
    first, last = ModelUnavailable("away", status=503), ModelUnavailable("Still away.", status=502)
    model = Scripted([first, last])

    with pytest.raises(ModelUnavailable, match=r"^Still away\. Asked 2 times\.$") as caught:
        await retrying(model, Waits(), attempts=2).generate(REQUEST)

    assert caught.value.status == 502
    assert caught.value.__cause__ is last
    assert str(last) == "Still away."


async def test_an_error_class_of_somebody_elses_keeps_its_class_and_fields() -> None:
    class Busy(ModelError):
        may_pass = True

        def __init__(self, host: str, port: int) -> None:
            self.host = host
            super().__init__(f"{host}:{port} is busy.")

    model = Scripted([Busy("a", 1)])

    with pytest.raises(Busy, match=r"^a:1 is busy\. Asked once\.$") as caught:
        await retrying(model, Waits(), attempts=1).generate(REQUEST)

    assert caught.value.host == "a"


async def test_waits_are_random_below_a_bound_that_doubles_up_to_a_cap() -> None:
    errors: list[ModelError] = [ModelUnavailable("away") for _ in range(8)]
    waits = Waits()

    with pytest.raises(ModelUnavailable):
        await retrying(Scripted(errors), waits, attempts=8, random=1.0).generate(REQUEST)

    assert waits.seconds == [0.5, 1, 2, 4, 8, 8, 8]


async def test_the_servers_wish_is_a_least_wait() -> None:
    waits = Waits()

    await retrying(Scripted([RateLimited("slowly", retry_after_s=7.0), "here"]), waits).generate(REQUEST)

    assert waits.seconds == [7.0]


async def test_a_wish_longer_than_anybody_waits_ends_it_and_says_when_to_try_again() -> None:
    model = Scripted([RateLimited("Slowly.", retry_after_s=300), "never"])
    waits = Waits()

    with pytest.raises(RateLimited, match=r"Slowly\. Asked once; try again in 300 s\."):
        await retrying(model, waits).generate(REQUEST)

    assert len(model.requests) == 1
    assert waits.seconds == []


async def test_a_stream_that_fails_before_its_first_piece_is_asked_again() -> None:
    model = Scripted([ModelUnavailable("away"), "a sentence of words"])
    waits = Waits()

    *words, last = await pieces_of(retrying(model, waits))

    assert "".join(piece.text for piece in words if isinstance(piece, Words)) == "a sentence of words"
    assert isinstance(last, Result)
    assert last.latency_ms == pytest.approx(250)


async def test_a_stream_that_was_begun_is_never_asked_again() -> None:
    class Breaking(Scripted):
        async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
            self.requests.append(request)
            yield Words("half")
            raise ModelUnavailable("hung up")

    model = Breaking([])
    waits = Waits()
    seen: list[Piece] = []

    with pytest.raises(ModelUnavailable, match=r"^hung up$"):
        async for piece in retrying(model, waits).stream(REQUEST):
            seen.append(piece)

    assert seen == [Words("half")]
    assert len(model.requests) == 1
    assert waits.seconds == []


async def test_a_request_that_is_called_off_during_the_wait_ends() -> None:
    cancel = Cancel()
    model = Scripted([ModelUnavailable("away"), "never"])

    async def wait_forever(seconds: float) -> None:
        Thread(target=cancel.cancel, args=("the user pressed stop",)).start()
        await asyncio.Event().wait()

    with pytest.raises(ModelCancelled, match="the user pressed stop"):
        await Retrying(model, sleep=wait_forever).generate(Request(messages=[], cancel=cancel))

    assert len(model.requests) == 1


async def test_a_cancelled_task_is_cancelled_during_the_wait() -> None:
    waiting = asyncio.Event()

    async def wait_forever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(
        Retrying(Scripted([ModelUnavailable("away")]), sleep=wait_forever).generate(REQUEST)
    )
    await waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_name_is_that_of_the_model_inside() -> None:
    class Nameless:
        async def generate(self, request: Request) -> Result:
            raise NotImplementedError

    assert Retrying(Retrying(Scripted([], name="scripted:x"))).name == "scripted:x"
    assert Retrying(Nameless()).name == "Nameless"


async def test_closing_goes_through_to_the_model_inside() -> None:
    class Held(Scripted):
        is_closed = False

        async def close(self) -> None:
            self.is_closed = True

    inside = Held([])
    await Retrying(Retrying(inside)).close()
    await Retrying(Scripted([])).close()

    assert inside.is_closed


def test_fewer_attempts_than_one_are_refused() -> None:
    with pytest.raises(UsageError, match="attempts=0"):
        Retrying(Scripted([]), attempts=0)


async def test_vectors_are_asked_for_again_too_through_every_wrapper() -> None:
    class Vectors:
        asked = 0

        async def generate(self, request: Request) -> Result:
            raise AssertionError

        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            self.asked += 1
            if self.asked < 3:
                raise ModelUnavailable("not yet")
            return [[1.0] for _ in texts]

    inside = Vectors()
    model = Limited(Retrying(ReasoningApart(inside), sleep=Waits()))

    assert makes_vectors(model)
    assert await model.embed(["a", "b"]) == [[1.0], [1.0]]
    assert inside.asked == 3


async def test_a_model_without_vectors_has_none_when_it_is_wrapped() -> None:
    model = Limited(Retrying(Scripted([])))

    assert not makes_vectors(model)
    with pytest.raises(ModelMissing, match="scripted makes no vectors"):
        await model.embed(["a"])
