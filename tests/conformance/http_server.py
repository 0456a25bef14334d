"""What `placet mcp serve` serves, behind the SDK's own HTTP app: the conformance tests speak nothing else.

    python -m tests.conformance.http_server FOLDER

Prints the URL, and serves until it is told to end.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import uvicorn

from placet.app.app import open_app
from placet.app.options import RunOptions
from placet.server.mcp import Face, make_server


async def serve(folder: Path) -> None:
    """Serve on a free port of loopback."""
    tools = str(Path(__file__).with_name("tools.py"))
    with open_app(RunOptions(tools=tools, folder=str(folder)), db=str(folder / "runs.db")) as app:
        server = make_server(Face(app))
        listening = socket.create_server(("127.0.0.1", 0))
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
