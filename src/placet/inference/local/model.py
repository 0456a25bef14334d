"""The model that runs on this machine: small, free, and asked through the same door as any other.

Keep true:
1. Nothing is started or loaded before the first question.
2. A server that was lost is replaced and asked once more, but never after the first piece of a stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from threading import Lock

import msgspec

from placet.errors import ModelUnavailable, RequestRefused, UsageError
from placet.inference.http import HttpModel
from placet.inference.local.reading import QWEN, ReadingModel
from placet.inference.local.shared import Lease, Served, lease
from placet.inference.local.weights import LOCAL, Weights, need, path_of
from placet.inference.messages import Image, User
from placet.inference.model import Model, Piece, Request, StreamingModel, stream
from placet.inference.profile import SMALL
from placet.inference.providers import Endpoint, Provider
from placet.inference.usage import Price
from placet.inference.wire.openai import OpenAiChat
from placet.truncation import truncate_repr

PROVIDER = Provider(name="local", format="openai", url="", tool_mode="schema", needs_key=False)
LINGER_VARIABLE = "PLACET_LINGER_S"
LINGER_S = 300.0
MOST_LINGER_S = 86_400
MOST_TOKENS = 1024
"""Of an answer for which the request sets no limit: left alone, a small model may not find an end."""


class _Here(Endpoint, frozen=True, kw_only=True):
    """The only model of its provider: it is called by one name."""

    @property
    def name(self) -> str:
        """As a person writes it."""
        return self.model


class LocalModel(StreamingModel):
    """The local model, on a server that all processes of this person share.

    Good for single tool calls, classification and short answers; not for long plans or whole programs.
    """

    name = "local"
    profile = SMALL

    def __init__(self, environment: Mapping[str, str], *, served: Served | None = None) -> None:
        """`served` is another model for llama.cpp, instead of the one that `placet model pull local` gets."""
        self._environment = environment
        self._served = served
        self._lease: Lease | None = None
        self._model: Model | None = None
        self._http: HttpModel | None = None
        self._lock = Lock()

    @property
    def reads_passages(self) -> bool:
        """Whether it is the model whose marks are known."""
        return self._served is None

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes."""
        request = _answerable(request)
        model, key = await self._ready()
        is_begun = False
        try:
            async with aclosing(stream(model, request)) as pieces:
                async for piece in pieces:
                    is_begun = True
                    yield piece
            return
        except ModelUnavailable as error:
            if error.status is not None or is_begun:
                raise
        model, _ = await self._ready(dead=key)
        async with aclosing(stream(model, request)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """Use the server no longer. Asked again, it is looked for anew."""
        with self._lock:
            held, http = self._lease, self._http
            self._lease = self._model = self._http = None
        if http is not None:
            await http.close()
        if held is not None:
            held.close()

    async def _ready(self, *, dead: str | None = None) -> tuple[Model, str]:
        """The model on a server that lives, and that server's key. The one with the key `dead` is
        asked first whether it does."""
        with self._lock:
            held = self._lease
            if held is not None and held.is_held and self._model is not None and held.key != dead:
                return self._model, held.key
        served = self._served or served_local(self._environment)
        found = await lease(served, self._environment, dead=dead)
        lost: HttpModel | None = None
        with self._lock:
            if self._lease is None or self._model is None or self._lease.key != found.key:
                lost = self._http
                self._http = HttpModel(
                    _endpoint(served, found), OpenAiChat(), price=Price(input=0.0, output=0.0)
                )
                answers = _with_tools(self._http)
                self._model = ReadingModel(answers, self._http, QWEN) if self.reads_passages else answers
            # The new one is held before the old one is let go.
            self._lease, old = found, self._lease
            model = self._model
        if old is not None:
            old.close()
        if lost is not None:
            await lost.close()
        return model, found.key


def served_local(environment: Mapping[str, str]) -> Served:
    """What the server is to load.

    Raises:
        ModelMissing: the extra or the weights are not there; says how to get them.
    """
    need(LOCAL, environment)
    served = served_by(LOCAL, path_of(LOCAL.files[0], environment))
    return msgspec.structs.replace(served, linger_s=linger_of(environment))


def linger_of(environment: Mapping[str, str]) -> float:
    """How long the server stays after its last user, in seconds.

    Raises:
        UsageError: the variable says no number of seconds.
    """
    said = environment.get(LINGER_VARIABLE)
    if not said:
        return LINGER_S
    try:
        seconds = float(said)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_LINGER_S:
        raise UsageError(
            f"{LINGER_VARIABLE} is {truncate_repr(said, 40)}. It is a number of seconds, from 0 to "
            f"{MOST_LINGER_S:,}."
        )
    return seconds


def served_by(weights: Weights, path: Path) -> Served:
    """Weights of one file, as a server has to know them."""
    return Served(name=weights.name, path=path, id=weights.files[0].sha256, memory=weights.memory)


def _answerable(request: Request) -> Request:
    """The request with a limit.

    Raises:
        RequestRefused: it holds what this model cannot read.
    """
    for message in request.messages:
        if isinstance(message, User) and any(isinstance(part, Image) for part in message.parts):
            raise RequestRefused(
                "'local' reads no images. Choose a model that does, or take the image out of the message."
            )
    if request.max_tokens is not None:
        return request
    return msgspec.structs.replace(request, max_tokens=MOST_TOKENS)


def _endpoint(served: Served, found: Lease) -> Endpoint:
    # Without a version: only there it answers what no format of another provider asks.
    return _Here(provider=PROVIDER, model=served.name, url=found.url, key=found.key)


def _with_tools(model: HttpModel) -> Model:
    from placet.inference.tool_modes.schema import SchemaTools

    return SchemaTools(model)
