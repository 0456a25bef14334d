"""Work in a thread that whoever waits for it cleans up after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def finish_in_thread(work: Callable[[], T]) -> T:
    """Do `work` in a thread to its end, however often this is cancelled meanwhile, and pass that on then.

    A thread cannot be stopped: `asyncio.to_thread` returns at once when it is cancelled, and whatever its
    caller removes or closes then, the thread still uses.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait((working,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from working.exception()
    return working.result()
