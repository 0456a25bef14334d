"""What may stop a loop of turns: whoever leads it, whoever waits for one message, and time.

Keep true:
1. Time that runs out stops nothing but the loop: nobody else's cancel is touched.
2. A cancel that is used for many runs keeps none of those that have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from assent.tools.context import Cancel


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


def _pass_on(outer: Cancel, inner: Cancel, hard: bool) -> None:
    inner.cancel(outer.reason, hard=hard)


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
