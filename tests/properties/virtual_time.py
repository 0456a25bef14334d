"""An event loop in which waiting takes no time.

Sleeping jumps the loop's clock to the next timer, so retries, time limits and interleavings of hundreds of
plans run in the time it takes to compute them, and in the same order every time. A loop in which nothing can
ever happen again fails at once instead of hanging. Not for tools in threads: they live in real time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(Exception):
    """Everything waits, and nothing is left that could end the waiting."""


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise Deadlock("every task waits for something that never comes")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock only moves when there is nothing else to do."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end in virtual time. No task may be left when it has ended."""
    loop = VirtualLoop()
    try:
        task = loop.create_task(main)
        result = loop.run_until_complete(task)
        left = [t for t in asyncio.all_tasks(loop) if not t.done()]
        assert not left, f"left running: {left}"
        loop.run_until_complete(loop.shutdown_asyncgens())
        return result
    finally:
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
