"""One attempt at one proposal: every action from its gate to its last attempt.

The schedule decides when an action starts; this module decides what starting it means. `start` does all
that needs no waiting and returns a coroutine only for the rest, so that actions which never wait cost
neither a task nor a coroutine.

Keep true:
1. Gates come first: an earlier answer never walks around a policy.
2. An attempt of unknown outcome is made again only if the tool says that it may be.
3. An attempt that was made and failed is how the action ends if no other follows, whatever prevents that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from placet.events.parameters import UNLOGGED, logged_parameters
from placet.ir.action import Action
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue, copy_json
from placet.ir.proposal import Proposal
from placet.ir.references import MissingPath
from placet.ir.result import CANCELED_PREFIX, ActionResult
from placet.ir.stop_cause import StopCause
from placet.policy.budget import Budget
from placet.policy.gate import Gate
from placet.policy.marks import UNMARKED
from placet.redaction import Redactor
from placet.runtime.call_facts import note_recovery
from placet.runtime.calls import (
    Attempt,
    AttemptFailed,
    arguments,
    call,
    checked_output,
    failure_of,
    stop_tasks,
)
from placet.runtime.gated import Gated
from placet.runtime.guards.idempotency import Answer, CallKey
from placet.runtime.ledger import NOTHING, Stop
from placet.runtime.notes import HoldLost, Notes, NotNoted
from placet.runtime.progress import Progress
from placet.runtime.run_info import RunInfo
from placet.tools.context import Cancel, ToolContext
from placet.tools.deps import deps_problem
from placet.tools.tool import Tool
from placet.validator import deduplicates

if TYPE_CHECKING:
    from placet.runtime.services import Services

RETRY_BASE_MS = 100
RETRY_LONGEST_MS = 3_600_000
_FIRST: dict[str, JsonValue] = {"attempt": 1}
"""What the log says of a first attempt on the state."""


class Execution(Gated):
    """A proposal while it runs."""

    __slots__ = ("_has_budget", "_needs", "_reporting", "_tried", "retries", "tool_calls")

    def __init__(
        self,
        services: Services,
        proposal: Proposal,
        graph: Graph,
        gate: Gate,
        run: RunInfo,
        budget: Budget,
        attempt: int,
        notes: Notes | None = None,
    ) -> None:
        """`attempt` is the number of the plan in its run; `notes` are kept so that it can be resumed."""
        super().__init__(services, proposal, graph, gate, run, budget, attempt, notes)
        self.tool_calls = 0
        self.retries = 0
        # Looked up once: each of these is asked for every action.
        self._needs = graph.needs
        self._has_budget = budget.has_limits
        self._reporting: dict[int, Progress] = {}
        """Of calls that may say how far they have come."""
        self._tried: dict[int, tuple[AttemptFailed, int]] = {}
        """Of actions that have not ended: how the last attempt failed, and how many were made."""

    def recall_attempts(self, i: int, failure: AttemptFailed, made: int) -> None:
        """An earlier process made attempts at an action, and was killed before the next one."""
        self._tried[i] = failure, made

    def skip(self, i: int, error: str, cause: StopCause | msgspec.UnsetType = msgspec.UNSET) -> None:
        """The action does not run, or not again: what was tried before has failed."""
        tried = self._tried.pop(i, None)
        if tried is None:
            super().skip(i, error, cause)
            return
        failure, made = tried
        action = self.actions[i]
        tool = self.tools[i] or (self._find_tool(action.tool) if action.tool is not None else None)
        self._give_up(i, action, failure, made, tool, None, self.now())

    def start(self, i: int) -> Coroutine[Any, Any, None] | None:
        """Begin an action. What is returned, if anything, must be awaited for it to end."""
        if self.notes is not None and self.results[i] is not None:
            return None  # It ended before the run was broken off.
        action = self.actions[i]
        cancel = self._cancel
        if cancel is not None and cancel.requested:
            self.stop_canceled(cancel.reason, cancel.cause or StopCause.CALLER)
        if self.stop is not None:
            if self.stop.kind == "waiting":
                return self.ask_ahead(i, action)
            self.skip_stopped(i)
            return None
        for p in self._needs[i]:
            if self.status[p] != "succeeded":
                self.skip_dependent(i, p)
                return None
        return self._proceed(i, action)

    async def run_aside(self, action: Action, owner: int) -> ActionResult:
        """Run what takes `owner` back: through the gates, but whatever stopped the plan."""
        i = len(self.actions)
        self.actions.append(action)
        self.status.append(None)
        self.results.append(None)
        self.tools.append(None)
        self._owners[i] = owner
        if self.notes is not None and self.notes.recall_undo(self, i, owner):
            waiting = None
        else:
            if self.notes is not None:
                await self.notes.about_to_take_back()
            waiting = self._proceed(i, action)
        if waiting is not None:
            await self._until_hard_cancel(i, waiting)
        result = self.results[i]
        assert result is not None
        return result

    def was_undone(self, owner: int) -> bool:
        """Whether its compensation had ended before the run was broken off."""
        return self.notes is not None and self.notes.knows_undo(self.plan, owner)

    async def _until_hard_cancel(self, i: int, waiting: Coroutine[Any, Any, None]) -> None:
        if self._cancel is None:
            await waiting
            return
        loop = asyncio.get_running_loop()
        task = loop.create_task(waiting)
        stop = asyncio.Event()
        stopping = loop.create_task(stop.wait())
        unsubscribe = self._cancel.on_hard(lambda: loop.call_soon_threadsafe(stop.set))
        lost: BaseException | None = None
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            unsubscribe()
            stopping.cancel()
            if not task.done():
                await stop_tasks([task])
            lost = task.exception() if task.done() and not task.cancelled() else None
            if lost is None:
                self.leave_behind(i)
        if lost is not None:
            raise lost

    def _proceed(self, i: int, action: Action) -> Coroutine[Any, Any, None] | None:
        """Resolve references, and ask the gates."""
        aside = i >= self.size
        now = self._epoch + perf_counter()
        if i in self._references or (aside and action.references):
            try:
                action = self.filled_in(i)
            except MissingPath as error:
                self.reject(i, action, False, str(error))
                return None
        tool: Tool | None = None
        if action.type == "tool_call":
            self.tools[i] = tool = self._find_tool(action.tool or "")
        objections = self.objections(i, action, tool)
        if self._gate.has_posture:
            self.say_permission(i, action, tool)
        if self.asked_before:
            heeded = self.heed_answers(i, action, objections)
            if heeded is None:
                return None
            objections = heeded
        if objections:
            return self.object(i, action, tool, objections)
        return self.admit(i, action, tool, now)

    def admit(
        self, i: int, action: Action, tool: Tool | None, now: float
    ) -> Coroutine[Any, Any, None] | None:
        """Every gate is passed: make the first attempt as far as it needs no waiting."""
        aside = i >= self.size
        self.begun(i, action, tool)
        span_id = self.span_of(i)
        self.record("action_validated", action.id, span_id, NOTHING, now)
        if self.learns:
            self.keep_before(i)
        key: CallKey | None = None
        if tool is not None and not aside and (action.idempotent or tool.schema.cache_ttl_secs is not None):
            key = self.call_key(action, tool)
            if key is not None:
                if self.answered_from_memory(i, action, tool, key, now):
                    return None
                if deduplicates(action, tool):
                    if self.page.is_in_flight(key):
                        return self._follow(i, action, tool, key)
                    self.page.begin(key)
        if self._has_budget and not aside and not self._reserve(i, is_tool_call=tool is not None):
            self.release(key)
            if self._gate.counts:
                self._gate.begun(action, tool, by=-1)
                self._begun.pop()
            return None
        if tool is None or (
            tool.is_direct
            and action.timeout_ms is None
            and (self.notes is None or (tool.schema.repeatable and not self.notes.attempts_made(i)))
        ):
            return self._attempt_now(i, action, tool, key, now, span_id)
        return self._attempts(i, action, tool, key)

    def _reserve(self, i: int, *, is_tool_call: bool) -> bool:
        if self._budget.reserve(is_tool_call=is_tool_call):
            return True
        if self.stop is None:
            self.stop = Stop("budget", "cost budget exceeded", "cost budget exceeded")
        self.skip(i, "cost budget exceeded")
        return False

    # Earlier answers

    async def _follow(self, i: int, action: Action, tool: Tool, key: CallKey) -> None:
        """Wait for an equal call in flight; run it ourselves if that one fails."""
        while self.page.is_in_flight(key):
            waiter = asyncio.get_running_loop().create_future()
            self.page.wait(key, waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self.stopped(i, action, tool, begun=False)
                return
        if self.stop is not None:
            self.skip_stopped(i)
            return
        answer = self.page.get(key)
        if answer is not None:
            self.deduplicate(i, action, answer)
            return
        self.page.begin(key)
        if not self._has_budget or self._reserve(i, is_tool_call=True):
            await self._attempts(i, action, tool, key)
        else:
            self.release(key)

    # Attempts

    def _attempt_now(
        self, i: int, action: Action, tool: Tool | None, key: CallKey | None, now: float, span_id: str
    ) -> Coroutine[Any, Any, None] | None:
        """A first attempt with nothing around it: on the state, of a cheap function, or of a coroutine."""
        said = _FIRST if tool is None else self._attempt_words(i, action, 1)
        self.record("action_executing", action.id, span_id, said, now)
        try:
            changes: dict[str, JsonValue] = {}
            if tool is None:
                output = self.state_output(action, changes)
            else:
                named = arguments(tool, action.parameters)
                if tool.is_async:
                    return self._await_plain(i, action, tool, key, named)
                output = checked_output(tool, self._call_plain(i, action, tool, named))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = failure_of(error)
            if self._may_retry(action, 1, failure, tool):
                # What is returned may be stopped before its first step.
                self._tried[i] = failure, 1
                return self._attempts(i, action, tool, key, failure)
            self._give_up(i, action, failure, 1, tool, key, now)
            return None
        self._complete(i, action, output, tool, key, now, changes)
        return None

    def _call_plain(self, i: int, action: Action, tool: Tool, named: dict[str, Any]) -> Any:
        self.tool_calls += tool.fn is not None
        if tool.context_parameter is None and not tool.takes_object and tool.fn is not None:
            return tool.fn(**named)
        return call(tool, named, self._context(i, action, tool))

    async def _await_plain(
        self,
        i: int,
        action: Action,
        tool: Tool,
        key: CallKey | None,
        named: dict[str, Any],
    ) -> None:
        """The rest of a first attempt whose tool is a coroutine.

        The tool is called here, not before: a task that is stopped before its first step has then called
        nothing.
        """
        started = self.now()  # Not before: until now it was in line with others.
        try:
            output = checked_output(tool, await self._call_plain(i, action, tool, named))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                self.release(key)
                self._end_report(i)
                self.stopped(i, action, tool, begun=True)
                return
            failure = failure_of(error)
            if self._may_retry(action, 1, failure, tool):
                await self._attempts(i, action, tool, key, failure)
            else:
                self._give_up(i, action, failure, 1, tool, key, started)
            return
        self._complete(i, action, output, tool, key, started, NOTHING)

    async def _attempts(
        self,
        i: int,
        action: Action,
        tool: Tool | None,
        key: CallKey | None,
        failure: AttemptFailed | None = None,
    ) -> None:
        """Attempts, until one succeeds or none is left; `failure` is that of a first one already made."""
        if tool is not None and (tool.preview or tool.recovery) and failure is None:
            await note_recovery(self, i, action, tool)
        first = self.now()
        notes = self.notes
        is_unsafe = tool is not None and not tool.schema.repeatable
        number = (notes.attempts_made(i) if notes is not None else 0) if failure is None else 1
        called = failure is not None
        earlier = failure
        if failure is not None:
            self._tried[i] = failure, 1
        elif i in self._tried:
            earlier = self._tried[i][0]
        if notes is not None and failure is not None:
            notes.tried(i, 1, failure)
        elif failure is None and number:
            self.retries += 1  # Those before were made by a process that is gone.
        while True:
            if failure is not None and not await self._wait_before(i, number + 1, failure):
                self._give_up(i, action, failure, number, tool, key, first)
                return
            number += 1
            started = self.now()
            self.note("action_executing", i, self._attempt_words(i, action, number))
            changes: dict[str, JsonValue] = {}
            before = partial(notes.about_to_call, i, number) if notes is not None and is_unsafe else None
            attempt = Attempt(self.run.tenant, self.services.workers, self.services.limiter, before)
            try:
                if tool is None:
                    output = self.state_output(action, changes)
                else:
                    named = arguments(tool, action.parameters)
                    context = self._context(i, action, tool)
                    answer = await attempt.run(tool, named, context, _time_limit(action, tool))
                    output = checked_output(tool, answer)
            except (KeyboardInterrupt, HoldLost):
                raise
            except NotNoted as error:
                self._stop_unnoted(i, action, str(error), number, tool, key, first)
                return
            except BaseException as error:
                self.tool_calls += attempt.begun and not called
                called = called or attempt.begun
                if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                    self.release(key)
                    self._end_report(i)
                    self.stopped(i, action, tool, begun=attempt.begun, left_behind=attempt.left_behind)
                    return
                earlier = failure = failure_of(error).after(earlier)
            else:
                self.tool_calls += attempt.begun and not called
                self._complete(i, action, output, tool, key, started + attempt.waited_s, changes)
                return
            if not self._may_retry(action, number, failure, tool):
                self._give_up(i, action, failure, number, tool, key, first)
                return
            self._tried[i] = failure, number
            if notes is not None:
                notes.tried(i, number, failure)

    def _attempt_words(self, i: int, action: Action, number: int) -> dict[str, JsonValue]:
        """What the log says of an attempt: of a call also with what it is made. Only calls that every gate
        has let through come here, so a value that was denied is never in the log."""
        if action.tool is None:
            return {"attempt": number}
        if self._flow is None and self.given is UNMARKED:
            given = logged_parameters(action.parameters, self._redactor)
        else:
            inflow = self.inflow(i)
            secret = {name for name in action.parameters if "secret" in inflow.at(name)}
            given = logged_parameters(action.parameters, self._redactor, secret)
        tool = self.tools[i]
        if tool is not None and tool.unlogged:
            given |= {name: UNLOGGED for name in given if name in tool.unlogged}
        return {"attempt": number, "tool": action.tool, "parameters": given}

    def _redactor(self) -> Redactor:
        return self.services.events.redactor

    def _context(self, i: int, action: Action, tool: Tool) -> ToolContext | None:
        """What the tool gets to know about its call, if it asks."""
        if tool.context_parameter is None:
            return None
        if tool.deps_type is not None and (problem := deps_problem(tool, self.run.deps)):
            raise AttemptFailed(f"tool '{tool.name}' {problem}", retry=False)
        self._end_report(i)
        self._reporting[i] = progress = Progress(
            asyncio.get_running_loop(), partial(self.note, "action_progress", i)
        )
        return ToolContext(
            action_id=action.id,
            run_id=self.run.run_id,
            tenant=self.run.tenant,
            caller=self.run.caller,
            cancel=self.run.cancel or Cancel(),
            deps=self.run.deps,
            idempotency_key=f"{self.run.run_id}-{self.key(i)}",
            traceparent=self._traceparent(i),
            budget=self._budget,
            on_spend=self._budget.spend,
            on_progress=progress,
            on_command=partial(self.note, "command_ran", i),
            on_model=partial(self.note, "model_answered", i),
            typed=self.typed,
            on_labels=partial(self.labels_of, i),
            on_label=partial(self.label, i),
        )

    def _traceparent(self, i: int) -> str:
        """Of the span of one action; of whoever called, where no spans are exported here."""
        trace = self.run.trace
        return trace.traceparent(trace.span(self.span_of(i))) if trace is not None else self.run.parent or ""

    def _may_retry(self, action: Action, made: int, failure: AttemptFailed, tool: Tool | None) -> bool:
        if action.failure_behavior != "retry" or made > action.max_retries or not failure.retry:
            return False
        if tool is not None and tool.max_retries is not None and made > tool.max_retries:
            return False  # What the tool declares wins; the plan can only ask for fewer.
        return not failure.unknown or tool is None or tool.schema.repeatable

    async def _wait_before(self, i: int, attempt: int, failure: AttemptFailed) -> bool:
        """Sleep before the next attempt; false if the plan stopped meanwhile."""
        if self.results[i] is not None:
            return False  # It was given up on, and fails late.
        delay_ms = min(RETRY_BASE_MS * 2 ** min(attempt - 2, 40), RETRY_LONGEST_MS)
        self.note("action_retrying", i, {"attempt": attempt, "delay_ms": delay_ms, "error": failure.error})
        try:
            await asyncio.sleep(delay_ms / 1000)
        except asyncio.CancelledError:
            # Nothing is in flight: the last attempt has failed, and that is how the action ends.
            self.stop_canceled()
            return False
        cancel = self.run.cancel
        is_over = self.stop is not None or (cancel is not None and cancel.requested)
        goes_on = i >= self.size or not is_over
        self.retries += goes_on
        return goes_on

    # Endings

    def _end_report(self, i: int) -> None:
        """No more is heard of how far an attempt has come, whatever it goes on saying."""
        if i in self._reporting:
            self._reporting.pop(i).end()

    def _complete(
        self,
        i: int,
        action: Action,
        output: JsonValue,
        tool: Tool | None,
        key: CallKey | None,
        started: float,
        changes: dict[str, JsonValue],
    ) -> None:
        if self.results[i] is not None:
            return  # It was given up on, and answers late.
        self._end_report(i)
        if self._tried:
            self._tried.pop(i, None)
        if action.expected_effects:
            changes = self.effects(action, dict(changes))
        # Equal calls may have other sources: an answer that says where it is from is this call's alone.
        has_labelled = self.has_labelled(i)
        if key is not None:
            assert tool is not None
            is_shared = deduplicates(action, tool) and not has_labelled
            self.page.end(key, Answer(action.id, output) if is_shared else None)
            ttl_s = tool.schema.cache_ttl_secs if not has_labelled else None
            if ttl_s is not None:
                if tool.schema.risk == "read_only":
                    self.services.cache.put(key, output, ttl_s)
                else:
                    self.page.lasting[key] = (copy_json(output), ttl_s)
        self.succeed(i, action, output, started, changes)

    def _stop_unnoted(
        self,
        i: int,
        action: Action,
        error: str,
        attempts: int,
        tool: Tool | None,
        key: CallKey | None,
        started: float,
    ) -> None:
        """The call could not be noted beforehand, so it was not made, and the plan does not go on. That is no
        failure of the action: when there is a journal again, the run can be resumed."""
        if i >= self.size:
            self._give_up(i, action, AttemptFailed(error, retry=False), attempts, tool, key, started)
            return
        self.release(key)
        self.stop_canceled(error, StopCause.STORAGE)
        if self.results[i] is None:
            self.skip(i, f"{CANCELED_PREFIX}{error}", StopCause.STORAGE)

    def _give_up(
        self,
        i: int,
        action: Action,
        failure: AttemptFailed,
        attempts: int,
        tool: Tool | None,
        key: CallKey | None,
        started: float,
    ) -> None:
        self.release(key)
        self._end_report(i)
        self._tried.pop(i, None)
        if self.results[i] is None:
            self.follow_failure(i, action, tool)
            self.fail(i, action, failure, attempts, tool, started)


def _time_limit(action: Action, tool: Tool) -> int | None:
    """The shorter of what the plan and the tool say."""
    if action.timeout_ms is None or tool.timeout_ms is None:
        return action.timeout_ms or tool.timeout_ms
    return min(action.timeout_ms, tool.timeout_ms)


def _is_being_cancelled() -> bool:
    """Whether a CancelledError is meant for us, rather than made up by a tool."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
