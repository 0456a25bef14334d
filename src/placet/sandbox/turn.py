"""One at a time, on whatever event loop is running.

A lock belongs to one loop, and a program may have several, one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Turn:
    """`async with turn.take():` for a part that only one may be in."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock | None = None

    def take(self) -> asyncio.Lock:
        """The lock of the loop that is running."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._lock is None or self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
