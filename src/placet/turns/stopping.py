"""What may stop a loop of turns: whoever leads it, whoever waits for one message, and time.

Keep true:
1. Time that runs out stops nothing but the loop: nobody else's cancel is touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from placet.ir.stop_cause import StopCause
from placet.policy.budget import Budget, CostBudget
from placet.runtime.stop_requests import linked
from placet.tools.context import Cancel


@contextmanager
def in_time(budget: Budget | None, *outer: Cancel | None) -> Iterator[Cancel]:
    """Yield a cancel that any of the others cancels as well, and the end of the time of a budget, or of one
    above it."""
    with linked(*outer) as inner, ExitStack() as stack:
        for each in budget or ():
            if isinstance(each.limits, CostBudget):
                ring = partial(inner.cancel, each.limits.time_words(), hard=True, cause=StopCause.DEADLINE)
                stack.enter_context(when_late(each, ring))
        yield inner


@contextmanager
def when_late(budget: Budget, ring: Callable[[], None]) -> Iterator[None]:
    """As long as this lasts, `ring` is called when the time of a budget is over."""
    limit_ms = budget.limits.time_ms() if budget.limits is not None else None
    if limit_ms is None:
        yield
        return
    loop = asyncio.get_running_loop()
    alarm: asyncio.TimerHandle

    def look() -> None:
        nonlocal alarm
        if budget.elapsed_ms < limit_ms:
            alarm = arm()  # People were waited for, and that time is nobody's.
        else:
            ring()

    def arm() -> asyncio.TimerHandle:
        return loop.call_later(max(limit_ms - budget.elapsed_ms, 1.0) / 1000, look)

    alarm = arm()
    try:
        yield
    finally:
        alarm.cancel()


@contextmanager
def always_hard(cancel: Cancel) -> Iterator[None]:
    """As long as this lasts, a soft cancel is a hard one: what runs here works in private folders."""
    unlink = cancel.on_request(lambda: cancel.cancel(cancel.reason, hard=True))
    try:
        yield
    finally:
        unlink()


async def stopped_by(cancel: Cancel, work: Coroutine[Any, Any, object]) -> bool:
    """Do something to its end, unless it is cancelled first; whether it was."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    # May come from any thread.
    unlink = cancel.on_request(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        await task
        return False
    except asyncio.CancelledError:
        mine = asyncio.current_task()
        if not cancel.requested or (mine is not None and mine.cancelling()):
            raise
        return True
    finally:
        unlink()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


@contextmanager
def first_error() -> Iterator[None]:
    """Of several at once that failed, let the error of the first through as it is: it has words for people,
    and a group of errors has none."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
