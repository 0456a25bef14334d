"""A real MCP server, made with the official SDK: `python real_server.py` speaks on its standard streams, and
`python real_server.py PORT` on HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer

server: Any = MCPServer("real")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def say(text: str) -> str:
    """Say it back."""
    return text


@server.tool(structured_output=False)
def several() -> list[Any]:
    """Answer with a text and a picture."""
    return ["look:", Image(data=b"\x89PNG", format="png")]


@server.tool(structured_output=False)
def fail(text: str) -> str:
    """Fail with these words."""
    raise ValueError(text)


@server.tool(structured_output=False)
def variable(name: str) -> str:
    """What an environment variable holds."""
    return os.environ.get(name, "(not set)")


@server.tool(structured_output=False)
def where() -> str:
    """Which process answers, in which folder."""
    return f"{os.getpid()} {Path.cwd()}"


@server.tool(structured_output=False)
async def linger(file: str, context: Context) -> str:
    """Tell how far it is, then wait for ever; leave a trace when it is told to stop."""
    await context.report_progress(1, 4, "began")
    _leave(f"{file}.began")
    try:
        await asyncio.sleep(600)
    finally:
        _leave(file)
    return "never"


def _leave(trace: str) -> None:
    Path(trace).touch()


@server.tool(structured_output=False)
def crash(code: int) -> str:
    """End the server at once."""
    os._exit(code)


@server.tool(structured_output=False)
def header(name: str, context: Context) -> str:
    """What a header of the request holds."""
    request: Any = context.request_context.request
    return str(request.headers.get(name))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
