"""What all wrappers share."""

from __future__ import annotations

from collections.abc import Sequence

from placet.errors import ModelMissing
from placet.inference.model import Model, makes_vectors
from placet.inference.passage import reads_passages


class Wrapped:
    """A model around another one. To whoever asks, it has the name of the one inside."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        """What the model inside is called; its class where it has no name."""
        return getattr(self.model, "name", "") or type(self.model).__name__

    @property
    def names(self) -> Sequence[str] | None:
        """What the models are called that stand behind the one inside; None where it is just one."""
        return getattr(self.model, "names", None)

    @property
    def reads_passages(self) -> bool:
        """Whether the model inside does."""
        return reads_passages(self.model)

    @property
    def makes_vectors(self) -> bool:
        """Whether the model inside does."""
        return makes_vectors(self.model)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector per text, of the model inside.

        Raises:
            ModelMissing: it makes none.
        """
        if not makes_vectors(self.model):
            raise ModelMissing(f"{self.name} makes no vectors. Ask a model that does.")
        return await self.model.embed(texts)

    async def close(self) -> None:
        """Let the model inside let go of what it holds."""
        close = getattr(self.model, "close", None)
        if close is not None:
            await close()
