"""What a tool call costs against the bare thing: a function, a file, a command.

By the clock, not CPU: what a command costs is spent in other processes. Both sides are measured in turns, and
the median counts, so a slow moment of the machine falls on both and on few.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.report import Floor, Section
from placet import Runtime, basic_tools, tool
from placet.ir.tool_spec import ToolSchema
from placet.sandbox.command import run_command
from placet.sandbox.workspace import Workspace
from placet.tools.subprocess import CommandSpec, command_tool
from placet.worktree.git import git
from placet.worktree.git import program as program_of_git

Call = Callable[[], Awaitable[object]]

MANY, FEW = 200, 5
"""Calls in one plan, so that what a plan costs by itself is spread."""
MOST_FILE_MS = 1.0
MOST_COMMAND_MS = 5.0
MOST_CONFINED_MS = 12.0
"""What our way may add to a bare process on an idle machine."""
_SIZE = 4096


class Pair(NamedTuple):
    """A call, as it is without us and with us, each made `number` times in a row."""

    name: str
    number: int
    turns: int
    bare: Call
    ours: Call
    most_ms: float | None = None
    """What ours may add to a call."""


async def run(say: Callable[[str], None], *, quick: bool) -> Section:
    section = Section(
        "Tools: one call against the bare thing, by the clock (median of turns)",
        ("call", "bare us", "ours us", "ratio", "added ms"),
    )
    with tempfile.TemporaryDirectory() as folder:
        for pair in _pairs(Path(folder)):
            say(f"tools: {pair.name}")
            bare_s, ours_s = await in_turns(pair, max(3, pair.turns // 4) if quick else pair.turns)
            added_ms = (ours_s - bare_s) * 1000
            section.rows.append([pair.name, bare_s * 1e6, ours_s * 1e6, ours_s / bare_s, added_ms])
            if pair.most_ms is not None:
                section.floors.append(Floor(f"tools: {pair.name}, added", added_ms, pair.most_ms, "ms"))
    return section


async def in_turns(pair: Pair, turns: int) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns + 1):
        for call, kept in zip((pair.bare, pair.ours), times, strict=True):
            began = perf_counter()
            await call()
            if turn:  # The first is for warming up.
                kept.append((perf_counter() - began) / pair.number)
    return median(times[0]), median(times[1])


def times(number: int, call: Call) -> Call:
    async def repeated() -> None:
        for _ in range(number):
            await call()

    return repeated


def _in_thread(function: Callable[[], object]) -> Call:
    return lambda: asyncio.to_thread(function)


def _plan(runtime: Runtime, name: str, number: int, parameters: Mapping[str, object]) -> Call:
    """A plan of calls one after the other, as the bare ones are."""
    actions = [
        {
            "id": f"a{n}",
            "tool": name,
            "dependencies": [f"a{n - 1}"] if n else [],
            "parameters": parameters,
        }
        for n in range(number)
    ]

    async def execute() -> None:
        result = await runtime.execute({"actions": actions})
        if not result.succeeded:
            raise SystemExit(f"{name}: {result.error or result.results[0].error}")

    return execute


def _pairs(folder: Path) -> list[Pair]:
    (folder / "a.txt").write_text("0123456789abcde\n" * (_SIZE // 16))
    workspace = Workspace(folder)

    @tool(risk="read_only")
    async def direct(n: int) -> int:
        return n + 1

    @tool(risk="read_only")
    def threaded(n: int) -> int:
        return n + 1

    program = command_tool(
        ToolSchema(name="program", risk="read_only"), CommandSpec(argv=["/bin/echo", "1"], folder=str(folder))
    )
    runtime = Runtime(tools=[direct, threaded, program], builtin=basic_tools(workspace))

    def write() -> None:
        # As careful as ours: nobody ever sees half a file.
        with open(folder / "b.tmp", "wb") as file:
            file.write(b"x" * _SIZE)
            file.flush()
            os.fsync(file.fileno())
        os.replace(folder / "b.tmp", folder / "b.txt")

    async def command() -> None:
        process = await asyncio.create_subprocess_exec(
            "/bin/echo", "1", stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL, cwd=folder
        )
        await process.communicate()

    async def kept() -> None:
        await run_command(["/bin/echo", "1"], folder=str(folder))

    repository = folder / "repository"
    subprocess.run([program_of_git(), "init", "-q", str(repository)], check=True)
    asked = ["rev-parse", "--absolute-git-dir"]

    async def bare_git() -> None:
        process = await asyncio.create_subprocess_exec(
            program_of_git(), *asked, stdout=asyncio.subprocess.PIPE, cwd=repository
        )
        await process.communicate()

    async def our_git() -> None:
        await git(asked, git_dir=str(repository / ".git"))

    def ours(name: str, number: int, **parameters: object) -> Call:
        return _plan(runtime, name, number, parameters)

    read, few = (folder / "a.txt").read_bytes, times(FEW, command)
    text = "x" * _SIZE
    return [
        Pair("async function", MANY, 20, times(MANY, lambda: direct(n=1)), ours("direct", MANY, n=1)),
        Pair(
            "function in a thread",
            MANY,
            10,
            times(MANY, _in_thread(lambda: threaded(n=1))),
            ours("threaded", MANY, n=1),
        ),
        Pair(
            "read_file, 4 KiB",
            MANY,
            10,
            times(MANY, _in_thread(read)),
            ours("read_file", MANY, path="a.txt"),
            MOST_FILE_MS,
        ),
        Pair(
            "write_file, 4 KiB",
            MANY,
            5,
            times(MANY, _in_thread(write)),
            ours("write_file", MANY, path="c.txt", text=text),
            MOST_FILE_MS,
        ),
        Pair("run_command", FEW, 10, few, times(FEW, kept), MOST_COMMAND_MS),
        Pair(
            "git, as the coder calls it", FEW, 10, times(FEW, bare_git), times(FEW, our_git), MOST_COMMAND_MS
        ),
        Pair("shell, confined", FEW, 10, few, ours("shell", FEW, command="echo 1"), MOST_CONFINED_MS),
        Pair("program as a tool", FEW, 10, few, ours("program", FEW), MOST_COMMAND_MS),
    ]
