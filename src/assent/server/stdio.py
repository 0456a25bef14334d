"""MCP over the standard streams: one JSON message a line, in on stdin, out on stdout.

The descriptors are the protocol's alone: whoever opens a wire has made sure that tools and their children
find others under the numbers of the standard streams.

Keep true:
1. Nothing but whole messages is ever written to the client.
2. The event loop waits for neither stream: a client that does not read keeps up nobody but itself.
3. A line that is no message is answered with an error, and the next line is read.
4. Once `hang_up` was called the client is gone, as if it had closed stdin.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from queue import SimpleQueue
from typing import NamedTuple

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage

LONGEST = 64 * 1024 * 1024
"""Bytes of one message; a longer one is refused."""
_PIECE = 64 * 1024
_FAREWELL_S = 2.0
"""How long the last answers may take to be read by the client."""


class Pair(NamedTuple):
    """The two ends that a server reads from and writes to."""

    read: MemoryObjectReceiveStream[SessionMessage | Exception]
    write: MemoryObjectSendStream[SessionMessage]


class Wire:
    """A client at the other end of two descriptors."""

    def __init__(self, source: int, target: int, *, on_end: Callable[[str], None] = lambda why: None) -> None:
        """`on_end` is called on the event loop, with the reason, just before the server hears of the end."""
        self._source = source
        self._target = target
        self._on_end = on_end
        self._ended = False
        self._waker, self._wake = os.pipe()
        self._lines: SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = SimpleQueue()
        self._arriving, self._arrived = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._leaving, self._left = anyio.create_memory_object_stream[SessionMessage](0)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Pair]:
        """Move messages both ways as long as it is entered."""
        self._loop = asyncio.get_running_loop()
        # Daemons: a client that neither writes nor reads must not keep the process from ending.
        reader = threading.Thread(target=self._read_lines, name="assent-mcp-in", daemon=True)
        writer = threading.Thread(target=self._write_lines, name="assent-mcp-out", daemon=True)
        reader.start()
        writer.start()
        sending = asyncio.ensure_future(self._send())
        try:
            yield Pair(self._arrived, self._leaving)
        finally:
            self.hang_up("the server ended")
            os.write(self._wake, b"x")
            self._leaving.close()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([sending], timeout=_FAREWELL_S)
            sending.cancel()
            self._lines.put(None)
            self._arrived.close()
            self._left.close()
            with anyio.CancelScope(shield=True):
                await asyncio.to_thread(reader.join, _FAREWELL_S)
            if not reader.is_alive():  # Else it still looks at them.
                os.close(self._waker)
                os.close(self._wake)

    def hang_up(self, why: str) -> None:
        """Let the server see the end of its input. On the event loop."""
        if not self._ended:
            self._ended = True
            self._on_end(why)
            self._arriving.close()

    # In

    def _read_lines(self) -> None:
        """On a thread of its own: hand over line by line, and wait until each is taken."""
        with suppress(RuntimeError):  # The loop has gone.
            try:
                for line in self._incoming():
                    asyncio.run_coroutine_threadsafe(self._take(line), self._loop).result()
            finally:
                self._loop.call_soon_threadsafe(self.hang_up, "the client closed the connection")

    def _incoming(self) -> Iterator[bytes | None]:
        begun = bytearray()
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._waker, select.POLLIN)
        is_too_long = False
        while True:
            ready = [number for number, _ in poll.poll()]
            if self._waker in ready:
                return
            try:
                piece = os.read(self._source, _PIECE)
            except OSError:
                return
            *ends, rest = piece.split(b"\n")
            for end in ends:
                is_too_long = is_too_long or len(begun) + len(end) > LONGEST
                yield None if is_too_long else bytes(begun + end)
                begun.clear()
                is_too_long = False
            begun += rest
            if is_too_long or len(begun) > LONGEST:
                begun.clear()
                is_too_long = True
            if not piece:
                if begun:
                    yield bytes(begun)
                return

    async def _take(self, line: bytes | None) -> None:
        if line is None:
            await self._complain(types.INVALID_REQUEST, f"The message is longer than {LONGEST:,} bytes.")
            return
        if not line.strip():
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            await self._complain(types.PARSE_ERROR, "The line is no JSON-RPC message.")
            return
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._arriving.send(SessionMessage(message))

    async def _complain(self, code: int, words: str) -> None:
        error = types.JSONRPCError(jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=words))
        await self._put(error)

    # Out

    async def _send(self) -> None:
        async for message in self._left:
            await self._put(message.message)

    async def _put(self, message: types.JSONRPCMessage) -> None:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        written: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((text.encode() + b"\n", written))
        await written

    def _write_lines(self) -> None:
        """On a thread of its own."""
        is_lost = False
        while (item := self._lines.get()) is not None:
            line, written = item
            try:
                while line and not is_lost:
                    line = line[os.write(self._target, line) :]
            except OSError:
                is_lost = True
            with suppress(RuntimeError):  # The loop has gone.
                self._loop.call_soon_threadsafe(_done, written)
                if is_lost:
                    self._loop.call_soon_threadsafe(self.hang_up, "the client stopped reading")


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():  # Else whoever waited was cancelled.
        future.set_result(None)
