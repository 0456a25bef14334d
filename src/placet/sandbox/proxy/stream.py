"""A connected socket, read through a small buffer.

Keep true:
1. No more than what was asked for and one chunk is held: who sends fast waits for who reads slowly.
2. However fast bytes come and go, everything else in the event loop gets its turn between two chunks.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

CHUNK = 64 * 1024


class TooLong(Exception):
    """What should have ended by now goes on."""


class Ended(Exception):
    """The other side has ended in the middle of something."""


class NotTaken(ConnectionError):
    """The other side takes nothing more. What it has sent may still be there to be read."""


class Stream:
    """One side of a conversation. `moved` is called whenever bytes have come or gone."""

    def __init__(self, sock: socket.socket) -> None:
        self.sent_bytes = 0
        self.received_bytes = 0
        self.moved: Callable[[], None] = nothing
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()

    async def some(self, most: int = CHUNK) -> bytes:
        """What there is, at least one byte; none at the end."""
        if not self._buffer:
            return await self._receive(min(most, CHUNK))
        data = bytes(self._buffer[:most])
        del self._buffer[:most]
        return data

    async def until(self, mark: bytes, most: int) -> bytes:
        """What comes before `mark`, which is taken too.

        Raises:
            TooLong: there is no mark in the first `most` bytes.
            Ended: the other side ended before it.
        """
        begin = 0
        while (found := self._buffer.find(mark, begin, most)) < 0:
            if len(self._buffer) >= most:
                raise TooLong
            begin = max(0, len(self._buffer) - len(mark) + 1)
            data = await self._receive(CHUNK)
            if not data:
                raise Ended
            self._buffer += data
        taken = bytes(self._buffer[:found])
        del self._buffer[: found + len(mark)]
        return taken

    async def send(self, data: bytes) -> None:
        try:
            await self._loop.sock_sendall(self._sock, data)
        except ConnectionError as error:
            raise NotTaken(*error.args) from error
        self.sent_bytes += len(data)
        self.moved()

    def end(self) -> None:
        """Say that nothing more will be sent. The other side may go on."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()

    def reset(self) -> None:
        """Close so that the other side does not take it for an ordinary end."""
        with suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    async def _receive(self, most: int) -> bytes:
        # Reading and sending do not wait while there is something to read and room to send: others of this
        # loop would never get their turn.
        await asyncio.sleep(0)
        data = await self._loop.sock_recv(self._sock, most)
        self.received_bytes += len(data)
        if data:
            self.moved()
        return data


def nothing() -> None:
    """Nobody wants to know."""
