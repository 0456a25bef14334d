"""Tools of the runs that workers do: every effect is a line in a file beside the run's folder."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from placet import ToolContext, tool

HERE = Path(__file__).resolve().parents[1]


def _note(text: str) -> None:
    handle = os.open(HERE / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{text}\n".encode())
    finally:
        os.close(handle)


@tool
async def act(name: str, context: ToolContext) -> str:
    """Must not happen twice."""
    _note(f"act {name} {context.run_id}")
    return name


@tool
async def slow(name: str, context: ToolContext) -> str:
    """Must not happen twice, and takes a moment."""
    await asyncio.sleep(0.05)
    _note(f"slow {name} {context.run_id}")
    await asyncio.sleep(0.05)
    return name


@tool
async def hold(name: str, context: ToolContext) -> str:
    """Must not happen twice; goes on once a file is there."""
    _note(f"hold {name} {context.run_id}")
    while not (HERE / f"{name}.go").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    _note(f"held {name} {context.run_id}")
    return name


@tool(risk="read_only")
async def look(name: str, context: ToolContext) -> str:
    """May happen twice; goes on once a file is there."""
    _note(f"look {name} {context.run_id}")
    while not (HERE / f"{name}.go").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return name


@tool
async def busy(name: str, context: ToolContext) -> str:
    """Keep the event loop busy for so many seconds, and the interpreter now and then."""
    _note(f"busy {name} {context.run_id}")
    until = time.monotonic() + float(name)
    while time.monotonic() < until:
        sum(range(100_000))
        time.sleep(0.05)  # noqa: ASYNC251
    return name


@tool(risk="read_only")
def poison() -> None:
    """Kill the process of whoever calls."""
    _note("poison")
    os.kill(os.getpid(), signal.SIGKILL)
