"""A model that is given by its name, as a string.

Keep true:
1. A name that means nothing is refused where it is given. The environment is read, and the model opened, when
   it is first asked, so that a program can build its objects without a key.
2. Whoever runs something with it opens it before the run begins: a missing key is raised, nothing has run.
3. Importing this module imports neither the wire formats nor an HTTP client.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from threading import Lock
from typing import TypeAlias, cast

from placet.inference.model import Model, Piece, Request, StreamingModel, check_model, makes_vectors, stream
from placet.inference.passage import reads_passages
from placet.inference.profile import LARGE, SMALL, SMALL_MODEL, ModelProfile

ModelLike: TypeAlias = Model | str
"""A model, or the name of one, such as `"openai:gpt-5"`. A name is opened with `open_model(name, os.environ)`
when the model is first needed."""


def model_given(given: object, taker: str) -> Model:
    """The model that was given to `taker`, as an object or as a name.

    Raises:
        UnknownModel: nobody knows the provider.
        UsageError: it is neither.
    """
    if isinstance(given, str):
        return NamedModel(given)
    check_model(given, taker)
    return cast(Model, given)


def make_ready(model: Model) -> None:
    """Open a model that was given by name.

    Raises:
        KeyMissing: the provider needs a key.
        ModelMissing: something that a local model needs is not installed.
        UnknownModel: there is no such model.
        InputError: a script or recording cannot be read.
    """
    if isinstance(model, NamedModel):
        model.open()


class NamedModel(StreamingModel):
    """A model by its name. It is opened when it is first asked."""

    def __init__(self, name: str) -> None:
        from placet.inference.opening import BUILT_IN
        from placet.inference.providers import PROVIDERS, split_name

        kind = name.partition(":")[0]
        if kind not in BUILT_IN:
            split_name(name, [*PROVIDERS, *BUILT_IN])
        self.name = name
        self._kind = kind
        self._lock = Lock()
        self._model: Model | None = None

    def open(self) -> Model:
        """The model itself."""
        with self._lock:
            if self._model is None:
                from placet.inference.opening import open_model

                self._model = open_model(self.name, os.environ)
            return self._model

    @property
    def names(self) -> Sequence[str] | None:
        """None: it is one model. A model that only makes vectors has no name under which it answers."""
        return () if self._kind == "embed" else None

    @property
    def reads_passages(self) -> bool:
        """Whether the model does."""
        return reads_passages(self.open())

    @property
    def profile(self) -> ModelProfile:
        """The profile of the model; known without opening it."""
        return SMALL if self._kind == SMALL_MODEL else LARGE

    @property
    def makes_vectors(self) -> bool:
        """Whether it can be asked for vectors; known without opening it."""
        from placet.inference.http import EmbeddingFormat
        from placet.inference.opening import wire_of
        from placet.inference.providers import PROVIDERS

        provider = PROVIDERS.get(self._kind)
        if provider is None:
            return self._kind == "embed"
        return isinstance(wire_of(provider.format), EmbeddingFormat)

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer in parts."""
        return stream(self.open(), request)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Vectors.

        Raises:
            UsageError: it makes none.
        """
        model = self.open()
        assert makes_vectors(model)
        return await model.embed(texts)

    async def close(self) -> None:
        """Close the model, if it was opened."""
        close = getattr(self._model, "close", None)
        if close is not None:
            await close()
