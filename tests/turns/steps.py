"""Every step of a run, counted: a step is whatever one of its tasks does until it waits for something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Stepped(Coroutine[Any, Any, Any]):
    """Work that does something when it, or what it shares its steps with, waits for the `at`th time."""

    def __init__(
        self, work: Coroutine[Any, Any, Any], at: int, act: Callable[[], object], steps: list[int]
    ) -> None:
        self._work = work
        self._at = at
        self._act = act
        self._steps = steps

    def send(self, value: Any) -> Any:
        return self._waits(self._work.send(value))

    def throw(self, *error: Any) -> Any:
        return self._waits(self._work.throw(*error))

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()

    def _waits(self, what_for: Any) -> Any:
        self._steps[0] += 1
        if self._steps[0] == self._at:
            self._act()
        return what_for


def factory(at: int, act: Callable[[], object], steps: list[int]) -> Any:
    """For `loop.set_task_factory`: every task counts its steps; `act` is called at the `at`th."""

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(Stepped(work, at, act, steps), loop=loop, **options)

    return make
