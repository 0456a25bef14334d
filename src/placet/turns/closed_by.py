"""A model whose conversation is over once it has called a certain tool: small ones do not end by themselves.

Keep true: only a call that succeeded closes it, so a model that is refused is asked again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from placet.inference.messages import Assistant, ToolResult
from placet.inference.model import Model, Piece, Request, Result
from placet.inference.usage import Usage
from placet.inference.wrappers.wrapped import Wrapped


class ClosedBy(Wrapped):
    """A model that is not asked again after so many turns in which it called the tool, the last of them with
    nothing else; `words` then are its answer."""

    def __init__(self, model: Model, tool: str, words: Callable[[], str], *, turns: int = 1) -> None:
        super().__init__(model)
        self._tool = tool
        self._words = words
        self._turns = turns

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes."""
        return self._closing() if self._is_closed(request) else super().stream(request)

    async def _closing(self) -> AsyncGenerator[Piece, None]:
        yield Result(text=self._words(), usage=Usage(input=0, output=0), cost=0.0)

    def _is_closed(self, request: Request) -> bool:
        """Whether it was called last, and as often as wanted."""
        turns = 0
        has_called = False
        for message in reversed(request.messages):
            if isinstance(message, ToolResult):
                is_call = message.name == self._tool and not message.is_error
                if not is_call and not turns:
                    return False
                has_called = has_called or is_call
            elif isinstance(message, Assistant) and (has_called or turns):
                turns, has_called = turns + has_called, False
                if turns >= self._turns:
                    return True
            else:
                return False
        return False
