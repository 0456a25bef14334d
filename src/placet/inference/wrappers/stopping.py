"""Waiting for something, until somebody calls it off or its time is up.

Keep true:
1. What is waited for runs in the caller's own task, and is ended before the error is raised.
2. Cancelling the task passes untouched; it is never taken for a cancel of the request, nor for a timeout.
3. When the wait is over, nothing is subscribed any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from placet.errors import ModelCancelled
from placet.safe_text import clean
from placet.tools.context import Cancel

T = TypeVar("T")

_LONGEST_REASON = 200


class OutOfTime(Exception):
    """Raised by `unless_stopped`: the time is up."""


async def unless_stopped(
    work: Callable[[], Awaitable[T]], *, name: str, cancel: Cancel | None, within_s: float | None = None
) -> T:
    """What `work` comes to. It is not begun where it is called off already.

    Raises:
        ModelCancelled: `cancel` was requested, from whatever thread, softly or not.
        OutOfTime: it took more than `within_s`.
    """
    if cancel is not None and cancel.requested:
        raise _cancelled(name, cancel)
    if within_s is not None and within_s <= 0:
        raise OutOfTime
    loop = asyncio.get_running_loop()
    is_called_off = False
    is_over = False

    def stop() -> None:
        nonlocal is_called_off
        if not is_over and not scope.expired():
            is_called_off = True
            # A time limit that is up at once ends the task's wait, and knows whose cancelling it was.
            scope.reschedule(loop.time())

    def call_off() -> None:
        # The loop may be gone by the time that another thread comes to this.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(stop)

    unsubscribe = None
    scope = asyncio.timeout(within_s)
    try:
        async with scope:
            if cancel is not None:
                unsubscribe = cancel.on_request(call_off)
            return await work()
    except Exception:
        # Whatever it says on its way out, it was sent there.
        if not scope.expired():
            raise
        if is_called_off and cancel is not None:
            raise _cancelled(name, cancel) from None
        raise OutOfTime from None
    finally:
        is_over = True
        if unsubscribe is not None:
            unsubscribe()


def _cancelled(name: str, cancel: Cancel) -> ModelCancelled:
    reason = clean(cancel.reason, _LONGEST_REASON).rstrip(".")
    return ModelCancelled(f"The request to {name} was called off: {reason or 'no reason was given'}.")
