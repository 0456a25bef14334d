"""Which name a TLS client asks for, from the first bytes that it sends. Pure.

That name is sent in the open, before anything is secret. A server that many names share picks by it whom the
client speaks to: a tunnel to one name must not become a conversation with another.

It is a check of what a client says, not a wall: what goes on inside TLS, nobody outside can see.
"""

from __future__ import annotations

MOST_BYTES = 64 * 1024
"""Of a first message. Real ones have a few thousand."""

_MOST_RECORDS = 128
"""That a first message may come in. They are gone through again whenever bytes come."""

REFUSAL = bytes.fromhex("15 0301 0002 02 70")
"""What a TLS server sends when it does not go by the name that the client asks for."""

_HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_HOST_NAME = 0


class NotYet(Exception):
    """More bytes are needed to tell."""


class _Part:
    """Bytes that are read from the front. Reading past their end is an error."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError("a part is longer than what holds it")
        self._at += count
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def part(self, size: int) -> _Part:
        """What follows its own length, of so many bytes."""
        return _Part(self.take(self.number(size)))

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)


def server_name(data: bytes) -> str | None:
    """The name that a client asks for; None if it names nobody, or does not speak TLS.

    Raises:
        NotYet: the message goes on.
        ValueError: it begins like TLS and cannot be read, or asks for more than one name.
    """
    if not data or data[0] != _HANDSHAKE:
        return None
    return _name_in(_Part(_first_message(data)))


def _first_message(data: bytes) -> bytes:
    """The first handshake message, put together from as many records as it comes in."""
    message = b""
    at = count = 0
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        if len(data) < at + 5:
            raise NotYet
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        count += 1
        if data[at] != _HANDSHAKE or data[at + 1] != 3 or not size or count > _MOST_RECORDS:
            raise ValueError("a record is of another kind, or one too many")
        message += data[at + 5 : at + 5 + size]
        if len(data) < at + 5 + size:
            # What it says of its length is not waited for: it may be longer than anybody would read.
            raise NotYet
        at += 5 + size
    if message[0] != _CLIENT_HELLO:
        raise ValueError("the first message is another one")
    return message[4 : 4 + int.from_bytes(message[1:4], "big")]


def _name_in(hello: _Part) -> str | None:
    hello.take(2 + 32)  # A version, and what is random.
    for size in (1, 2, 1):  # The session, ciphers, compressions.
        hello.part(size)
    if not hello:
        return None
    names: list[bytes] = []
    extensions = hello.part(2)
    while extensions:
        kind = extensions.number(2)
        content = extensions.part(2)
        if kind == _SERVER_NAME:
            entries = content.part(2)
            while entries:
                if entries.number(1) != _HOST_NAME:
                    raise ValueError("a name is of an unknown kind")
                names.append(entries.part(2).rest())
    if len(names) > 1:
        raise ValueError("there is more than one name")
    return names[0].decode("ascii") if names else None
