"""What all wrappers share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from placet.errors import ModelMissing
from placet.inference.model import Model, Piece, Request, Result, last_piece, makes_vectors, stream
from placet.inference.passage import reads_passages
from placet.inference.profile import ModelProfile, profile_of


class Wrapped:
    """Base class of wrappers: a model around another one, with the name of the inner one."""

    def __init__(self, model: Model) -> None:
        """Wrap a model.

        Args:
            model: The inner model.
        """
        self.model = model
        """The inner model."""

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Yield the answer of the inner model in parts.

        Args:
            request: The request.
        """
        return stream(self.model, request)

    async def generate(self, request: Request) -> Result:
        """Return the whole answer, the last piece of `stream`.

        Args:
            request: The request.
        """
        return await last_piece(self, request)

    @property
    def name(self) -> str:
        """Name of the inner model; the name of its class if it has none."""
        return getattr(self.model, "name", "") or type(self.model).__name__

    @property
    def names(self) -> Sequence[str] | None:
        """Names of the models behind the inner one; `None` if it is a single model."""
        return getattr(self.model, "names", None)

    @property
    def reads_passages(self) -> bool:
        """Whether the model inside does."""
        return reads_passages(self.model)

    @property
    def profile(self) -> ModelProfile:
        """Profile of the inner model."""
        return profile_of(self.model)

    @property
    def makes_vectors(self) -> bool:
        """Whether the model inside does."""
        return makes_vectors(self.model)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return vectors of the inner model.

        Args:
            texts: The texts.

        Raises:
            ModelMissing: it makes none.
        """
        if not makes_vectors(self.model):
            raise ModelMissing(f"{self.name} makes no vectors. Ask a model that does.")
        return await self.model.embed(texts)

    async def close(self) -> None:
        """Close the inner model."""
        close = getattr(self.model, "close", None)
        if close is not None:
            await close()
