"""What tells one request from another, without reading the whole conversation anew for each.

The digest of a conversation is that of all but its last message, and then that one. A conversation that goes
on is therefore digested by its new messages alone: those seen before are known by identity, as objects that
nobody changes. An equal message that is another object is encoded again, and leads to the same place.

Keep true:
1. Equal messages give equal digests, in whatever process.
2. What is remembered is bounded, in number and in bytes; what was forgotten is encoded again. Not counted is
   the conversation that goes on: whoever asks holds it as well.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

import msgspec

from placet.errors import RequestRefused
from placet.inference.messages import Message, System
from placet.inference.model import Request
from placet.ir.tool_spec import ToolSchema

_MOST = 100_000
_MOST_BYTES = 32 * 2**20
"""Of messages, as JSON: an image counts with all its bytes."""
_MOST_TOOL_LISTS = 64
_MOST_TRAILS = 32

SETTINGS = ("tool_choice", "temperature", "max_tokens", "stop", "schema", "thinking", "passage")
"""What changes an answer. Who is to answer, and whether to cache, does not: a recording is nobody's."""
TOOL_FIELDS = ("name", "description", "parameters")
"""What a model sees of a tool."""


def plain(value: Any) -> Any:
    """What an encoder makes of a value that it does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


_encode = msgspec.json.Encoder(order="sorted", enc_hook=plain).encode
_decode_message = msgspec.json.Decoder(Message).decode


class Place:
    """A conversation so far."""

    __slots__ = ("data", "digest", "next", "parent")

    def __init__(self, parent: Place | None, digest: str, data: bytes | None) -> None:
        self.parent = parent
        self.digest = digest
        self.data = data
        """The last message as JSON, until it is written; None where nobody is going to write it."""
        self.next: dict[int, tuple[Message, Place]] = {}
        """What followed, by the identity of the message, which is kept so that it stays the only one."""


class _Trail:
    """A conversation that was asked lately, and will most likely be continued."""

    __slots__ = ("first", "place", "rest")

    def __init__(self, messages: Sequence[Message], place: Place) -> None:
        self.first = messages[0]
        self.rest = list(messages[1:])
        self.place = place

    def leads_to(self, messages: Sequence[Message]) -> bool:
        """Whether these messages begin as this conversation did."""
        count = len(self.rest) + 1
        if count > len(messages) or messages[count - 1] is not (self.rest[-1] if self.rest else self.first):
            return False
        # What holds for the whole conversation is often put before it anew. Only of a text does being equal
        # mean the same JSON: 1 equals True.
        begins_so = messages[0] is self.first or (type(self.first) is System and messages[0] == self.first)
        return begins_so and all(map(is_, self.rest, messages[1:count]))


class Digests:
    """Remembers conversations, so that what was digested once is not digested again."""

    def __init__(self, *, keeps_data: bool = True) -> None:
        """`keeps_data` is for those who write or show what was digested."""
        self.encoded = 0
        """How many messages were encoded so far."""
        self._keeps_data = keeps_data
        self._root = Place(None, "", None)
        self._places: dict[str, Place] = {}
        self._remembered = 0
        self._bytes = 0
        """Of the messages that are remembered, but for those of one conversation."""
        self._trails: deque[_Trail] = deque(maxlen=_MOST_TRAILS)
        self._tools: dict[tuple[int, ...], tuple[Sequence[ToolSchema], str, bytes]] = {}

    def place(self, messages: Sequence[Message]) -> Place:
        """The conversation of these messages.

        Raises:
            RequestRefused: one of them holds what JSON cannot carry.
        """
        if not messages:
            return self._root
        trail = next((each for each in reversed(self._trails) if each.leads_to(messages)), None)
        if self._bytes > _MOST_BYTES or self._remembered > _MOST:
            trail = self._forget(trail)
        if trail is None:
            place = self._walk(self._root, messages, 0)
            self._trails.append(_Trail(messages, place))
        else:
            known = len(trail.rest) + 1
            place = trail.place = self._walk(trail.place, messages[known:], known)
            trail.rest += messages[known:]
        return place

    def _forget(self, trail: _Trail | None) -> _Trail | None:
        """Let go of all messages but those of one conversation, which is returned if it could be kept."""
        for place in (self._root, *self._places.values()):
            place.next = {}
        self._trails.clear()
        self._remembered = self._bytes = 0
        if len(self._places) > _MOST:
            self._places = {}
            return None
        # A digest is small, and to know it saves writing its message again. One that is still to be written
        # is held by whoever asked.
        self._places = {key: place for key, place in self._places.items() if place.data is None}
        if trail is not None:
            self._trails.append(trail)
        return trail

    def unwritten(self, place: Place) -> list[Place]:
        """Of a conversation, the places from the first whose message is in no file yet."""
        found: list[Place] = []
        here: Place | None = place
        while here is not None and here.data is not None:
            found.append(here)
            here = here.parent
        found.reverse()
        return found

    def tools(self, tools: Sequence[ToolSchema]) -> tuple[str, bytes]:
        """The digest of a list of tools, and what it is the digest of."""
        key = tuple(map(id, tools))
        known = self._tools.get(key)
        if known is not None:
            return known[1], known[2]
        data = _encoded([{name: getattr(tool, name) for name in TOOL_FIELDS} for tool in tools], "a tool")
        if len(self._tools) >= _MOST_TOOL_LISTS:
            self._tools.clear()
        found = digest_of("", data)
        # The tools themselves are kept as well: an id is only that of one object as long as it lives.
        self._tools[key] = (tuple(tools), found, data)
        return found, data

    def settings(self, request: Request) -> tuple[str, bytes]:
        """The digest of what else is asked for, and what it is the digest of."""
        data = _encoded(_settings({name: getattr(request, name) for name in SETTINGS}), "a setting")
        return digest_of("", data), data

    def _walk(self, here: Place, messages: Sequence[Message], index: int) -> Place:
        for number, message in enumerate(messages, start=index + 1):
            known = here.next.get(id(message))
            here = known[1] if known is not None else self._follow(here, message, number)
        return here

    def _follow(self, here: Place, message: Message, number: int) -> Place:
        data = _encoded(message, f"message {number}")
        self.encoded += 1
        digest = digest_of(here.digest, data)
        place = self._places.get(digest)
        if place is None:
            place = self._places[digest] = Place(here, digest, data if self._keeps_data else None)
        here.next[id(message)] = (message, place)
        self._remembered += 1
        self._bytes += len(data)
        return place


def digest_of(before: str, data: bytes) -> str:
    """The digest of a conversation that had the digest `before`, with one more message."""
    return hashlib.blake2b(data, digest_size=16, key=before.encode()).hexdigest()


def message_today(data: bytes) -> bytes:
    """A message that was written some time ago, as it would be written now."""
    try:
        return _encode(_decode_message(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data


def tools_today(data: bytes) -> bytes:
    """The same for a list of tools."""
    try:
        tools = msgspec.json.decode(data, type=list[dict[str, Any]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data
    return _encode([{name: tool.get(name) for name in TOOL_FIELDS} for tool in tools])


def settings_today(data: bytes) -> bytes:
    """The same for settings; one that did not exist then has its default."""
    try:
        settings = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data
    unset = Request(messages=())
    return _encode(_settings({name: settings.get(name, getattr(unset, name)) for name in SETTINGS}))


def _settings(settings: dict[str, Any]) -> dict[str, Any]:
    if type(settings["temperature"]) is int:
        # Nobody means another temperature by 0 than by 0.0.
        settings["temperature"] = float(settings["temperature"])
    return settings


def _encoded(value: Any, what: str) -> bytes:
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestRefused(
            f"The request cannot be recorded: {what} holds what JSON cannot carry ({error}). Change it."
        ) from None
