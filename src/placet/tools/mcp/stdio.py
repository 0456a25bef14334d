"""A server that is a command: started, spoken to line by line, ended with everything it started.

Not the SDK's own transport: that one reads lines of any length, hands the server more of our environment than
we do, and lets it write to our terminal.

Keep true:
1. What a server may send without answering is bounded, also what is no message (`traffic` counts).
2. Nothing that it writes reaches a terminal; the end of its standard error is kept for whoever asks.
3. When the streams are closed, or this process is killed, the server ends with all that it has started.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from placet.errors import ToolError
from placet.sandbox.command import Finished, run_command
from placet.sandbox.environment import clean_environment
from placet.sandbox.limits import Limits
from placet.tools.mcp.server import McpServer
from placet.tools.mcp.traffic import (
    MESSAGE_AT_MOST,
    PARTS_AT_MOST,
    TOO_MANY_PARTS,
    UNREADABLE,
    UNUSABLE,
    Noticed,
    parts_in,
)

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_GRACE_S = 1.0
"""How long a server may take to end when its input is closed."""
_CHUNK = 64 * 1024
_LIMITS = Limits(time_s=inf, memory_bytes=None, processes=None)
"""A server lives as long as its connection, and is no command of a model's: a person has chosen it."""
_BECOME = (
    "import _signal, os, sys; _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL); "
    "given = [int(number) for number in sys.argv[1:4]]; "
    "[os.dup2(number, place) for place, number in enumerate(given)]; [os.close(number) for number in given]; "
    "os.execvp(sys.argv[4], sys.argv[4:])"
)
"""Between the keeper and the server: puts our pipes where the server looks for its standard streams. Those of
`run_command` are made for commands that are fed once, and read to their end."""


class NotStarted(Exception):
    """A server that does not get as far as listing its tools; the words follow its name."""

    def __init__(self, problem: str, *, retry: bool = False) -> None:
        self.retry = retry
        """Whether trying again could help."""
        super().__init__(problem)


@asynccontextmanager
async def stdio_streams(
    server: McpServer, environment: Mapping[str, str], noticed: Noticed
) -> AsyncIterator[TransportStreams]:
    """Messages from and to a server that is started for it.

    Raises:
        NotStarted: a variable is not set, or the program cannot be started.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    process = await _start(server, environment)
    arrived, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, to_send = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        try:
            async with arrived:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for message in _messages(process.stdout, noticed):
                        await arrived.send(SessionMessage(message))
                if not noticed.fault:
                    # Whoever waits for an answer shall hear how it ended.
                    await asyncio.wait([process.run], timeout=_GRACE_S)
                    noticed.exit = _how_ended(process.run)
        finally:
            noticed.gone.set()

    async def send() -> None:
        async with to_send:
            with suppress(OSError):
                async for message in to_send:
                    text: str = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(text.encode() + b"\n")
                    await process.stdin.drain()

    async def listen() -> None:
        while chunk := await process.stderr.read(_CHUNK):
            noticed.keep_errors(chunk)

    try:
        async with anyio.create_task_group() as group:
            for task in (receive, send, listen):
                group.start_soon(task)
            try:
                yield read_stream, write_stream
            finally:
                group.cancel_scope.cancel()
    finally:
        for stream in (arrived, read_stream, write_stream, to_send):
            stream.close()
        with anyio.CancelScope(shield=True):
            await process.end()


class _Process(NamedTuple):
    """A server that runs: our ends of its pipes, and the task at whose end all of it has ended."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    pipes: tuple[asyncio.BaseTransport, ...]
    run: asyncio.Task[Finished]

    async def end(self) -> None:
        """Let it end, as the protocol has it: close its input and wait; then insist."""
        for pipe in self.pipes:
            pipe.close()
        await asyncio.wait([self.run], timeout=_GRACE_S)
        self.run.cancel()
        await asyncio.wait([self.run])
        # Taken, so that nobody complains about an outcome that was never looked at.
        self.run.cancelled() or self.run.exception()


async def _start(server: McpServer, environment: Mapping[str, str]) -> _Process:
    missing = [name for name in server.environment if name not in environment]
    if missing:
        raise NotStarted(f"needs the environment variable {missing[0]}, which is not set")
    given = clean_environment({name: environment[name] for name in server.environment})
    _look_for(server, given["PATH"])
    theirs, ours = zip(*(os.pipe() for _ in range(3)), strict=True)
    theirs, ours = (theirs[0], *ours[1:]), (ours[0], *theirs[1:])
    argv = [sys.executable, "-I", "-S", "-c", _BECOME, *map(str, theirs), *server.command]
    run = asyncio.create_task(
        run_command(argv, folder=server.folder, environment=given, limits=_LIMITS, pass_fds=theirs)
    )
    try:
        # It is started in the first step of the task, and then has these ends for itself.
        await asyncio.sleep(0)
        for number in theirs:
            os.close(number)
        stdin, pipe_in = await _writer(ours[0])
        stdout, pipe_out = await _reader(ours[1])
        stderr, pipe_errors = await _reader(ours[2])
    except BaseException:
        run.cancel()
        raise
    return _Process(stdin, stdout, stderr, (pipe_in, pipe_out, pipe_errors), run)


def _look_for(server: McpServer, path: str) -> None:
    """Refuse what can be seen not to start: the keeper could only tell that something ended at once."""
    program = server.command[0]
    if not os.path.isdir(server.folder):
        raise NotStarted(f"cannot be started: its folder {server.folder} is not there")
    place = os.path.join(server.folder, program) if "/" in program else program
    if shutil.which(place, path=path) is None:
        raise NotStarted(f"cannot be started: there is no program '{program}'")


async def _reader(number: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader(limit=_CHUNK)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(number, "rb", 0)
    )
    return reader, pipe


async def _writer(number: int) -> tuple[asyncio.StreamWriter, asyncio.BaseTransport]:
    loop = asyncio.get_running_loop()
    # A reader's protocol: it is the one that knows how to wait until a pipe has room.
    pipe, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(number, "wb", 0)
    )
    return asyncio.StreamWriter(pipe, protocol, None, loop), pipe


async def _messages(stdout: asyncio.StreamReader, noticed: Noticed) -> AsyncIterator[Any]:
    """Every message that a server sends, until it ends or does what nobody can go on with."""
    from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

    async for line in _lines(stdout, noticed):
        problem = TOO_MANY_PARTS if parts_in(line) > PARTS_AT_MOST else ""
        if not problem:
            try:
                yield jsonrpc_message_adapter.validate_json(line, by_name=False)
                continue
            except ValueError:
                problem = UNREADABLE
        asked = noticed.meant_by(line)
        if asked is not None:
            yield JSONRPCError(jsonrpc="2.0", id=asked, error=ErrorData(code=UNUSABLE, message=problem))
        elif not noticed.came_junk(line):
            return


async def _lines(stdout: asyncio.StreamReader, noticed: Noticed) -> AsyncIterator[bytes]:
    begun: list[bytes] = []
    size = 0
    while chunk := await stdout.read(_CHUNK):
        if not noticed.came(size=len(chunk)):
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = b"".join([*begun, line]).strip()
            begun, size = [], 0
            if whole:
                yield whole
            elif not noticed.came(messages=1):
                return
        begun.append(rest)
        size += len(rest)
        if size > MESSAGE_AT_MOST:
            noticed.fail(f"sent a message of more than {MESSAGE_AT_MOST // 1024**2} MiB")
            return


def _how_ended(run: asyncio.Task[Finished]) -> str:
    if not run.done():
        return "closed its standard output"
    try:
        finished = run.result()
    except ToolError as error:
        return f"cannot be started: {error}"
    how = finished.signal or f"exit code {finished.exit_code}"
    return f"ended ({how})" if finished.ended_by in ("itself", "signal") else "was ended"
