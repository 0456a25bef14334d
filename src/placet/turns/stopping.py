"""What may stop a loop of turns: whoever leads it, whoever waits for one message, and time.

Keep true:
1. Time that runs out stops nothing but the loop: nobody else's cancel is touched.
2. A cancel that is used for many runs keeps none of those that have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any

from placet.errors import PlacetError
from placet.ir.stop_cause import StopCause
from placet.policy.budget import Budget, CostBudget
from placet.storage.lease import StopRequest
from placet.tools.context import Cancel

LOOK_S = 0.5
"""How often it is looked whether another process wants something to stop."""


@contextmanager
def linked(*outer: Cancel | None) -> Iterator[Cancel]:
    """A cancel of its own, that any of the others cancels as well, as long as this lasts."""
    inner = Cancel()
    links = []
    for each in outer:
        if each is not None:
            links.append(each.on_request(partial(_pass_on, each, inner, False)))
            links.append(each.on_hard(partial(_pass_on, each, inner, True)))
    try:
        yield inner
    finally:
        for unlink in links:
            unlink()


@contextmanager
def in_time(budget: Budget | None, *outer: Cancel | None) -> Iterator[Cancel]:
    """The same, which the end of the time of a budget, or of one above it, cancels as well."""
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


@asynccontextmanager
async def heeding(
    look: Callable[[], StopRequest | None], cancel: Cancel, *, every_s: float = LOOK_S
) -> AsyncIterator[None]:
    """As long as this lasts, a request to stop that `look` finds is passed on to `cancel`; and whoever uses
    it otherwise stops what is in flight, too: what runs here works in private folders."""
    looking = asyncio.get_running_loop().create_task(_look(look, cancel, every_s))
    unlink = cancel.on_request(lambda: cancel.cancel(cancel.reason, hard=True))
    try:
        yield
    finally:
        unlink()
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


async def _look(look: Callable[[], StopRequest | None], cancel: Cancel, every_s: float) -> None:
    while not cancel.requested:
        await asyncio.sleep(every_s)
        # What cannot be read now may be the next time.
        with suppress(PlacetError):
            found = await asyncio.to_thread(look)
            if found is not None:
                cancel.cancel(found.reason, hard=True, cause=found.cause)


def _pass_on(outer: Cancel, inner: Cancel, hard: bool) -> None:
    inner.cancel(outer.reason, hard=hard, cause=outer.cause or StopCause.CALLER)


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
