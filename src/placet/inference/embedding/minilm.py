"""MiniLM: the meaning of a text as 384 numbers, on this machine.

Keep true:
1. Nothing is loaded before the first text, and then once per process, however many ask.
2. The vector of a text does not depend on what else is asked for with it.
3. The event loop goes on while the model works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

from placet.errors import ModelMissing, RequestRefused
from placet.inference.embedding.wordpiece import WordPiece
from placet.inference.local.weights import EMBED, need, path_of
from placet.inference.model import Request, Vectors
from placet.inference.usage import Usage

if TYPE_CHECKING:
    import numpy

WIDTH = 384
_AT_ONCE = 1024
"""Tokens in one batch, filling included."""
_MOST_THREADS = 4
_LOADING = Lock()


class MiniLm:
    """An embedder. Texts that mean the same have vectors that point the same way."""

    name = "embed"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector of length 1 per text, in order. Of a long text the first 256 pieces count.

        Raises:
            ModelMissing: the extra or the files are not there; says how to get them.
        """
        if not texts:
            return Vectors([])
        need(EMBED, self._environment)
        model, vocabulary = (path_of(file, self._environment) for file in EMBED.files)
        return await asyncio.to_thread(_vectors, model, vocabulary, list(texts))

    async def generate(self, request: Request) -> NoReturn:
        """Not what it is for.

        Raises:
            RequestRefused: always.
        """
        raise RequestRefused("'embed' turns texts into vectors and answers nothing. Choose another model.")


def _vectors(model: Path, vocabulary: Path, texts: list[str]) -> Vectors:
    with _LOADING:
        words, session = _loaded(model, vocabulary)
    ids = [words.ids(text) for text in texts]
    found: list[list[float]] = [[] for _ in texts]
    for batch in _batches(ids):
        for place, vector in zip(batch, _embedded(session, [ids[place] for place in batch]), strict=True):
            found[place] = vector.tolist()
    return Vectors(found, usage=Usage(input=sum(map(len, ids)), output=0), cost=0.0)


def _batches(ids: list[list[int]]) -> Iterator[list[int]]:
    """Places of texts of like length together: the shorter ones are filled up to the longest."""
    batch: list[int] = []
    for place in sorted(range(len(ids)), key=lambda place: len(ids[place])):
        if batch and (len(batch) + 1) * len(ids[place]) > _AT_ONCE:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _embedded(session: Any, ids: list[list[int]]) -> numpy.ndarray[Any, Any]:
    """The mean over the pieces of each text, brought to length 1."""
    import numpy

    longest = max(map(len, ids))
    tokens = numpy.zeros((len(ids), longest), dtype=numpy.int64)
    mask = numpy.zeros_like(tokens)
    for row, each in enumerate(ids):
        tokens[row, : len(each)] = each
        mask[row, : len(each)] = 1
    given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": numpy.zeros_like(tokens)}
    states = session.run(None, given)[0]
    sums = (states * mask[..., None]).sum(axis=1)
    unit: numpy.ndarray[Any, Any] = sums / numpy.linalg.norm(sums, axis=1, keepdims=True)
    return unit


@lru_cache(maxsize=1)
def _loaded(model: Path, vocabulary: Path) -> tuple[WordPiece, Any]:
    """The vocabulary and the model, ready."""
    import os

    import onnxruntime  # type: ignore[import-untyped,unused-ignore]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(os.cpu_count() or 1, _MOST_THREADS)
    options.log_severity_level = 4
    try:
        words = WordPiece(vocabulary.read_text(encoding="utf-8").split("\n"))
        session = onnxruntime.InferenceSession(
            str(model), sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        # onnxruntime raises classes of its own for each way in which a file can be wrong.
        raise ModelMissing(
            f"The files of 'embed' cannot be loaded ({type(error).__name__}). Fetch them again: "
            "placet model rm embed, then placet model pull embed"
        ) from error
    return words, session
