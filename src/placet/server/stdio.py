"""MCP over the standard streams: one JSON message a line, in on stdin, out on stdout.

The descriptors are the protocol's alone: whoever opens a wire has made sure that tools and their children
find others under the numbers of the standard streams.

Keep true:
1. Nothing but whole messages is ever written to the client.
2. The event loop waits for neither stream: a client that does not read keeps up nobody but itself.
3. A line that is no message is answered with an error, and the next line is read. If the line was meant as a
   request, the error bears its id: a client waits for that.
4. What is kept for a client has a limit. Beyond it requests are refused, and a client that does not read the
   refusals is not read either. Until then it is heard when it takes a request back.
5. Once `hang_up` was called the client is gone, as if it had closed stdin.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from placet.server.in_flight import MOST_AT_ONCE, MOST_WAITING, InFlight

LONGEST = 64 * 1024 * 1024
"""Bytes of one message; a longer one is refused."""
_PIECE = 64 * 1024
_FAREWELL_S = 2.0
"""How long the last answers may take to be read by the client."""
_BUSY = -32000
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}:]|-?\d[\d.eE+-]*', re.DOTALL)
_MOST_TOKENS = 100_000
"""How far an id is looked for in a line that is no message."""


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
        self._leaving, self._left = anyio.create_memory_object_stream[SessionMessage](
            # Room for an answer and a report of each: a write that waits could be taken back half done.
            4 * MOST_AT_ONCE
        )
        self._in_flight = InFlight()
        self._has_room = asyncio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Pair]:
        """Move messages both ways as long as it is entered."""
        self._loop = asyncio.get_running_loop()
        # Daemons: a client that neither writes nor reads must not keep the process from ending.
        reader = threading.Thread(target=self._read_lines, name="placet-mcp-in", daemon=True)
        writer = threading.Thread(target=self._write_lines, name="placet-mcp-out", daemon=True)
        reader.start()
        writer.start()
        sending = asyncio.ensure_future(self._send())
        admitting = asyncio.ensure_future(self._let_in())
        try:
            yield Pair(self._arrived, self._leaving)
        finally:
            self.hang_up("the server ended")
            admitting.cancel()
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
            words = "The line is no JSON-RPC message: it is malformed, or too deeply nested."
            await self._complain(types.PARSE_ERROR, words, meant_id(line))
            return
        if isinstance(message, types.JSONRPCRequest):
            await self._take_request(message, len(line))
        elif not self._is_taken_back(message):
            await self._hand_over(SessionMessage(message))

    async def _take_request(self, request: types.JSONRPCRequest, size: int) -> None:
        match self._in_flight.arrive(request, size):
            case "now":
                await self._begin(request)
            case "never":
                words = f"Too much at once: of {MOST_AT_ONCE} requests under way and {MOST_WAITING:,} waiting"
                await self._complain(
                    _BUSY, f"{words} some must be answered first. Send it later.", request.id
                )

    def _is_taken_back(self, message: types.JSONRPCMessage) -> bool:
        """Whether it takes back a request that waits, so that the server need not hear of either."""
        if not isinstance(message, types.JSONRPCNotification) or message.method != "notifications/cancelled":
            return False
        return self._in_flight.take_back((message.params or {}).get("requestId"))

    async def _let_in(self) -> None:
        """Hand over what waits, when there is room for it."""
        while True:
            await self._has_room.wait()
            self._has_room.clear()
            while (request := self._in_flight.next()) is not None:
                await self._begin(request)

    async def _begin(self, request: types.JSONRPCRequest) -> None:
        ended = ServerMessageMetadata(on_request_unanswered=partial(self._end_unanswered, request.id))
        await self._hand_over(SessionMessage(request, ended))

    async def _end_unanswered(self, request_id: types.RequestId) -> None:
        self._end(request_id)

    def _end(self, request_id: types.RequestId | None) -> None:
        self._in_flight.end(request_id)
        self._has_room.set()

    async def _hand_over(self, message: SessionMessage) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._arriving.send(message)

    async def _complain(self, code: int, words: str, request_id: types.RequestId | None = None) -> None:
        error = types.ErrorData(code=code, message=words)
        await self._put(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))

    # Out

    async def _send(self) -> None:
        async for message in self._left:
            await self._put(message.message)
            if isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError):
                self._end(message.message.id)

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


def meant_id(line: bytes) -> types.RequestId | None:
    """The id of a request that cannot be read as one, if it has any; found without reading the rest.

    >>> meant_id(b'{"method": "m", "params": {"id": 1, "half": "\\ud800"}, "id": 7}')
    7
    """
    found: dict[bytes, bytes] = {}
    depth = 0
    key = last = b""
    for number, token in enumerate(_TOKEN.finditer(line)):
        if number == _MOST_TOKENS:
            return None
        match text := token[0]:
            case b"{" | b"[":
                depth += 1
                key = b""
            case b"}" | b"]":
                depth -= 1
            case b":":
                key = last if depth == 1 else b""
            case _ if depth == 1:
                if key in (b'"id"', b'"method"'):
                    found.setdefault(key, text)
                key, last = b"", text
    # Without a method it was meant as an answer, and nobody waits for one to that.
    meant = found.get(b'"id"', b"") if b'"method"' in found else b""
    try:
        decoded = msgspec.json.decode(meant)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return decoded if isinstance(decoded, int | str) else None
