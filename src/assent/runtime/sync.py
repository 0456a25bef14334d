"""Running a coroutine for people without an event loop.

`asyncio.run` waits for every task that is left, so one tool that ignores its cancellation would hang the
caller for good. Here such a task is left behind.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_GRACE_S = 1.0


def run_sync(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a loop of its own and return what it returns. Ctrl-C cancels it first."""
    loop = asyncio.new_event_loop()
    interrupted = False
    try:
        task = loop.create_task(main)

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()

        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise
        finally:
            _end_tasks(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_GRACE_S))
    for task in left:
        if not task.done():
            # It was told twice. Saying at exit that it never ended helps nobody.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
