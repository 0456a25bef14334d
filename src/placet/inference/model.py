"""The one seam to models: a request goes in, a result comes out.

Any object with `generate` is a model. One that can also hand out its words as they come has `stream`; ours
inherit `StreamingModel` and implement only `stream`: `generate` is its last piece.

Keep true:
1. A request is never changed by whoever serves it.
2. The last piece of a stream is the whole `Result`, equal to what `generate` would have returned.
3. What goes wrong is a `ModelError`; cancelling a task cancels what it asked for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from math import nan
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard, get_args, runtime_checkable

import msgspec

from placet.errors import AnswerUnreadable, UsageError
from placet.inference.messages import Assistant, Carried, Message, ToolCall
from placet.inference.passage import Passage
from placet.inference.usage import Usage
from placet.ir.json_value import JsonValue
from placet.ir.to_dict import ToDict
from placet.ir.tool_spec import ToolSchema
from placet.tools.context import Cancel
from placet.truncation import truncate_repr

Stop = Literal["end", "calls", "length", "stop", "refused", "other"]
"""Why an answer ended.

- `end`: it is complete.
- `calls`: the model asks for tools.
- `length`: it reached the limit on its length.
- `stop`: it came to a text of `Request.stop`.
- `refused`: the model or the provider refused.
- `other`: something else.
"""

ToolChoice = Literal["auto", "required", "none"]
"""Whether a model asks for tools.

- `auto`: it may.
- `required`: it must.
- `none`: it must not.
"""
Thinking = Literal["off", "low", "medium", "high"]
"""How much the model reasons before it answers."""
Task = Literal["chat", "code", "judge", "classify", "summarize"]
"""Kind of work that a request is for."""
Prefer = Literal["quality", "speed"]
"""Prefer the better or the faster model."""
Ability = Literal["tools", "images", "long_context"]
"""Something that a model must be able to do."""


_TOOL_CHOICES = get_args(ToolChoice)
_THINKING = (None, *get_args(Thinking))


def _number(value: object) -> float:
    """The number, or one that is in no range."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else nan


def _no_choice(name: str, value: object, known: Iterable[object]) -> UsageError:
    words = ", ".join(repr(each) for each in known)
    return UsageError(f"Request({name}=...) got {truncate_repr(value, 80)}. It is one of {words}.")


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """Purpose of a request; `Models` chooses a model by it."""

    task: Task = "chat"
    """Kind of work."""
    prefer: Prefer = "quality"
    """`"quality"` or `"speed"`."""
    requires: Sequence[Ability] = ()
    """Abilities that the model must have."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model. A model never changes it."""

    messages: Sequence[Message]
    """The conversation so far, in order."""
    tools: Sequence[ToolSchema] = ()
    """Tools that the model may ask for, such as `runtime.tools.schemas()`."""
    tool_choice: ToolChoice = "auto"
    """Whether the model may, must or must not ask for tools."""
    temperature: float | None = 0.0
    """From 0 to 2. `None`: the provider decides; so does `thinking`, if a provider allows no other."""
    max_tokens: int | None = None
    """Maximum length of the answer in tokens. `None`: the provider decides."""
    stop: Sequence[str] = ()
    """Texts at which the answer ends."""
    schema: Mapping[str, JsonValue] | None = None
    """JSON Schema that the answer must match; the text is then JSON."""
    thinking: Thinking | None = None
    """How much the model reasons. `None`: the provider decides."""
    passage: Passage | None = None
    """A line to read instead of the messages, for models with `reads_passages`; the text of the answer is
    JSON for `doubts_in`."""
    cache: bool = True
    """Whether the beginning of the conversation will be sent again, so that caching it pays."""
    stream: bool = True
    """Whether somebody reads the parts of the answer. `generate` asks without: the provider then sends it in
    one piece, which costs less."""
    model: str | None = None
    """Name of the model that must answer, `provider:name`."""
    intent: Intent | None = None
    """Purpose of the request, if no model is named."""
    cancel: Cancel | None = None
    """Request to stop: the call ends immediately and the connection is closed."""

    def __post_init__(self) -> None:
        """Tell whoever builds it what cannot be meant, before it is sent to anybody.

        Raises:
            UsageError: a field is of another kind.
        """
        messages = self.messages
        if not isinstance(messages, list | tuple):
            raise UsageError(
                f'Request(messages=...) got {truncate_repr(messages, 80)}. Give a list: [User("...")].'
            )
        # The first and the last: looking at all of them each turn would make long conversations dear.
        for message in (*messages[:1], *messages[-1:]):
            if not isinstance(message, Message):
                raise UsageError(
                    f"Request(messages=...) holds {truncate_repr(message, 80)}. A message is a System, "
                    "User, Assistant or "
                    "ToolResult of placet.inference."
                )
        if self.tool_choice not in _TOOL_CHOICES:
            raise _no_choice("tool_choice", self.tool_choice, _TOOL_CHOICES)
        if self.thinking is not None and self.thinking not in _THINKING:
            raise _no_choice("thinking", self.thinking, _THINKING)
        if self.temperature is not None and not 0 <= _number(self.temperature) <= 2:
            raise UsageError(
                f"Request(temperature=...) got {truncate_repr(self.temperature, 80)}. It is from 0 to 2."
            )
        if self.max_tokens is not None and not _number(self.max_tokens) >= 1:
            raise UsageError(
                f"Request(max_tokens=...) got {truncate_repr(self.max_tokens, 80)}. It is 1 or more."
            )


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The model that was chosen, and why."""

    model: str
    """Name of the model."""
    role: str | None = None
    """Role in which it was asked; `None` if it was named."""
    because: str
    """Why it was chosen."""


class Result(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a model."""

    text: str = ""
    """The text."""
    calls: Sequence[ToolCall] = ()
    """The tools that the model asks for. Nothing has run yet."""
    reasoning: str = ""
    """The reasoning, if the model shows it."""
    usage: Usage | None = None
    """Tokens as the provider counts them; `None` if they are not reported."""
    cost: float | None = None
    """Cost in US dollars; `None` if usage or price are not known."""
    model: str = ""
    """Name of the model that answered, as it calls itself."""
    latency_ms: float = 0.0
    """Time from the request to the end of the answer in milliseconds, including retries."""
    stop: Stop = "end"
    """Why the answer ended."""
    carried: Carried | None = None
    """Data that must be sent back to the provider."""
    choice: Choice | None = None
    """Which model was chosen, if several are set up."""

    @property
    def message(self) -> Assistant:
        """The message to append to the conversation."""
        return Assistant(text=self.text, calls=self.calls, carried=self.carried)


class Words(msgspec.Struct, frozen=True):
    """Part of the text, as it arrives."""

    text: str
    """The part."""


class Thought(msgspec.Struct, frozen=True):
    """Part of the reasoning, as it arrives."""

    text: str
    """The part."""


Piece: TypeAlias = Words | Thought | Result
"""Part of a streamed answer; the last one is the whole `Result`."""


class Model(Protocol):
    """Protocol of models: any object with `generate` is one. Many also have `stream`, `name` and `close`."""

    async def generate(self, request: Request) -> Result:
        """Return the whole answer.

        Args:
            request: The request.

        Raises:
            ModelError: there is no answer; says why and what to do.
        """
        ...


def check_model(given: object, taker: str) -> None:
    """Make sure that something is a model. `taker` is the class to which it was given.

    Raises:
        UsageError: it is none.
    """
    if isinstance(given, type) or not callable(getattr(given, "generate", None)):
        raise UsageError(
            f"{taker}(model=...) got {truncate_repr(given, 80)}. A model is an object with an async method "
            "`generate(request)`: open one with placet.inference.open_model, or bring your own."
        )


@runtime_checkable
class StreamingModel(Protocol):
    """Protocol of models that stream their answer. A class that inherits it implements only `stream`."""

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Yield parts of text and reasoning in order, then the whole result. Closing the generator ends the
        request.

        Args:
            request: The request.

        Raises:
            ModelError: there is no answer; says why and what to do.
        """
        ...

    async def generate(self, request: Request) -> Result:
        """Return the whole answer, the last piece of `stream`. Raises as `stream`.

        Args:
            request: The request.
        """
        return await last_piece(self, request)


def last_piece(model: StreamingModel, request: Request) -> Coroutine[Any, Any, Result]:
    """Derive `generate` from `stream`: its last piece, of a request that asks for no other."""
    if request.stream:
        request = msgspec.structs.replace(request, stream=False)
    return final_result(model.stream(request))


async def final_result(pieces: AsyncGenerator[Piece, None]) -> Result:
    """Read a stream to its end.

    Raises:
        AnswerUnreadable: it ended without a result.
    """
    result: Result | None = None
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, Result):
                result = piece
    if result is None:
        raise AnswerUnreadable("the model's answer broke off before its end.")
    return result


class Vectors(list[list[float]]):
    """A list of vectors, with their usage and cost."""

    def __init__(
        self, vectors: Iterable[list[float]], *, usage: Usage | None = None, cost: float | None = None
    ) -> None:
        """Create the list.

        Args:
            vectors: One vector for each text.
            usage: Tokens, if they are known.
            cost: Cost in US dollars, if it is known.
        """
        super().__init__(vectors)
        self.usage = usage
        self.cost = cost


@runtime_checkable
class Embedder(Protocol):
    """Protocol of models that turn texts into vectors."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector of length 1 for each text, in order; as `Vectors` if the usage is known.

        Args:
            texts: The texts.

        Raises:
            ModelError: there are no vectors; says why and what to do.
        """
        ...


def makes_vectors(model: object) -> TypeGuard[Embedder]:
    """Whether a model can be asked for vectors. One that stands for others has the method in any case, and
    says with `makes_vectors` whether it leads anywhere."""
    return isinstance(model, Embedder) and getattr(model, "makes_vectors", True)


async def stream(model: Model, request: Request) -> AsyncGenerator[Piece, None]:
    """Yield the answer of any model in parts, the last of which is the whole `Result`. A model that does not
    stream gives its text in one part; of a request without `stream` there is only the result.

    Use it in `async with aclosing(...)`: closing the generator ends the request.

    Args:
        model: The model.
        request: The request.
    """
    if not request.stream:
        yield await model.generate(request)
        return
    if isinstance(model, StreamingModel):
        async with aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                yield piece
        return
    result = await model.generate(request)
    if result.reasoning:
        yield Thought(result.reasoning)
    if result.text:
        yield Words(result.text)
    yield result
