"""`placet mcp serve` as a client meets it: a process of its own, spoken to through the official SDK."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from tests.cli.conftest import environment
from tests.command import PLACET

T = TypeVar("T")

SERVE = ["mcp", "serve"]
COMMAND = [*PLACET, *SERVE]

TOOLS = '''
import os
import sys
import threading
import time
from pathlib import Path

from placet import ToolContext, ToolError, tool

HERE = Path(__file__).parent
print("loading the tools")


@tool(risk="read_only")
def look(what: str = "x") -> str:
    """Look something up.

    Args:
        what: The thing to look for.
    """
    return f"found {what}"


@tool(risk="read_only")
def count(words: list[str]) -> dict[str, int]:
    """Count words."""
    return {word: words.count(word) for word in words}


@tool
def mark(file: str) -> str:
    """Leave a trace outside."""
    with open(HERE / file, "a") as trace:
        trace.write("marked\\n")
    return "marked"


@tool
def forbidden() -> str:
    """Leave a trace that no rule permits."""
    return mark("forbidden")


@tool
def sign() -> str:
    """Leave a trace that a person has to permit."""
    return mark("signed")


@tool
def deploy() -> str:
    """Leave a trace, after `test`."""
    return mark("deployed")


@tool(risk="read_only")
def test() -> str:
    """What has to come before `deploy`."""
    return "tested"


@tool
def fail(text: str = "it broke") -> str:
    """Fail with these words."""
    raise ToolError(text, retry=False)


@tool
def loud() -> str:
    """Print in every way there is, and read what there is to read."""
    print("python speaks")
    sys.stdout.flush()
    os.write(1, b"the descriptor speaks\\n")
    os.system("echo a child speaks; cat")
    return f"read {sys.stdin.read()!r}"


@tool(risk="read_only")
def hold(name: str, context: ToolContext) -> str:
    """Say that it has begun, and wait until it is told to stop or to go on."""
    told = threading.Event()
    context.cancel.on_hard(told.set)
    (HERE / f"{name}.begun").touch()
    while not told.wait(0.01):
        if (HERE / f"{name}.go").exists():
            return f"{name} went on"
    (HERE / f"{name}.stopped").write_text(context.cancel.reason)
    raise ToolError("stopped", retry=False)


@tool
def stubborn() -> str:
    """Hear nothing."""
    (HERE / "stubborn.begun").touch()
    time.sleep(600)
    return "done"


@tool(risk="read_only")
def climb(steps: int, context: ToolContext) -> str:
    """Report each step."""
    for step in range(1, steps + 1):
        context.progress(f"step {step}", done=step, total=steps)
        time.sleep(0.15)  # The log keeps at most ten reports a second.
    return "up"


@tool(risk="read_only")
def leak() -> dict[str, str]:
    """Answer with a secret."""
    return {"note": "the key is " + os.environ["DEPLOY_TOKEN"]}


@tool(risk="read_only")
def long(lines: int) -> str:
    """Answer at length."""
    return "a line of words\\n" * lines


@tool(name="to do", risk="read_only")
def to_do() -> str:
    """What is to be done."""
    return "everything"
'''


RULES = """
[[rule]]
name = "still"
kind = "deny_tool"
tool = "forbidden"
reason = "traces stay"

[[rule]]
name = "look-first"
kind = "deny_tool"
tool = "sign"
reason = "a name is a name"
unless_approved = true

[[rule]]
name = "tests-first"
kind = "trace_rule"
tool = "deploy"
only_after = { tool = "test" }
reason = "test first"
"""


class Place:
    """A folder with tools, rules and a database."""

    def __init__(self, folder: Path, program: Sequence[str] = PLACET) -> None:
        """`program` is how `placet` is started."""
        self.folder = folder
        self.program = program
        self.tools = folder / "tools.py"
        self.tools.write_text(TOOLS, encoding="utf-8")
        self.rules = folder / "rules.toml"
        self.rules.write_text(RULES, encoding="utf-8")
        self.db = folder / "runs.db"
        self._seen = {"events": 0, "runs": 0}

    def command(self, *options: str) -> list[str]:
        """The command line that serves these tools."""
        return [*self.program, *SERVE, *self.inputs, "--db", str(self.db), *options]

    @property
    def inputs(self) -> list[str]:
        """The options that name the files."""
        return ["--tools", str(self.tools), "--policies", str(self.rules)]

    def parameters(self, *options: str, **env: str) -> StdioServerParameters:
        """The server, as the SDK starts it."""
        program, *arguments = self.command(*options)
        return StdioServerParameters(command=program, args=arguments, cwd=self.folder, env=environment(**env))

    @asynccontextmanager
    async def client(self, *options: str, **env: str) -> AsyncIterator[ClientSession]:
        """A client that has shaken hands."""
        server = self.parameters(*options, **env)
        with (self.folder / "stderr.txt").open("w") as talk:
            async with (
                stdio_client(server, errlog=talk) as (read, write),
                ClientSession(read, write) as client,
            ):
                await client.initialize()
                yield client

    @property
    def talk(self) -> str:
        """What the last server said on stderr."""
        return (self.folder / "stderr.txt").read_text()

    def forget(self) -> None:
        """Show only what happens from now on."""
        self._seen = {table: self._newest(table) for table in ("events", "runs")}

    def _newest(self, table: str) -> int:
        if not self.db.exists():
            return 0
        with sqlite3.connect(self.db) as database:
            [[newest]] = database.execute(f"SELECT coalesce(max(rowid), 0) FROM {table}")
            return int(newest)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What the database holds of that kind, oldest first."""
        with sqlite3.connect(self.db) as database:
            rows = database.execute(
                "SELECT run_id, action_id, data FROM events WHERE kind = ? AND rowid > ? ORDER BY position",
                (kind, self._seen["events"]),
            )
            return [
                {"run_id": run, "action_id": action, "data": msgspec.json.decode(data)}
                for run, action, data in rows
            ]

    def runs(self) -> list[tuple[str, str]]:
        """Runs with how they stand, oldest first."""
        with sqlite3.connect(self.db) as database:
            return list(
                database.execute(
                    "SELECT run_id, status FROM runs WHERE rowid > ? ORDER BY rowid", (self._seen["runs"],)
                )
            )


class Served:
    """A server that several tests share, and a client of it. Both live in a thread of their own."""

    def __init__(self, place: Place, *options: str, **env: str) -> None:
        self.place = place
        self._options = options
        self._env = env
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        self._thread.start()
        self._ready.wait(60)
        self.client: ClientSession

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        try:
            async with self.place.client(*self._options, **self._env) as self.client:
                self._ready.set()
                await self._over.wait()
        finally:
            self._ready.set()

    def close(self) -> None:
        """End the server."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(60)

    async def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """Ask something of the client."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(question, self._loop))

    async def call(
        self, name: str, arguments: dict[str, Any] | None = None, **options: Any
    ) -> types.CallToolResult:
        """Call a tool."""
        return await self.ask(self.client.call_tool(name, arguments or {}, **options))


async def until(path: Path) -> None:
    """Wait for a file that a tool makes."""

    def look() -> None:
        while not path.exists():
            time.sleep(0.01)

    await asyncio.to_thread(look)


def words(result: types.CallToolResult) -> str:
    """The text of an answer."""
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text
