"""The one seam to models: a request goes in, a result comes out.

Any object with `generate` is a model. One that can also hand out its words as they come has `stream`.

Keep true:
1. A request is never changed by whoever serves it.
2. The last piece of a stream is the whole `Result`, equal to what `generate` would have returned.
3. What goes wrong is a `ModelError`; cancelling a task cancels what it asked for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from math import nan
from typing import Literal, Protocol, TypeAlias, TypeGuard, get_args, runtime_checkable

import msgspec

from placet.errors import UsageError
from placet.inference.messages import Assistant, Carried, Message, ToolCall
from placet.inference.passage import Passage
from placet.inference.usage import Usage
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema
from placet.tools.context import Cancel

Stop = Literal["end", "calls", "length", "stop", "refused", "other"]
"""It was done; it wants tools; there was no room for more; it came to a stop sequence; it, or whoever guards
it, would not answer; something else."""

ToolChoice = Literal["auto", "required", "none"]
Thinking = Literal["off", "low", "medium", "high"]
Task = Literal["chat", "code", "judge", "classify", "summarize"]
Prefer = Literal["quality", "speed"]
Ability = Literal["tools", "images", "long_context"]


_TOOL_CHOICES = get_args(ToolChoice)
_THINKING = (None, *get_args(Thinking))


def _number(value: object) -> float:
    """The number, or one that is in no range."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else nan


def _no_choice(name: str, value: object, known: Iterable[object]) -> UsageError:
    words = ", ".join(repr(each) for each in known)
    return UsageError(f"Request({name}=...) got {value!r:.80}. It is one of {words}.")


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is for, where no model is named."""

    task: Task = "chat"
    prefer: Prefer = "quality"
    requires: Sequence[Ability] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a model, with all that it may know."""

    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    tool_choice: ToolChoice = "auto"
    temperature: float | None = 0.0
    """None leaves it to the provider; so does `thinking`, where a provider allows no other."""
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    schema: Mapping[str, JsonValue] | None = None
    """JSON Schema that the answer has to fit; the text is then JSON."""
    thinking: Thinking | None = None
    """None leaves it to the provider."""
    passage: Passage | None = None
    """A line to be read instead of the messages, by a model that `reads_passages`: the text of the answer is
    its doubts, as JSON."""
    cache: bool = True
    """Whether the beginning of the conversation will be sent again, so that caching it pays."""
    model: str | None = None
    """A model by name, `provider:name`: nobody else may answer."""
    intent: Intent | None = None
    cancel: Cancel | None = None

    def __post_init__(self) -> None:
        """Tell whoever builds it what cannot be meant, before it is sent to anybody.

        Raises:
            UsageError: a field is of another kind.
        """
        messages = self.messages
        if not isinstance(messages, list | tuple):
            raise UsageError(f'Request(messages=...) got {messages!r:.80}. Give a list: [User("...")].')
        # The first and the last: looking at all of them each turn would make long conversations dear.
        for message in (*messages[:1], *messages[-1:]):
            if not isinstance(message, Message):
                raise UsageError(
                    f"Request(messages=...) holds {message!r:.80}. A message is a System, User, Assistant or "
                    "ToolResult of placet.inference."
                )
        if self.tool_choice not in _TOOL_CHOICES:
            raise _no_choice("tool_choice", self.tool_choice, _TOOL_CHOICES)
        if self.thinking is not None and self.thinking not in _THINKING:
            raise _no_choice("thinking", self.thinking, _THINKING)
        if self.temperature is not None and not 0 <= _number(self.temperature) <= 2:
            raise UsageError(f"Request(temperature=...) got {self.temperature!r:.80}. It is from 0 to 2.")
        if self.max_tokens is not None and not _number(self.max_tokens) >= 1:
            raise UsageError(f"Request(max_tokens=...) got {self.max_tokens!r:.80}. It is 1 or more.")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which model was to answer, and why that one."""

    model: str
    role: str | None = None
    because: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    text: str = ""
    calls: Sequence[ToolCall] = ()
    reasoning: str = ""
    usage: Usage | None = None
    cost: float | None = None
    """In US dollars; None where usage or price are not known."""
    model: str = ""
    """The model that answered, as it calls itself."""
    latency_ms: float = 0.0
    """From the request to the last word, other attempts included."""
    stop: Stop = "end"
    carried: Carried | None = None
    choice: Choice | None = None

    @property
    def message(self) -> Assistant:
        """What is appended to the conversation."""
        return Assistant(text=self.text, calls=self.calls, carried=self.carried)


class Words(msgspec.Struct, frozen=True):
    """A piece of the text, as it comes."""

    text: str


class Thought(msgspec.Struct, frozen=True):
    """A piece of the reasoning, as it comes."""

    text: str


Piece: TypeAlias = Words | Thought | Result


class Model(Protocol):
    """Whoever answers requests. One that also streams is a `StreamingModel`."""

    async def generate(self, request: Request) -> Result:
        """The whole answer.

        Raises:
            ModelError: there is none; says why and what to do.
        """
        ...


def check_model(given: object, taker: str) -> None:
    """Make sure that something is a model. `taker` is the class to which it was given.

    Raises:
        UsageError: it is none.
    """
    if isinstance(given, type) or not callable(getattr(given, "generate", None)):
        raise UsageError(
            f"{taker}(model=...) got {given!r:.80}. A model is an object with an async method "
            "`generate(request)`: open one with placet.inference.open_model, or bring your own."
        )


@runtime_checkable
class StreamingModel(Protocol):
    """A model that hands out its answer as it comes."""

    async def generate(self, request: Request) -> Result: ...

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Pieces of text and reasoning in order, then the whole result. Closing it ends the request."""
        ...


class Vectors(list[list[float]]):
    """One vector per text, and what they took where that is known."""

    def __init__(
        self, vectors: Iterable[list[float]], *, usage: Usage | None = None, cost: float | None = None
    ) -> None:
        super().__init__(vectors)
        self.usage = usage
        self.cost = cost


@runtime_checkable
class Embedder(Protocol):
    """Whoever turns texts into vectors of one length."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector per text, in order, each of length 1; as `Vectors` where it is known what they took.

        Raises:
            ModelError: there are none; says why and what to do.
        """
        ...


def makes_vectors(model: object) -> TypeGuard[Embedder]:
    """Whether a model can be asked for vectors. One that stands for others has the method in any case, and
    says with `makes_vectors` whether it leads anywhere."""
    return isinstance(model, Embedder) and getattr(model, "makes_vectors", True)


async def stream(model: Model, request: Request) -> AsyncGenerator[Piece, None]:
    """The answer of any model in pieces; of one that does not stream, in one piece."""
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
