"""What a wire format has to know, and nothing else does.

Keep true:
1. A format only translates: no clock, network, disk or retry.
2. What a server sends is somebody else's text: whatever shape it has, it ends in a `Result` or one of the two
   exceptions below, never in a KeyError.
3. A repr holds neither a key nor a server's words, which may repeat one: reprs end up in logs and tracebacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from placet.inference.model import Request, Result, Thought, Words
from placet.inference.sse import Event
from placet.ir.json_value import JsonValue

Kind = Literal["key", "model", "context", "quota", "rate", "unavailable", "tools", "parameter", "request"]
"""What a server refuses: the key, the model's name, the length, any more money, so many requests, everything
for now, tools at all, one parameter, or the request in some other way."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a server gave no answer."""

    kind: Kind
    message: str
    """The server's words; not to be trusted."""
    parameter: str = ""
    """Of the kind `parameter`: which one it does not take."""
    retry_after_s: float | None = None
    """How long it wants to be left alone, where the body says so."""

    def __repr__(self) -> str:
        """Without the message: some servers repeat the key in it."""
        return f"Refusal({self.kind!r}, parameter={self.parameter!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same for tracebacks that are printed with their variables."""
        return [("kind", self.kind), ("parameter", self.parameter)]


class Refused(Exception):
    """Raised by a reader: the server changed its mind in the middle of a stream."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)

    def __repr__(self) -> str:
        return f"Refused({self.refusal!r})"


class Unreadable(Exception):
    """Raised by a format: this is not what it says an answer looks like. The message says where."""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How one provider differs from others of the same wire format."""

    max_tokens_key: str = "max_tokens"
    """Name of the parameter for the length of the answer."""
    headers: Mapping[str, str] = {}
    """Further HTTP headers."""
    without: frozenset[str] = frozenset()
    """Parameters that the server does not accept."""
    tells_cost: bool = False
    """Whether the cost that it reports is used. For other providers the price list counts."""


class HttpCall(msgspec.Struct, frozen=True, kw_only=True):
    """A POST, relative to the provider's URL."""

    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: dict[str, JsonValue]

    def __repr__(self) -> str:
        """Without the headers: the key is in them."""
        return f"HttpCall({self.path!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same for tracebacks that are printed with their variables."""
        return [("path", self.path)]


class StreamReader(Protocol):
    """One answer as it comes in."""

    is_done: bool
    """Whether its last event has come, as far as the format has one."""

    def feed(self, event: Event) -> Iterable[Words | Thought]:
        """What one event brings for whoever watches. A piece may end in half of a character, and the next one
        of its kind begin with the other half; see `envelopes.WholeCharacters`.

        Raises:
            Refused: the server says that it failed.
            Unreadable: the event is of no shape that is known.
        """
        ...

    def result(self) -> Result:
        """All of it.

        Raises:
            Unreadable: the stream broke off before its end.
        """
        ...


class WireFormat(Protocol):
    """One of the three."""

    name: str

    def call(
        self, request: Request, model: str, key: str | None, dialect: Dialect, *, stream: bool
    ) -> HttpCall:
        """What to send."""
        ...

    def result(self, body: JsonValue) -> Result:
        """What a whole answer says.

        Raises:
            Refused: it is an error after all.
            Unreadable: it is of no shape that is known.
        """
        ...

    def reader(self) -> StreamReader:
        """For one stream."""
        ...

    def refusal(self, status: int, body: JsonValue) -> Refusal:
        """Why a request was refused. `body` is JSON, or a text where the server sent none."""
        ...
