"""What a loop is doing, as something to iterate over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from placet.turns.ending import Ending, Event, Watch


async def watched(start: Callable[[Watch], Awaitable[Ending]]) -> AsyncGenerator[Event, None]:
    """The events of a loop as they come. Leaving early stops the loop, and waits until it has."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    async def lead() -> None:
        try:
            await start(events.put_nowait)
        finally:
            events.put_nowait(None)

    leading = asyncio.get_running_loop().create_task(lead())
    try:
        while (event := await events.get()) is not None:
            yield event
        await leading
    finally:
        if not leading.done():
            leading.cancel()
            await asyncio.wait((leading,))
            if not leading.cancelled():
                leading.exception()  # Whoever left does not want to hear of it.
