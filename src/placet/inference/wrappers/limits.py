"""How long a model may take, and how a request is called off.

Keep true:
1. Everything inside counts: other attempts, and the waits between them.
2. The time that whoever reads a stream spends between two pieces does not count: a person who reads slowly
   is no slow model. Nor can such a reader be interrupted: a request that is called off meanwhile ends when
   the next piece is asked for.
3. When the error is raised, the stream underneath is closed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from math import isfinite
from time import monotonic
from typing import TypeVar

from placet.errors import ModelTimeout, UsageError
from placet.inference.model import Model, Piece, Request, stream
from placet.inference.wrappers.stopping import OutOfTime, unless_stopped
from placet.inference.wrappers.wrapped import Wrapped
from placet.tools.context import Cancel

T = TypeVar("T")

TOTAL_S = 600.0


class Limited(Wrapped):
    """Wrapper that limits the time of an answer and stops it when `Request.cancel` asks for it."""

    def __init__(
        self, model: Model, *, total_s: float = TOTAL_S, clock: Callable[[], float] = monotonic
    ) -> None:
        """Wrap a model.

        Args:
            model: The inner model.
            total_s: Time limit in seconds, including retries.
            clock: Monotonic clock in seconds.

        Raises:
            UsageError: the time is not above 0.
        """
        if not (isfinite(total_s) and total_s > 0):
            raise UsageError(f"Limited got total_s={total_s}: it must be more than zero.")
        super().__init__(model)
        self._total_s = total_s
        self._clock = clock

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector per text. Raises as `stream`."""
        ask = super().embed
        return await self._wait(lambda: ask(texts), None, self._total_s)

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes.

        Raises:
            ModelTimeout: there was none in time.
            ModelCancelled: the request was called off; before it began, nothing was asked.
        """
        left_s = self._total_s
        async with aclosing(stream(self.model, request)) as pieces:
            while True:
                began = self._clock()
                piece = await self._wait(lambda: anext(pieces, None), request.cancel, left_s)
                left_s -= self._clock() - began
                if piece is None:
                    return
                yield piece

    async def _wait(self, work: Callable[[], Awaitable[T]], cancel: Cancel | None, left_s: float) -> T:
        try:
            return await unless_stopped(work, name=self.name, cancel=cancel, within_s=left_s)
        except OutOfTime:
            raise ModelTimeout(
                f"{self.name} did not finish within {self._total_s:g} s. Ask for less, or allow more time."
            ) from None
