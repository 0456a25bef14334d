"""What all wrappers share."""

from __future__ import annotations

from assent.inference.model import Model


class Wrapped:
    """A model around another one. To whoever asks, it has the name of the one inside."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        """What the model inside is called; its class where it has no name."""
        return getattr(self.model, "name", "") or type(self.model).__name__

    async def close(self) -> None:
        """Let the model inside let go of what it holds."""
        close = getattr(self.model, "close", None)
        if close is not None:
            await close()
