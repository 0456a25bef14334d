"""Tools whose every effect is a line in a file, with a moment before and after it in which to be killed."""

from __future__ import annotations

import asyncio
import os
import random

from placet import ToolContext, tool

EFFECTS = os.environ.get("KILL_EFFECTS", os.devnull)
PAUSE_S = 0.004
BEFORE_S = 0.012
"""Longer, so that a few kills are enough to meet an action that is noted and has not taken effect."""


async def _act(context: ToolContext) -> str:
    await asyncio.sleep(random.random() * BEFORE_S)
    line = f"{context.idempotency_key}\n".encode()
    handle = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)
    await asyncio.sleep(random.random() * PAUSE_S)
    return context.idempotency_key


@tool
async def unsafe(context: ToolContext) -> str:
    """Must not happen twice."""
    return await _act(context)


@tool(idempotent=True)
async def safe(context: ToolContext) -> str:
    """May happen twice."""
    return await _act(context)


@tool(risk="read_only")
async def look() -> int:
    """Changes nothing."""
    await asyncio.sleep(random.random() * PAUSE_S)
    return 1
