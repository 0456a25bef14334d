"""Work in a thread ends before whoever waits for it goes on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from placet.thread_work import finish_in_thread


async def test_a_cancellation_waits_for_the_thread_and_passes_then() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        may_end.wait()
        ended.append("work")

    async def using() -> None:
        try:
            await finish_in_thread(work)
        finally:
            ended.append("caller")

    task = asyncio.ensure_future(using())
    await asyncio.to_thread(begun.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["work", "caller"]


async def test_what_comes_of_it_is_returned_or_raised() -> None:
    def fail() -> None:
        raise ValueError("no")

    assert await finish_in_thread(lambda: 1) == 1
    with pytest.raises(ValueError, match="no"):
        await finish_in_thread(fail)
