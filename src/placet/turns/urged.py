"""A model that is left only one tool when its turns run out: what must be said is said before the end.

Keep true: which word it says is its own; only that it says one is seen to.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from placet.inference.messages import Assistant, ToolResult
from placet.inference.model import Model, Piece, Request
from placet.inference.wrappers.wrapped import Wrapped


class Urged(Wrapped):
    """A model that must call a tool from its turn `after` + 1 on, if it has not done so until then, and is
    offered no other."""

    def __init__(self, model: Model, tool: str, *, after: int) -> None:
        super().__init__(model)
        self._tool = tool
        self._after = after

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes."""
        return super().stream(self._asked(request))

    def _asked(self, request: Request) -> Request:
        has_called = any(
            isinstance(each, ToolResult) and each.name == self._tool and not each.is_error
            for each in request.messages
        )
        if has_called or sum(isinstance(each, Assistant) for each in request.messages) < self._after:
            return request
        left = [each for each in request.tools if each.name == self._tool]
        return msgspec.structs.replace(request, tools=left, tool_choice="required") if left else request
