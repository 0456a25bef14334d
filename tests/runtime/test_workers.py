"""Threads for tools that are plain functions: who begins, who never does, and who is replaced."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from placet.runtime.workers import Job, Workers


class Held:
    """A call that holds its thread until it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.release = threading.Event()

    def __call__(self) -> str:
        self.began.set()
        self.release.wait(30)
        return "late"


async def held(workers: Workers) -> tuple[Held, Job]:
    hold = Held()
    job = workers.submit(asyncio.get_running_loop(), hold)
    await asyncio.to_thread(hold.began.wait, 30)
    return hold, job


async def answer(job: Job) -> Any:
    return await asyncio.wait_for(asyncio.shield(job.future), 30)


async def test_an_overdue_job_never_begins() -> None:
    """Also when a place becomes free before anybody has given it up."""
    workers, loop, ran = Workers(1), asyncio.get_running_loop(), list[str]()
    hold, first = await held(workers)

    overdue = workers.submit(loop, lambda: ran.append("overdue"), deadline=loop.time())
    in_time = workers.submit(loop, lambda: ran.append("in time"), deadline=loop.time() + 60)
    no_limit = workers.submit(loop, lambda: ran.append("no limit"))
    hold.release.set()
    await answer(no_limit)

    assert ran == ["in time", "no limit"]
    assert (overdue.begun, in_time.begun) == (False, True)
    assert not overdue.future.done()
    assert workers.give_up(overdue) is False
    assert await answer(first) == (True, "late")


async def test_an_overdue_job_does_not_begin_on_the_thread_that_replaces_a_lost_one() -> None:
    workers, loop, ran = Workers(1), asyncio.get_running_loop(), list[str]()
    hold, first = await held(workers)
    overdue = workers.submit(loop, lambda: ran.append("overdue"), deadline=loop.time())
    after = workers.submit(loop, lambda: ran.append("after"))

    assert workers.give_up(first) is True
    await answer(after)
    hold.release.set()

    assert ran == ["after"]
    assert overdue.begun is False


async def test_a_job_that_was_given_up_before_it_began_never_begins() -> None:
    workers, loop, ran = Workers(1), asyncio.get_running_loop(), list[str]()
    hold, _ = await held(workers)
    waiting = workers.submit(loop, lambda: ran.append("given up"))
    after = workers.submit(loop, lambda: ran.append("after"))

    assert workers.give_up(waiting) is False
    hold.release.set()
    await answer(after)

    assert ran == ["after"]


async def test_an_exception_is_an_answer() -> None:
    def leave() -> None:
        raise SystemExit(3)

    ok, error = await answer(Workers(1).submit(asyncio.get_running_loop(), leave))

    assert ok is False
    assert isinstance(error, SystemExit)
