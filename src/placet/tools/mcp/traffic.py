"""What goes over a connection to a server: watched, bounded, and sorted out before the SDK sees it.

Keep true:
1. What a server may send is bounded by number and by bytes. Only an answer to a request that waits for one
   begins the count anew; whatever else it sends does not, and counts also while nobody waits.
2. An answer that cannot be used fails its call at once: nobody waits out a time limit for it.
3. Nobody waits for a server that does not read.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from placet.safe_text import clean
from placet.truncation import margin, redacted, truncate_bytes, truncate_bytes_tail

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp_types import ErrorData

MESSAGE_AT_MOST = 4 * 1024 * 1024
"""Bytes of one message. All servers share a thread: while one message is taken apart, the others wait."""
BYTES_AT_MOST = 16 * MESSAGE_AT_MOST
"""Bytes that may come between two answers."""
MESSAGES_AT_MOST = 10_000
"""Messages and empty lines that may come between two answers: progress, logs, requests of its own."""
JUNK_AT_MOST = 50
"""Lines that are no messages, between two answers. Some servers log on standard output: few are forgiven."""
BLOCKS_AT_MOST = 1_000
"""Texts, images and files in one answer: each is checked by itself, and many small ones take seconds."""
PARTS_AT_MOST = 250_000
"""Lists and objects in one message, counted by their brackets: of empty ones, 4 MiB take seconds."""
TOOLS_AT_MOST = 1_000
UNUSABLE, ASKS, REFUSED = -41_001, -41_002, -41_003
"""Codes of errors that we put in the place of an answer: one that cannot be used, one that asks back, and an
error of the server's own with the code by which the SDK tells that a connection is closed."""
UNREADABLE = "answered with what cannot be read"
TOO_MANY_PARTS = f"answered with more than {PARTS_AT_MOST:,} lists and objects"
_ERRORS_KEPT = 4 * 1024
_FORGOTTEN = 404
_TELL_S = 5.0
"""How long a server may take to be told that a call was given up; one that takes longer does not read."""
_ID = re.compile(rb'"id"\s*:\s*"?([0-9]{1,15})"?\s*[,}]')


def parts_in(data: bytes) -> int:
    """How many lists and objects there may be: quicker to count than to read."""
    return data.count(b"[") + data.count(b"{")


class Noticed:
    """What became of a server, beside its messages."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        """Set when no message will come any more, or none shall."""
        self.fault = ""
        """What it did that nobody can go on with; the words follow its name."""
        self.exit = ""
        """How it ended, if it ended by itself."""
        self.junk = 0
        self.first_junk = ""
        self.errors = b""
        """The end of what it wrote on standard error."""
        self.waiting: dict[str, str] = {}
        """Requests that have no answer yet: their methods by their ids."""
        self.broken_off = 0
        """How often it broke off an answer that was to be gone on with."""
        self.misshapen: list[tuple[str, str]] = []
        """Entries of its listing that the protocol does not know: name and problem."""
        self._messages = 0
        self._size = 0

    @property
    def end(self) -> str:
        """Why no message will come any more; empty if one may."""
        return self.fault or self.exit

    @property
    def oddity(self) -> str:
        """What else it does that may be why it does not answer; empty if nothing is known."""
        if not self.junk:
            return ""
        return f"writes what is no message on its standard output, such as '{self.first_junk}'"

    def last_errors(self, lines: int = 10) -> str:
        """The last lines of its standard error, cleaned."""
        text = redacted(truncate_bytes_tail(self.errors, _ERRORS_KEPT).decode(errors="replace").rstrip())
        return "\n".join(clean(line, 200, tabs=True) for line in text.splitlines()[-lines:])

    def keep_errors(self, chunk: bytes) -> None:
        """Keep the end of what it writes on standard error."""
        self.errors = (self.errors + chunk)[-_ERRORS_KEPT - margin() :]

    def fail(self, words: str) -> None:
        """It does what nobody can go on with; the words follow its name."""
        self.fault = self.fault or words
        self.gone.set()

    def came(self, *, messages: int = 0, size: int = 0) -> bool:
        """Count what came; false if that is too much."""
        self._messages += messages
        self._size += size
        if self._messages > MESSAGES_AT_MOST:
            self.fail(f"sent more than {MESSAGES_AT_MOST:,} messages without an answer")
        elif self._size > BYTES_AT_MOST:
            self.fail(f"sent more than {BYTES_AT_MOST // 1024**2} MiB without an answer")
        return not self.fault

    def came_junk(self, line: bytes) -> bool:
        """Count a line that is no message; false if there are too many."""
        self.junk += 1
        self.first_junk = self.first_junk or clean(truncate_bytes(line, 400).decode(errors="replace"), 100)
        if self.junk > JUNK_AT_MOST:
            self.fail(self.oddity)
        return not self.fault

    def answered(self, key: object) -> str:
        """The method of the request that this id answers; empty if none waits for it."""
        method = self.waiting.pop(str(key), "")
        if method:
            self._messages = self._size = self.junk = self.broken_off = 0
            self.first_junk = ""
        return method

    def meant_by(self, line: bytes) -> int | None:
        """The id of the request that a line means to answer, though it cannot be read; None if none waits."""
        ends = line[:1_000] + b" " + line[-200:]
        if b'"jsonrpc"' not in ends or b'"method"' in ends:
            return None
        found = [int(key) for key in _ID.findall(ends) if str(int(key)) in self.waiting]
        return found[0] if found else None


class Replies:
    """What HTTP itself said to the requests of one call; the last one counts."""

    def __init__(self) -> None:
        self.status = 0
        self.problem = ""
        """Why this is no answer of the protocol, to follow the server's name; empty if it may be one."""
        self.is_stream = False
        """Whether the answer comes as one of several events."""
        self.is_refusal = False
        """Whether the request has certainly not been carried out."""

    @property
    def is_forgotten(self) -> bool:
        """Whether the server may not know the connection any more."""
        return self.status == _FORGOTTEN

    @property
    def may_retry(self) -> bool:
        """Whether trying again could help."""
        return self.status in (_FORGOTTEN, 408, 429) or self.status >= 500


replies: ContextVar[Replies] = ContextVar("replies")
"""Set by whoever calls: the SDK hands the context of a message on to the request that carries it."""


class Incoming:
    """The messages of a server, for a session of the SDK."""

    def __init__(self, stream: Any, noticed: Noticed) -> None:
        self._stream = stream
        self._noticed = noticed
        self.session: ClientSession | None = None
        """Who reads them; knows which version of the protocol is spoken."""

    @property
    def last_context(self) -> Any:
        """Of whoever sent the last message; the SDK looks here for it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp_types import JSONRPCError, JSONRPCResponse

        item = await self._stream.receive()
        message: Any = getattr(item, "message", None)
        method = ""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            method = self._noticed.answered(message.id)
        if not method:
            if not self._noticed.came(messages=1):
                raise anyio.EndOfStream
            return item
        error = self._instead(method, message)
        if error is None:
            return item
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))

    def _instead(self, method: str, message: Any) -> ErrorData | None:
        """The error to put in the place of an answer; None if it can stay."""
        from mcp_types import CONNECTION_CLOSED, ErrorData, JSONRPCError

        if not isinstance(message, JSONRPCError):
            wrong = self._problem(method, message.result)
            return None if wrong is None else ErrorData(code=wrong[0], message=wrong[1])
        noted = self.last_context.get(replies) if self.last_context is not None else None
        # On a stream of events the SDK uses the code also for one that ends without an answer.
        if message.error.code != CONNECTION_CLOSED or (noted is not None and noted.is_stream):
            return None
        return ErrorData(code=REFUSED, message=message.error.message)

    def _problem(self, method: str, result: dict[str, Any]) -> tuple[int, str] | None:
        """Why an answer cannot be used, found before anything expensive or forgiving looks at it."""
        if method == "tools/list" and isinstance(result.get("tools"), list):
            if len(result["tools"]) > TOOLS_AT_MOST:
                return UNUSABLE, f"lists more than {TOOLS_AT_MOST:,} tools"
            self._sift(result)
        if method != "tools/call":
            return None
        match result.get("resultType", "complete"):
            case "complete":
                pass
            case "input_required":
                return ASKS, ""
            case _:
                return UNUSABLE, "answered with a kind of result that is not known here"
        content = result.get("content")
        if isinstance(content, list) and len(content) > BLOCKS_AT_MOST:
            return UNUSABLE, f"answered with more than {BLOCKS_AT_MOST:,} pieces"
        return None

    def _sift(self, result: dict[str, Any]) -> None:
        """Take out of a listing what the protocol does not know: the SDK would refuse all of it."""
        from mcp_types import Tool
        from mcp_types.methods import validate_server_result
        from pydantic import ValidationError

        version = (self.session.protocol_version if self.session else None) or "2025-11-25"
        good = []
        for number, entry in enumerate(result["tools"], 1):
            try:
                validate_server_result("tools/list", version, {**result, "tools": [entry]})
                Tool.model_validate(entry, by_name=False)
                good.append(entry)
            except ValidationError as error:
                name = entry.get("name") if isinstance(entry, dict) else None
                where = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
                keys = [str(key) for key in where if key not in ("tools", 0)]
                problem = "it is not listed as the protocol has it"
                if keys:
                    problem += f": look at its '{clean('.'.join(keys), 80)}'"
                self._noticed.misshapen.append(
                    (name if isinstance(name, str) else f"(entry {number})", problem)
                )
        result["tools"] = good

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> Any:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Incoming:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class Outgoing:
    """Where a session of the SDK leaves its messages."""

    def __init__(self, stream: Any, noticed: Noticed) -> None:
        self._stream = stream
        self._noticed = noticed
        self._telling: set[asyncio.Task[None]] = set()

    async def send(self, item: Any) -> None:
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._noticed.waiting[str(message.id)] = message.method
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._noticed.waiting.pop(str((message.params or {}).get("requestId")), None)
            # Beside whoever gives up: what was sent before may be stuck, and time limits are to be kept.
            task = asyncio.create_task(self._tell(item))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
            return
        await self._stream.send(item)

    async def _tell(self, item: Any) -> None:
        import anyio

        with (
            suppress(anyio.BrokenResourceError, anyio.ClosedResourceError),
            anyio.move_on_after(_TELL_S) as limit,
        ):
            await self._stream.send(item)
        if limit.cancelled_caught:
            self._noticed.fail("does not read what it is sent")

    async def aclose(self) -> None:
        for task in self._telling:
            task.cancel()
        await self._stream.aclose()

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
