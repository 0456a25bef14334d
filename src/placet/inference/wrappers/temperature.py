"""A model at a temperature of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from placet.inference.model import Model, Piece, Request, stream
from placet.inference.wrappers.wrapped import Wrapped


class AtTemperature(Wrapped):
    """Asks the inner model at one temperature, whatever a request says."""

    def __init__(self, model: Model, temperature: float) -> None:
        super().__init__(model)
        self._temperature = temperature

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Yield the answer of the inner model in parts."""
        return stream(self.model, msgspec.structs.replace(request, temperature=self._temperature))
