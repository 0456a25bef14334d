"""Once more, where the same request may be answered later.

Keep true:
1. Only what may pass is tried again, and never after the first piece of a stream: somebody has read it.
2. The server's own wish is honoured: never earlier, and not at all where it is longer than anybody waits.
"""

from __future__ import annotations

import asyncio
import random as random_numbers
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from time import perf_counter
from typing import TypeVar

import msgspec

from placet.errors import ModelError, UsageError
from placet.inference.model import Model, Piece, Request, Result, stream
from placet.inference.wrappers.stopping import unless_stopped
from placet.inference.wrappers.wrapped import Wrapped
from placet.tools.context import Cancel

ATTEMPTS = 3
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 8.0
LONGEST_RETRY_AFTER_S = 60.0
"""A server that wants to be left alone for longer is not waited for."""

E = TypeVar("E", bound=ModelError)


class Retrying(Wrapped):
    """Wrapper that repeats a request if that may help.

    The wait before an attempt is random, up to a bound that doubles each time.
    """

    def __init__(
        self,
        model: Model,
        *,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_numbers.random,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """Wrap a model.

        Args:
            model: The inner model.
            attempts: Maximum number of attempts, including the first.
            sleep: Waits for a number of seconds.
            random: Returns a number from 0 to 1.
            clock: Monotonic clock in seconds.

        Raises:
            UsageError: there are fewer attempts than one.
        """
        if attempts < 1:
            raise UsageError(f"Retrying got attempts={attempts}: it must be one or more.")
        super().__init__(model)
        self._attempts = attempts
        self._sleep = sleep
        self._random = random
        self._clock = clock

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector per text. Raises as `stream`."""
        attempt = 1
        while True:
            try:
                return await super().embed(texts)
            except ModelError as error:
                await self._wait(error, attempt, None)
            attempt += 1

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes; its latency covers all attempts.

        Raises:
            ModelError: of the last attempt; says how many there were.
        """
        began = self._clock()
        attempt = 1
        while True:
            has_begun = False
            try:
                async with aclosing(stream(self.model, request)) as pieces:
                    async for piece in pieces:
                        has_begun = True
                        yield self._told(piece, attempt, began) if isinstance(piece, Result) else piece
                return
            except ModelError as error:
                if has_begun:
                    raise
                await self._wait(error, attempt, request.cancel)
            attempt += 1

    def _told(self, result: Result, attempt: int, began: float) -> Result:
        if attempt == 1:
            return result
        return msgspec.structs.replace(result, latency_ms=(self._clock() - began) * 1000)

    async def _wait(self, error: ModelError, attempt: int, cancel: Cancel | None) -> None:
        """Until the next attempt; raises where there is to be none."""
        if not error.may_pass:
            raise error
        asked = error.retry_after_s or 0.0
        if asked > LONGEST_RETRY_AFTER_S:
            raise _worded(error, f"Asked {_times(attempt)}; try again in {asked:.0f} s.") from error
        if attempt >= self._attempts:
            raise _worded(error, f"Asked {_times(attempt)}.") from error
        bound = min(FIRST_WAIT_S * 2 ** (attempt - 1), LONGEST_WAIT_S)
        wait_s = max(asked, bound * self._random())
        await unless_stopped(lambda: self._sleep(wait_s), name=self.name, cancel=cancel)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _worded(error: E, words: str) -> E:
    """The same error with more to say. The first one stays as it is: it may be raised elsewhere, too."""
    # Not through its constructor: a class of somebody else's may want other arguments.
    told = type(error).__new__(type(error), f"{error} {words}")
    told.__dict__.update(error.__dict__)
    return told
