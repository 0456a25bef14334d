"""When each action of a proposal starts: layer by layer, by dataflow, or one by one.

Keep true:
1. Both schedules leave the state that the serial order would have left.
2. An action that waits for nothing costs no task; one that waits alone is awaited directly.
3. When the plan stops, what is in flight is stopped before anything is undone.
4. Other work on the event loop gets its turn, however long a plan of instant actions is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Literal

from placet.ir.graph import needs_order
from placet.ir.stop_cause import StopCause
from placet.runtime.calls import stop_tasks
from placet.runtime.execution import Execution

Schedule = Literal["levels", "dataflow"]
"""Order in which the actions of a plan start.

- `levels`: layer by layer.
- `dataflow`: each action as soon as its dependencies have succeeded.
"""

_BREATHE_EVERY = 256


class Scheduler:
    """Drives one execution to its end."""

    __slots__ = (
        "_all_of_them",
        "_broken",
        "_cancels_before",
        "_ended",
        "_max",
        "_running",
        "_since_breath",
        "_task",
        "_wake",
        "_x",
    )

    def __init__(self, execution: Execution, *, max_concurrency: int) -> None:
        self._x = execution
        self._max = max_concurrency
        self._running: dict[int, tuple[asyncio.Task[None], Coroutine[Any, Any, None]]] = {}
        self._wake: asyncio.Future[None] | None = None
        self._ended: list[int] = []
        self._since_breath = 0
        self._broken: BaseException | None = None
        self._all_of_them = False
        self._task = asyncio.current_task()
        self._cancels_before = self._task.cancelling() if self._task is not None else 0

    async def run(self, schedule: Schedule, *, one_by_one: bool) -> None:
        """Start every action, and return when all have ended.

        `one_by_one` is for plans whose every start may depend on all that came before.
        """
        x = self._x
        cancel = x.run.cancel
        alone: Coroutine[Any, Any, None] | None = None
        if x.size == 1:
            alone = x.start(0)
            if alone is None:
                return  # As most calls of a loop of turns: nothing to wait for, and nothing to be stopped.
        loop = asyncio.get_running_loop()
        unsubscribe = None
        if cancel is not None:
            # May come from any thread.
            unsubscribe = cancel.on_hard(lambda: loop.call_soon_threadsafe(self._hard_cancel))
        try:
            if alone is not None:
                await self._see_alone(alone)
            elif one_by_one:
                await self._serially(x.graph.order)
            elif schedule == "levels":
                await self._by_layers()
            else:
                await self._dataflow()
        finally:
            if unsubscribe is not None:
                unsubscribe()
            if self._running:
                await self._stop_running()
        if self._broken is not None:
            raise self._broken

    async def _by_layers(self) -> None:
        in_a_row: list[int] = []
        for layer in self._x.graph.layers:
            if len(layer) == 1 or self._needs_order(layer):
                in_a_row += layer
                continue
            await self._serially(in_a_row)
            in_a_row = []
            await self._together(layer)
        await self._serially(in_a_row)

    def _needs_order(self, layer: Sequence[int]) -> bool:
        actions = self._x.proposal.actions
        return needs_order([actions[i] for i in layer], self._is_read_only)

    def _is_read_only(self, name: str) -> bool:
        tool = self._x.services.tools.get(name)
        return tool is not None and tool.schema.risk == "read_only"

    async def _see_alone(self, waiting: Coroutine[Any, Any, None], i: int = 0) -> None:
        if self._x.run.cancel is not None:
            # In a task of its own, so that a hard cancel can leave it behind.
            self._launch(i, waiting)
            await self._until_ended(all_of_them=True)
            return
        await waiting
        self._notice_cancellation()

    async def _serially(self, positions: Iterable[int]) -> None:
        start = self._x.start
        for i in positions:
            waiting = start(i)
            if waiting is not None:
                await self._see_alone(waiting, i)
                if self._broken is not None:
                    return
            self._since_breath += 1
            if self._since_breath >= _BREATHE_EVERY:
                await self._breathe()

    async def _together(self, layer: Sequence[int]) -> None:
        for i in layer:
            waiting = self._x.start(i)
            if waiting is not None:
                self._launch(i, waiting)
        if self._running:
            await self._until_ended(all_of_them=True)
        else:
            await self._breathe()

    async def _dataflow(self) -> None:
        graph = self._x.graph
        waits = [len(before) for before in graph.before]
        after: list[list[int]] = [[] for _ in waits]
        rank = [0] * len(waits)
        for r, i in enumerate(graph.order):
            rank[i] = r
            for p in graph.before[i]:
                after[p].append(i)
        ready = [(rank[i], i) for i in graph.order if not waits[i]]
        heapify(ready)
        while (ready or self._running) and self._broken is None:
            while ready and len(self._running) < self._max and self._broken is None:
                _, i = heappop(ready)
                waiting = self._x.start(i)
                if waiting is None:
                    self._ended.append(i)
                elif ready or self._running or self._x.run.cancel is not None:
                    self._launch(i, waiting)
                else:
                    await waiting
                    self._notice_cancellation()
                    self._ended.append(i)
                self._since_breath += 1
                if self._since_breath >= _BREATHE_EVERY:
                    await self._breathe()
                self._release(waits, after, rank, ready)
            if self._running:
                await self._until_ended(all_of_them=False)
                self._release(waits, after, rank, ready)

    def _release(
        self, waits: list[int], after: list[list[int]], rank: list[int], ready: list[tuple[int, int]]
    ) -> None:
        for ended in self._ended:
            for j in after[ended]:
                waits[j] -= 1
                if not waits[j]:
                    heappush(ready, (rank[j], j))
        self._ended.clear()

    def _notice_cancellation(self) -> None:
        """A tool can swallow the cancellation of the task that awaits it; the plan heeds it all the same."""
        if self._task is not None and self._task.cancelling() > self._cancels_before:
            self._x.stop_canceled()

    async def _breathe(self) -> None:
        self._since_breath = 0
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._x.stop_canceled()

    # Tasks

    def _launch(self, i: int, waiting: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._see_through(i, waiting))
        self._running[i] = (task, waiting)

    async def _see_through(self, i: int, waiting: Coroutine[Any, Any, None]) -> None:
        # Counted off here, not in a callback of the task: that would be another turn of the loop for each.
        try:
            await waiting
        except BaseException as error:
            # An action turns whatever happens into a result; what comes out here is a fault of ours.
            self._broken = self._broken or error
        self._ended.append(i)
        if self._running.pop(i, None) is None:
            return  # It was left behind.
        wake = self._wake
        if wake is None or wake.done():
            return
        if not self._all_of_them or not self._running or self._must_stop():
            wake.set_result(None)

    def _must_stop(self) -> bool:
        """Whether what is in flight has to be stopped now."""
        stop = self._x.stop
        if self._broken is not None:
            return True
        cancel = self._x.run.cancel
        return stop is not None and (stop.kind == "aborted" or (cancel is not None and cancel.hard))

    async def _until_ended(self, *, all_of_them: bool) -> None:
        """Wait until one, or every running action has ended, or the plan must stop."""
        self._all_of_them = all_of_them
        while self._running and not self._must_stop():
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            except asyncio.CancelledError:
                self._x.stop_canceled()
                await self._stop_running()
                return
            finally:
                self._wake = None
            if not all_of_them:
                break
        if self._running and self._must_stop():
            await self._stop_running()

    async def _stop_running(self) -> None:
        await stop_tasks([task for task, _ in self._running.values()])
        for i, (task, waiting) in list(self._running.items()):
            del self._running[i]
            self._ended.append(i)
            if not task.done():
                self._x.leave_behind(i)
                continue
            # Cancelled before its first step: nothing of it has run.
            waiting.close()
            if self._x.results[i] is None:
                if self._x.stop is not None:
                    self._x.skip_stopped(i)
                else:
                    self._x.skip(i, "stopped before it began")

    def _hard_cancel(self) -> None:
        cancel = self._x.run.cancel
        assert cancel is not None
        self._x.stop_canceled(cancel.reason, cancel.cause or StopCause.CALLER)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
