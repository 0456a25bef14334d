"""Threads for tools that are plain functions.

The standard pool does not fit: its default size on two cores is six, its threads keep the process from
ending, and one that hangs is lost to it for good. Here threads are daemons, and one that was given up is
replaced.

Keep true:
1. A job that was given up before it began never begins, nor does one whose time is over.
2. A late answer is dropped.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

IDLE_S = 5.0
"""A thread with nothing to do ends after so long."""


class Job:
    """One call on a thread."""

    __slots__ = ("_call", "_context", "_deadline", "_given_up", "_loop", "begun", "future")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, call: Callable[[], Any], deadline: float | None
    ) -> None:
        self._loop = loop
        self._call = call
        self._deadline = deadline
        self._context = contextvars.copy_context()
        self._given_up = False
        self.begun = False
        self.future: asyncio.Future[tuple[bool, Any]] = loop.create_future()
        """(True, value) or (False, exception)."""

    def may_begin(self) -> bool:
        """Whether it was not given up, and its time is not over. Asked on the thread."""
        # Not given up yet does not mean in time: the loop that would give it up may be busy.
        return not self._given_up and (self._deadline is None or self._loop.time() < self._deadline)

    def run(self) -> None:
        """On the thread."""
        try:
            answer = (True, self._context.run(self._call))
        except BaseException as error:
            # Also SystemExit: a tool that exits ends its action, not our thread.
            answer = (False, error)
        with suppress(RuntimeError):  # The loop may have gone, and with it whoever asked.
            self._loop.call_soon_threadsafe(self._deliver, answer)

    def _deliver(self, answer: tuple[bool, Any]) -> None:
        if not self.future.done():
            self.future.set_result(answer)


class Workers:
    """At most `limit` threads at work; more calls wait in line."""

    def __init__(self, limit: int = 32) -> None:
        self._limit = limit
        self._line: deque[Job] = deque()
        self._wake = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._lost: set[Job] = set()

    def submit(
        self, loop: asyncio.AbstractEventLoop, call: Callable[[], Any], *, deadline: float | None = None
    ) -> Job:
        """Put a call in line.

        One that could begin only after `deadline` (by `loop.time()`) never does, and its future stays open:
        whoever set the limit waits no longer than that.
        """
        job = Job(loop, call, deadline)
        with self._wake:
            self._line.append(job)
            if self._idle >= len(self._line):
                self._wake.notify()
            elif self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._work, name="placet-tool", daemon=True).start()
        return job

    def give_up(self, job: Job) -> bool:
        """Stop waiting for a job. True if it had begun: then its thread goes on, and another replaces it."""
        with self._wake:
            if not job.begun:
                job._given_up = True
                return False
            if not job.future.done():
                self._lost.add(job)
                self._threads -= 1
                if self._line and self._threads < self._limit and not self._idle:
                    self._threads += 1
                    threading.Thread(target=self._work, name="placet-tool", daemon=True).start()
            return True

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._line:
                    self._idle += 1
                    woken = self._wake.wait(IDLE_S)
                    self._idle -= 1
                    if not woken and not self._line:
                        self._threads -= 1
                        return
                job = self._line.popleft()
                if not job.may_begin():
                    continue
                job.begun = True
            job.run()
            with self._wake:
                if job in self._lost:
                    self._lost.discard(job)
                    return
