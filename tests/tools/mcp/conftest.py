"""Real servers to call: one made with the SDK, and one that misbehaves as it is told."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from placet.tools.context import ToolContext
from placet.tools.mcp.connections import Connections
from placet.tools.mcp.server import McpServer, switch_on
from placet.tools.tool import Tool
from tests.warm import Warm

HERE = Path(__file__).resolve().parent
REAL = HERE / "real_server.py"
HOSTILE = (sys.executable, "-I", "-S", str(HERE / "hostile_server.py"))


def real_command() -> tuple[str, ...]:
    """What starts the real server. Its end is that of the process that is started, though not at once."""
    return (*Warm.last.python, str(REAL))


@pytest.fixture(scope="session", autouse=True)
def _is_loaded(warm: Warm) -> None:
    """What `real_command` needs."""


class Served:
    """The tools of one server, to be called as the runtime calls them."""

    def __init__(
        self, connections: Connections, server: McpServer, *, read_only: bool = False, name: str = "s"
    ) -> None:
        """With every tool switched on that the server lists now."""
        self.connections = connections
        on = {offer.name: switch_on(offer, read_only=read_only) for offer in connections.offers(name, server)}
        self.server = replace(server, tools=on)
        self.tools: dict[str, Tool] = {}
        for tool in connections.tools(name, self.server):
            self.tools[tool.name.removeprefix(f"{name}.")] = tool
        self.progress: list[tuple[str, float | None, float | None]] = []

    async def call(self, tool: str, **parameters: Any) -> Any:
        def note(message: str, done: float | None, total: float | None) -> None:
            self.progress.append((message, done, total))

        context = ToolContext(action_id="a", run_id="r", on_progress=note)
        return await self.tools[tool](parameters, context=context)


@pytest.fixture
def connections() -> Iterator[Connections]:
    made = Connections(os.environ)
    yield made
    made.close()


@pytest.fixture
def hostile(connections: Connections, tmp_path: Path) -> Callable[..., Served]:
    """A server that misbehaves in this way, with its tool `do` switched on."""

    def start(way: str, *arguments: str, read_only: bool = False, name: str = "s", **options: Any) -> Served:
        server = McpServer(command=(*HOSTILE, way, *arguments), folder=str(tmp_path), **options)
        return Served(connections, server, read_only=read_only, name=name)

    return start


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The real server, shared by the tests of one file."""
    connections = Connections({**os.environ, "NAMED": "for the server", "OTHER": "for nobody"})
    folder = tmp_path_factory.mktemp("started here")
    try:
        yield Served(
            connections, McpServer(command=real_command(), folder=str(folder), environment=("NAMED",))
        )
    finally:
        connections.close()


def is_running(pid: int) -> bool:
    """Whether a process is there, and more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(is_so: Callable[[], bool]) -> bool:
    """Wait for something that another process does; false if it does not."""
    end = time.monotonic() + 60
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
    return is_so()


def servers_in(folder: Path) -> list[int]:
    """The processes of this test's servers: those that work in its folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if (entry / "cwd").readlink() == folder and b"hostile_server" in (
                    entry / "cmdline"
                ).read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return [pid for pid in found if is_running(pid)]
