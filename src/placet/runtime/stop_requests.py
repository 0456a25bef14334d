"""Requests to stop: passed on between cancels, and from other processes to the run that they are about.

Keep true:
1. A request is about one run: a cancel that its caller shares with other runs is not used for it.
2. A cancel that is used for many runs keeps none of those that have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

from placet.errors import PlacetError
from placet.ir.stop_cause import StopCause
from placet.storage.lease import StopRequest
from placet.tools.context import Cancel

LOOK_S = 0.5
"""How often the store is asked whether another process wants a run to stop."""


@contextmanager
def linked(*outer: Cancel | None) -> Iterator[Cancel]:
    """Yield a cancel of its own that any of the others cancels as well, as long as this lasts."""
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
    inner.cancel(outer.reason, hard=hard, cause=outer.cause or StopCause.CALLER)


@asynccontextmanager
async def listening_for_stop(
    look: Callable[[], StopRequest | None], cancel: Cancel, *, every_s: float = LOOK_S
) -> AsyncIterator[None]:
    """As long as this lasts, pass a request to stop that `look` finds on to `cancel`. `look` runs in a
    thread."""
    looking = asyncio.get_running_loop().create_task(_look(look, cancel, every_s))
    try:
        yield
    finally:
        looking.cancel()
        # Not `await looking`: whether this, too, is cancelled meanwhile could not be told from its own end.
        await asyncio.wait((looking,))
        if not looking.cancelled():
            looking.result()


async def _look(look: Callable[[], StopRequest | None], cancel: Cancel, every_s: float) -> None:
    while not cancel.requested:
        await asyncio.sleep(every_s)
        # What cannot be read now may be the next time.
        with suppress(PlacetError):
            found = await asyncio.to_thread(look)
            if found is not None:
                cancel.cancel(found.reason, hard=True, cause=found.cause)
