"""Running a coroutine for people without an event loop.

`asyncio.run` waits for every task that is left, so one tool that ignores its cancellation would hang the
caller for good. Here such a task is left behind.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from placet.errors import UsageError

T = TypeVar("T")

_GRACE_S = 1.0
_HELD: ContextVar[tuple[int, ...]] = ContextVar("placet_turns_held", default=())
"""Ids of the turns that are held around this code, also in the threads of tools."""


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


class Turns:
    """Runs for callers without an event loop, one at a time, whatever thread they come from."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def run(self, name: str, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Start and wait. `name` is the method that would be awaited where there is an event loop.

        Raises:
            UsageError: this thread has an event loop running, or serves a tool of a run that holds the turn.
        """
        refuse_inside_loop(name)
        around = _HELD.get()
        if id(self) in around:
            raise UsageError(
                f"A tool called {name}_sync of the runtime that runs it, and would wait for itself for ever. "
                f"Make the tool async, and use `await rt.{name}(...)` there."
            )
        with self._turn:
            token = _HELD.set((*around, id(self)))
            try:
                return run_sync(start())
            finally:
                _HELD.reset(token)


def refuse_inside_loop(name: str, *, of: str = "rt") -> None:
    """Refuse to wait where an event loop runs in this thread. Called before a coroutine is made, which would
    never be awaited.

    Raises:
        UsageError: one does; says what to await there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        f"{name}_sync cannot be used inside a running event loop. Use `await {of}.{name}(...)` there."
    )
