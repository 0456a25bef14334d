"""A model that says what was written for it: for tests, demonstrations and rehearsals.

Keep true:
1. Every turn is taken once, in order, also by requests that come at the same time.
2. A script that is used up is an error; nothing is made up.
3. A request that is kept shows what the model was told then, whatever the caller appends later.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import msgspec

from placet.errors import DecodeError, InputError, RequestRefused, UsageError
from placet.inference.messages import ToolCall
from placet.inference.model import Piece, Request, Result, Stop, Thought, Words
from placet.inference.regular_file import open_regular
from placet.inference.usage import Usage
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue
from placet.safe_text import clean

Turn: TypeAlias = str | Result | ToolCall | Sequence[ToolCall] | Exception
"""One answer: a text, tool calls, a whole result, or an exception to raise."""

MOST_BYTES = 16 * 2**20
"""Of a script in a file."""

_SMALLEST = 8
_MOST_PIECES = 64


class Scripted:
    """A model that gives prepared answers, for tests and demonstrations.

    Calls without an id get one: `call_1`, `call_2` and so on.

    >>> import asyncio
    >>> from placet.inference.messages import User
    >>> model = Scripted(["Good morning."])
    >>> asyncio.run(model.generate(Request(messages=[User("Hello")]))).text
    'Good morning.'
    """

    def __init__(
        self, turns: Sequence[Turn] | Callable[[Request], Turn | Awaitable[Turn]], *, name: str = "scripted"
    ) -> None:
        """Create the model.

        Args:
            turns: The answers, one per request; or a function, async or not, that makes one from the request.
            name: Name of the model.

        Raises:
            UsageError: a turn is not a valid answer.
        """
        self.name = name
        """Name of the model."""
        self.requests: list[Request] = []
        """The requests so far, in order. Each holds the messages as they were when it was made."""
        self._function = turns if callable(turns) else None
        self._turns: Sequence[Turn] = () if callable(turns) else list(turns)
        self._calls = 0
        for number, turn in enumerate(self._turns, start=1):
            _check(turn, number)

    @classmethod
    def from_file(cls, path: str | PathLike[str], *, name: str | None = None) -> Scripted:
        """Read the answers from a JSON file: `{"turns": ["text", {"calls": [{"name": ..., "arguments":
        {...}}]}]}`.

        Args:
            path: The file.
            name: Name of the model. `None`: `scripted:` and the path.

        Raises:
            InputError: the file cannot be read, or is not a script; names the place.
        """
        return cls(_read(Path(path)), name=name or f"scripted:{path}")

    async def generate(self, request: Request) -> Result:
        """The next turn.

        Raises:
            RequestRefused: all turns were taken.
        """
        # A loop appends to the list that it hands over. Copying references costs about 5 ns a message, so
        # that also a run of hundreds of turns does not feel it.
        self.requests.append(msgspec.structs.replace(request, messages=list(request.messages)))
        # Counted before anything is awaited: of two requests at once each gets a turn of its own.
        number = len(self.requests)
        if self._function is not None:
            made = self._function(request)
            turn = await made if inspect.isawaitable(made) else made
            _check(turn, number)
        elif number <= len(self._turns):
            turn = self._turns[number - 1]
        else:
            raise RequestRefused(
                f"The script of '{self.name}' has {_turns(len(self._turns))}, and this is request {number}. "
                "Add a turn, or ask less often."
            )
        return self._result(turn)

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The next turn, in small pieces."""
        result = await self.generate(request)
        for piece in in_pieces(result):
            # A model lets others have their turn between two pieces.
            await asyncio.sleep(0)
            yield piece

    def _result(self, turn: Turn) -> Result:
        match turn:
            case Exception():
                raise turn
            case Result():
                return turn if turn.model else msgspec.structs.replace(turn, model=self.name)
            case str():
                return Result(text=turn, model=self.name)
            case ToolCall():
                return self._result([turn])
            case _:
                calls = [self._with_id(call) for call in turn]
                return Result(calls=calls, model=self.name, stop="calls" if calls else "end")

    def _with_id(self, call: ToolCall) -> ToolCall:
        self._calls += 1
        return call if call.id else msgspec.structs.replace(call, id=f"call_{self._calls}")


def in_pieces(result: Result) -> Iterator[Piece]:
    """A whole answer as if it had come bit by bit: reasoning, text, and then all of it."""
    for text, kind in ((result.reasoning, Thought), (result.text, Words)):
        size = max(_SMALLEST, -(-len(text) // _MOST_PIECES))
        for start in range(0, len(text), size):
            yield kind(text[start : start + size])
    yield result


def _check(turn: object, number: int) -> None:
    if isinstance(turn, str | Result | ToolCall | Exception):
        return
    if isinstance(turn, Sequence) and all(isinstance(each, ToolCall) for each in turn):
        return
    raise UsageError(
        f"Turn {number} of the script is a {type(turn).__name__}. "
        "Write a text, a Result, a ToolCall, a list of them, or an exception."
    )


def _turns(count: int) -> str:
    return f"{count} turn{'' if count == 1 else 's'}"


class _Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, JsonValue] = {}
    id: str = ""


class _Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""
    calls: Sequence[_Call] = ()
    reasoning: str = ""
    usage: Usage | None = None
    cost: float | None = None
    stop: Stop | None = None


class _Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    turns: Sequence[str | _Turn]


def _read(path: Path) -> list[Turn]:
    source = f"the script {clean(path)}"
    try:
        with open(open_regular(path, os.O_RDONLY, most_bytes=MOST_BYTES), "rb") as file:
            document = decode_json(file.read(MOST_BYTES), source=source)
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot read {source}: {getattr(error, 'strerror', None) or error}.") from None
    try:
        script = msgspec.convert(document, _Script)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        raise DecodeError(clean(problem), place=clean(place.strip("`")) or "$", source=source) from None
    number = 0
    turns: list[Turn] = []
    for turn in script.turns:
        if isinstance(turn, str):
            turns.append(turn)
            continue
        calls = []
        for call in turn.calls:
            number += 1
            calls.append(ToolCall(id=call.id or f"call_{number}", name=call.name, arguments=call.arguments))
        turns.append(
            Result(
                text=turn.text,
                calls=calls,
                reasoning=turn.reasoning,
                usage=turn.usage,
                cost=turn.cost,
                stop=turn.stop or ("calls" if calls else "end"),
            )
        )
    return turns
