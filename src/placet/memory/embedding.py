"""Vectors of texts from an embedder that may fail: then there are none, and that is said once.

Keep true: whatever the embedder does, storing and finding facts goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placet.extras import has_module, install_command
from placet.inference.model import Embedder
from placet.safe_text import clean

if TYPE_CHECKING:
    import numpy

_log = logging.getLogger(__name__)
AT_ONCE = 64
"""Texts that are embedded together."""


class Embedding:
    """An embedder, and whether it can be used."""

    def __init__(self, embedder: Embedder | None, name: str | None = None) -> None:
        self._embedder = embedder
        self.model = name or str(getattr(embedder, "name", "") or type(embedder).__name__)
        """Name of the model; vectors of another one are not compared."""
        self.problem: str | None = None
        """Why there are no vectors, if there should be some."""
        self._said = False

    @property
    def is_there(self) -> bool:
        """Whether there is an embedder."""
        return self._embedder is not None

    async def query(self, text: str) -> numpy.ndarray[Any, Any] | None:
        """The vector of a query; `None` if there is none."""
        found = await self._vectors([text])
        return None if found is None else found[0]

    async def of_facts(self, texts: Mapping[str, str]) -> dict[str, bytes] | None:
        """By id, vectors as they are stored; `None` if they cannot be made."""
        found: dict[str, bytes] = {}
        ids = list(texts)
        for start in range(0, len(ids), AT_ONCE):
            chunk = ids[start : start + AT_ONCE]
            vectors = await self._vectors([texts[id] for id in chunk])
            if vectors is None:
                return None
            found |= {id: vector.astype("<f4").tobytes() for id, vector in zip(chunk, vectors, strict=True)}
        return found

    async def _vectors(self, texts: Sequence[str]) -> numpy.ndarray[Any, Any] | None:
        if self._embedder is None:
            return None
        if not has_module("numpy"):
            self.fail(f"numpy is not installed. Install it with: {install_command('embed')}")
            return None
        import numpy

        try:
            given = await self._embedder.embed(texts)
            made = numpy.asarray([list(each) for each in given], dtype=numpy.float32)
        except Exception as error:
            # A model of somebody else's may raise anything; the facts are there all the same.
            self.fail(f"the embedder failed ({type(error).__name__}: {error})")
            return None
        if (
            made.ndim != 2
            or made.shape[0] != len(texts)
            or not made.shape[1]
            or not numpy.isfinite(made).all()
        ):
            self.fail(f"the embedder returned no {len(texts)} vectors of one size")
            return None
        lengths = numpy.linalg.norm(made, axis=1, keepdims=True)
        self.problem = None
        return numpy.asarray(made / numpy.where(lengths > 0, lengths, 1.0), dtype=numpy.float32)

    def fail(self, problem: str) -> None:
        """Vectors cannot be used; say so, the first time."""
        self.problem = clean(problem)
        if not self._said:
            self._said = True
            _log.warning("Memory uses full text alone: %s", self.problem)
