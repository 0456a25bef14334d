"""Models that implement `stream`: their `generate` is its last piece, asked for in one piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

import placet.agents.runner
import placet.coder.proposing
import placet.inference.local.reading
import placet.inference.wrappers.temperature
import placet.turns.closed_by
import placet.turns.guided
import placet.turns.recording
import placet.turns.urged
from placet.errors import AnswerUnreadable
from placet.inference.messages import User
from placet.inference.model import Piece, Request, Result, StreamingModel, Words
from placet.inference.opening import around
from placet.inference.providers import PROVIDERS, Endpoint
from placet.inference.wrappers.wrapped import Wrapped

ASKED = Request(messages=[User("Hello")])
OPENED = (placet.agents.runner, placet.coder.proposing, placet.inference.local.reading)
OPENED += (placet.inference.wrappers.temperature,)
OPENED += (placet.turns.closed_by, placet.turns.guided, placet.turns.recording, placet.turns.urged)
"""Where wrappers are, so that all of them are known."""


class Letters(StreamingModel):
    """Says its letters one by one, and notes how it was asked."""

    def __init__(self, *letters: str, ends: bool = True) -> None:
        self.letters = letters
        self.ends = ends
        self.requests: list[Request] = []
        self.is_closed = False

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        self.requests.append(request)
        try:
            for letter in self.letters:
                yield Words(letter)
            if self.ends:
                yield Result(text="".join(self.letters))
        finally:
            self.is_closed = True


async def test_generate_is_the_last_piece_and_asks_for_nothing_else() -> None:
    model = Letters("a", "b")

    result = await model.generate(ASKED)

    assert result.text == "ab"
    assert [each.stream for each in model.requests] == [False]
    assert model.is_closed


async def test_the_whole_stack_passes_on_that_nobody_reads_the_pieces() -> None:
    inside = Letters("a", "b")
    found = Endpoint(provider=PROVIDERS["ollama"], model="m", url="http://127.0.0.1:9", key=None)
    stack = around(inside, found)

    whole = await stack.generate(ASKED)
    streamed = [piece async for piece in stack.stream(ASKED)]  # type: ignore[attr-defined]

    assert whole == streamed[-1]
    assert [each.stream for each in inside.requests] == [False, True]


async def test_a_stream_without_a_result_is_an_error() -> None:
    with pytest.raises(AnswerUnreadable):
        await Letters("a", ends=False).generate(ASKED)


def test_no_wrapper_has_a_second_way_to_answer() -> None:
    def below(kind: type) -> list[type]:
        return [each for sub in kind.__subclasses__() for each in (sub, *below(sub))]

    ours = [each for each in below(Wrapped) if each.__module__.startswith("placet.")]

    assert len(ours) >= 12
    assert [each for each in ours if "generate" in vars(each)] == []
