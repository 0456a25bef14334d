"""One attempt at one tool call: arguments in, JSON out, and a time limit that really stops the work.

Keep true:
1. Whatever a tool does (raises, hangs, exits, cancels itself, answers with junk), an attempt ends in an
   output or an `AttemptFailed`; only our own cancellation passes through.
2. An attempt that may have had an effect and has no answer is `unknown`, and says so. One whose tool returned
   an answer that cannot be used `took_effect`.
3. A tool gets its own copy of what it may change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import msgspec

from placet.errors import NotJson, ToolError
from placet.ir.json_value import JsonValue, copy_json
from placet.ir.tool_spec import ToolSchema
from placet.runtime.guards.rate_limit import RateLimiter
from placet.runtime.workers import Workers
from placet.tools.context import ToolContext
from placet.tools.output import to_json
from placet.tools.tool import Tool
from placet.truncation import truncate_repr

GRACE_S = 1.0
"""How long a task that was told to stop may take to do so before it is left behind."""

HUNG_TASK = "the task did not stop when told to"
LIVE_THREAD = "its thread cannot be stopped; a late answer is dropped"

_UNKNOWN_OUTCOME = (TimeoutError, ConnectionError, EOFError)
_NEVER_BEGAN = (ConnectionRefusedError,)


class AttemptFailed(Exception):
    """An attempt that gave no output."""

    def __init__(
        self,
        error: str,
        *,
        retry: bool = True,
        unknown: bool = False,
        left_behind: str = "",
        took_effect: bool = False,
        answer: JsonValue | msgspec.UnsetType = msgspec.UNSET,
    ) -> None:
        # Half of a surrogate pair, from a file name say, could be neither logged nor sent.
        self.error = error if error.isascii() else error.encode(errors="replace").decode()
        self.retry = retry
        """Whether another attempt could help."""
        self.unknown = unknown
        """Whether the effect may have happened all the same."""
        self.left_behind = left_behind
        """What could not be stopped, in words."""
        self.took_effect = took_effect
        """Whether the tool did its work, and only its answer cannot be used."""
        self.answer = answer
        """That answer, where it is JSON: what undoes the work may need it."""
        super().__init__(error)

    def after(self, earlier: AttemptFailed | None) -> AttemptFailed:
        """This failure, as the end of an action whose earlier attempts ended with `earlier`.

        An unknown outcome stays unknown: a later attempt that failed does not undo what the earlier one may
        have done. One that took effect settles it.
        """
        if earlier is not None and earlier.unknown and not self.unknown and not self.took_effect:
            self.unknown = True
            self.error = f"{self.error}; an earlier attempt ended with an unknown outcome: {earlier.error}"
        return self


def failure_of(error: BaseException) -> AttemptFailed:
    """What an exception that came out of a tool means."""
    if isinstance(error, AttemptFailed):
        return error
    if isinstance(error, ToolError):
        words = words_of(error) or "the tool failed"
        return AttemptFailed(
            words,
            retry=error.retry and not error.took_effect,
            unknown=error.unknown and not error.took_effect,
            took_effect=error.took_effect,
        )
    if isinstance(error, asyncio.CancelledError):
        return AttemptFailed("the tool cancelled itself", unknown=True)
    if isinstance(error, SystemExit):
        return AttemptFailed(
            f"the tool tried to exit the process (code {truncate_repr(error.code, 40)})", unknown=True
        )
    unknown = isinstance(error, _UNKNOWN_OUTCOME) and not isinstance(error, _NEVER_BEGAN)
    text = words_of(error)
    return AttemptFailed(
        f"{type(error).__name__}: {text}" if text else type(error).__name__,
        # Nothing may be awaited after a GeneratorExit, so there is no second attempt.
        retry=not isinstance(error, GeneratorExit),
        unknown=unknown,
    )


def words_of(error: BaseException) -> str:
    """What an error says, also when saying it fails."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "(an error that cannot be shown)"


def arguments(tool: Tool, parameters: dict[str, JsonValue]) -> dict[str, Any]:
    """What to call the function with, by keyword; its context aside."""
    for value in parameters.values():
        if type(value) is dict or type(value) is list:
            # The tool may change what it is given; the plan and other results must not feel it.
            parameters = copy_json(parameters)
            break
    return parameters if tool.bind is None else tool.bind(parameters)


def call(tool: Tool, named: dict[str, Any], context: ToolContext | None) -> Any:
    """Enter the function. Only here is a tool's own code reached.

    Raises:
        AttemptFailed: only the tool's schema is known here.
    """
    if tool.fn is None:
        raise AttemptFailed(f"no handler for tool '{tool.name}'", retry=False)
    also = {} if context is None or tool.context_parameter is None else {tool.context_parameter: context}
    if tool.takes_object:
        return tool.fn(dict(named), **also)
    return tool.fn(**named, **also)


def checked_output(tool: Tool, value: Any) -> JsonValue:
    """A tool's answer as JSON of our own.

    Raises:
        AttemptFailed: it is not JSON, or not what the tool declares. Never worth another try: the effect
            has happened, only the answer is bad.
    """
    try:
        output = to_json(value)
    except NotJson as error:
        raise AttemptFailed(
            f"the tool's answer cannot be used: {error}", retry=False, took_effect=True
        ) from None
    if tool.validate_returns is not None:
        wrong = tool.validate_returns(output)
        if wrong:
            raise AttemptFailed(
                f"the tool's answer does not fit its declared 'returns': {wrong}",
                retry=False,
                took_effect=True,
                answer=output,
            )
    return output


class Attempt:
    """One attempt that needs a time limit, a turn or a thread."""

    __slots__ = ("_before", "_limiter", "_tenant", "_tool", "_workers", "begun", "left_behind", "waited_s")

    _tool: Tool

    def __init__(
        self,
        tenant: str | None,
        workers: Workers,
        limiter: RateLimiter,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`before` is awaited as the last thing before the tool is entered; its time does not count."""
        self._before = before
        self._tenant = tenant
        self._workers = workers
        self._limiter = limiter
        self.begun = False
        """Whether the tool itself has been entered; before, nothing can have happened."""
        self.left_behind = ""
        """What could not be stopped, in words."""
        self.waited_s = 0.0
        """Time of the attempt in which the tool itself was not at work: in line for its turn, for a thread,
        or for the event loop to take over its answer."""

    async def run(
        self, tool: Tool, named: dict[str, Any], context: ToolContext | None, timeout_ms: int | None
    ) -> Any:
        """The function's own answer.

        Raises:
            AttemptFailed: it ran out of time.
            BaseException: whatever the tool raised.
        """
        self._tool = tool
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = None if timeout_ms is None else began + timeout_ms / 1000
        if tool.schema.rate_limit is not None:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._wait_turn(tool.schema)
            except TimeoutError:
                assert timeout_ms is not None
                raise _timed_out(timeout_ms, begun=False) from None
        if self._before is not None:
            since = loop.time()
            await self._before()
            deadline = None if deadline is None else deadline + loop.time() - since
        if not tool.is_async and (deadline is not None or not tool.cheap):
            # Also a cheap function: only outside our own thread can its time be limited.
            own_s = [0.0]
            try:
                return await self._enter_thread(named, context, deadline, timeout_ms, own_s)
            finally:
                if own_s[0]:
                    self.waited_s = max(0.0, loop.time() - began - own_s[0])
        if deadline is not None:
            assert timeout_ms is not None
            self.waited_s = loop.time() - began
            return await self._enter_task(named, context, deadline, timeout_ms)
        self.waited_s = loop.time() - began
        self.begun = tool.fn is not None
        answer = call(tool, named, context)
        return await answer if tool.is_async else answer

    async def _wait_turn(self, schema: ToolSchema) -> None:
        assert schema.rate_limit is not None
        await self._limiter.acquire(self._tenant, schema.name, schema.rate_limit)

    async def _enter_task(
        self, named: dict[str, Any], context: ToolContext | None, deadline: float, timeout_ms: int
    ) -> Any:
        loop = asyncio.get_running_loop()
        self.begun = self._tool.fn is not None
        task = loop.create_task(_guarded(call(self._tool, named, context)))
        try:
            await asyncio.wait((task,), timeout=max(0.0, deadline - loop.time()))
        except asyncio.CancelledError:
            self.left_behind = HUNG_TASK if await stop_tasks([task]) else ""
            raise
        if not task.done():
            left = await stop_tasks([task])
            raise _timed_out(timeout_ms, left_behind=HUNG_TASK if left else "")
        ok, answer = task.result()
        if ok:
            return answer
        raise answer

    async def _enter_thread(
        self,
        named: dict[str, Any],
        context: ToolContext | None,
        deadline: float | None,
        timeout_ms: int | None,
        own_s: list[float],
    ) -> Any:
        loop = asyncio.get_running_loop()

        def timed() -> Any:
            entered = perf_counter()
            try:
                return call(self._tool, named, context)
            finally:
                own_s[0] = perf_counter() - entered

        job = self._workers.submit(loop, timed, deadline=deadline)
        try:
            left_s = None if deadline is None else max(0.0, deadline - loop.time())
            await asyncio.wait((job.future,), timeout=left_s)
        except asyncio.CancelledError:
            self.begun = self._workers.give_up(job)
            self.left_behind = LIVE_THREAD if self.begun else ""
            raise
        if not job.future.done():
            self.begun = self._workers.give_up(job)
            assert timeout_ms is not None
            left_behind = LIVE_THREAD if self.begun else ""
            raise _timed_out(timeout_ms, begun=self.begun, left_behind=left_behind)
        self.begun = self._tool.fn is not None
        ok, answer = job.future.result()
        if ok:
            return answer
        # Also KeyboardInterrupt: in a thread of ours only the tool itself can have raised it.
        raise failure_of(answer) from answer


async def _guarded(call: Any) -> tuple[bool, Any]:
    """A tool's coroutine, with every ending turned into a value: an exit must not end the event loop."""
    task = asyncio.current_task()
    try:
        return True, await call
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        return False, error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return False, error


def _timed_out(timeout_ms: int, *, begun: bool = True, left_behind: str = "") -> AttemptFailed:
    return AttemptFailed(f"action timed out after {timeout_ms} ms", unknown=begun, left_behind=left_behind)


async def stop_tasks(tasks: list[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Cancel tasks and give them a moment to end; returns those that would not."""
    if not tasks:
        return []  # All ended in the moment in which somebody decided to stop them.
    for task in tasks:
        task.cancel()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + GRACE_S
    pending = set(tasks)
    while pending and loop.time() < deadline:
        # Told again while stopping: what is being done is what was asked for, and it is nearly done.
        with suppress(asyncio.CancelledError):
            _, pending = await asyncio.wait(pending, timeout=deadline - loop.time())
    for task in pending:
        # Left behind: whatever it ends with later, nobody is there to hear it.
        task.add_done_callback(lambda t: t.cancelled() or t.exception())
    return list(pending)
