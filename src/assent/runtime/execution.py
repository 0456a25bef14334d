"""One attempt at one proposal: every action from its gate to its end.

The schedule decides when an action starts; this module decides what starting it means. `start` does all
that needs no waiting and returns a coroutine only for the rest, so that actions which never wait cost
neither a task nor a coroutine.

Keep true:
1. Every action ends in exactly one result, and its span is ended.
2. Gates come first: an earlier answer never walks around a policy.
3. Only `_write` changes the state, always under this proposal's unit, so that all of it can be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from assent.events.event import Span
from assent.ir.action import Action
from assent.ir.graph import Graph
from assent.ir.json_value import JsonValue, json_equal, show_json
from assent.ir.proposal import Proposal
from assent.ir.references import MissingPath, Reference, resolve
from assent.ir.result import CANCELED_PREFIX, ActionResult, Status
from assent.policy.budget import Allowance
from assent.policy.gate import Gate
from assent.runtime.calls import Attempt, AttemptFailed, arguments, checked_output, failure_of, handler, is_plain
from assent.runtime.guards.idempotency import Answer, AnswerPage, CallKey, call_key
from assent.state.store import ReadOnly
from assent.tools.context import Cancel, ToolContext
from assent.tools.tool import Tool
from assent.validator import deduplicates, undo_of

if TYPE_CHECKING:
    from assent.runtime.services import Services

RETRY_BASE_MS = 100
RETRY_LONGEST_MS = 3_600_000

_NO_CHANGES: dict[str, JsonValue] = {}
_DID_NOT_SUCCEED: dict[str, str] = {
    "rejected": "was rejected",
    "failed": "failed",
    "skipped": "was skipped",
    "unknown": "has an unknown outcome",
}
_SPAN_STATUS: dict[str, Literal["ok", "error", "unset"]] = {
    "succeeded": "ok",
    "failed": "error",
    "rejected": "error",
    "unknown": "error",
    "skipped": "unset",
}


class Stop(NamedTuple):
    """Why nothing more is started."""

    kind: Literal["aborted", "budget", "canceled"]
    error: str
    """For the proposal."""
    words: str
    """For the actions that do not run because of it."""


class RunInfo(NamedTuple):
    """What all attempts of one run share."""

    run_id: str
    trace_id: str
    tenant: str | None
    cancel: Cancel | None
    started: float
    """perf_counter() at the start of the run."""


class Execution:
    """A proposal while it runs."""

    def __init__(
        self,
        services: Services,
        proposal: Proposal,
        graph: Graph,
        gate: Gate,
        run: RunInfo,
        allowance: Allowance,
        attempt: int,
    ) -> None:
        n = len(proposal.actions)
        self.services = services
        self.proposal = proposal
        self.size = n
        self.actions: list[Action] = list(proposal.actions)
        """The proposal's own, and behind them what ran aside."""
        self.graph = graph
        self.run = run
        self.stop: Stop | None = None
        self.status: list[Status | None] = [None] * n
        self.results: list[ActionResult | None] = [None] * n
        self.finished: list[int] = []
        """Positions of actions that succeeded, in the order in which they did."""
        self.tool_calls = 0
        self.retries = 0
        self.before: dict[int, dict[str, JsonValue]] = {}
        """State before each action, kept only for trajectories."""
        self.page = AnswerPage(services.answers)
        self.state = services.state.scoped(run.tenant)
        self.unit = services.state.begin(proposal.id)
        self._view = ReadOnly(self.state)
        self.tools: list[Tool | None] = [None] * n
        self._gate = gate
        self._judge = gate.judge
        self._allowance = allowance
        self._attempt = attempt
        self._append = services.events.append
        self._spans: dict[int, Span] = {}
        self._span_base = int(run.trace_id[:15], 16) + (attempt << 32)
        self.span_id = f"{self._span_base:016x}"

    def emit(
        self,
        kind: str,
        action_id: str | None = None,
        span_id: str | None = None,
        data: dict[str, JsonValue] | None = None,
    ) -> None:
        """Record an event of this run."""
        run = self.run
        self._append(
            kind, run.run_id, self.proposal.id, action_id, run.trace_id, span_id or self.span_id, run.tenant, data
        )

    # Starting

    def start(self, i: int) -> Coroutine[Any, Any, None] | None:
        """Begin an action. What is returned, if anything, must be awaited for it to end."""
        action = self.actions[i]
        run = self.run
        cancel = run.cancel
        if cancel is not None and cancel.requested and self.stop is None:
            self.stop_canceled(cancel.reason)
        if self.stop is not None:
            self.skip(i, self.stop.words)
            return None
        for p in self.graph.needs[i]:
            if self.status[p] != "succeeded":
                self._skip_dependent(i, p)
                return None
        admitted = self._admit(i, action)
        if admitted is None:
            return None
        action, tool = admitted
        if self.services.trajectories is not None:
            self._keep_before(i)
        if tool is None:
            if not self._reserve(i, is_tool_call=False):
                return None
            return self._attempt_now(i, action, None, None)
        key: CallKey | None = None
        if tool.schema.cache_ttl_secs is not None or (action.idempotent and deduplicates(action, tool)):
            key = call_key(run.tenant, action)
            if self._answered(i, action, tool, key):
                return None
            if deduplicates(action, tool):
                if self.page.is_in_flight(key):
                    return self._follow(i, action, tool, key)
                self.page.begin(key)
        if not self._reserve(i, is_tool_call=True):
            if key is not None:
                self.page.end(key, None)
            return None
        if tool.cheap and is_plain(tool, action.timeout_ms or tool.timeout_ms):
            return self._attempt_now(i, action, tool, key)
        return self._attempts(i, action, tool, key)

    def _admit(self, i: int, action: Action) -> tuple[Action, Tool | None] | None:
        """Resolve references, then pass the gates; None if the action was rejected."""
        span_id = self._begin_span(i, action)
        if action.references and (i in self.graph.references or i >= self.size):
            try:
                parameters = resolve(action.parameters, self.lookup)
            except MissingPath as error:
                self._reject(i, action, False, str(error))
                return None
            action = msgspec.structs.replace(action, parameters=parameters)
        tool: Tool | None = None
        if action.type == "tool_call":
            self.tools[i] = tool = self.services.tools.get(action.tool or "")
        rejections = self._judge(action, tool, self._view, [])
        if rejections:
            policy = any(r.is_policy for r in rejections)
            self._reject(i, action, policy, "; ".join(r.reason for r in rejections))
            return None
        if self._gate.touches:
            self._gate.note_admitted(action)
        run = self.run
        self._append(
            "action_validated", run.run_id, self.proposal.id, action.id, run.trace_id, span_id, run.tenant
        )
        return action, tool

    async def run_aside(self, action: Action) -> ActionResult:
        """Run an action that is not in the schedule: through the gates, but whatever stopped the plan."""
        i = len(self.actions)
        self.actions.append(action)
        self.status.append(None)
        self.results.append(None)
        self.tools.append(None)
        admitted = self._admit(i, action)
        if admitted is not None:
            await self._attempts(i, *admitted, None)
        result = self.results[i]
        assert result is not None
        return result

    def _begin_span(self, i: int, action: Action) -> str:
        run = self.run
        span_id = f"{self._span_base + i + 1:016x}"
        span = Span(
            action.type, run.trace_id, span_id, self.span_id, time(), run.run_id, self.proposal.id, action.id, action.tool
        )
        self._spans[i] = span
        self.services.events.begin_span(span)
        return span_id

    def lookup(self, reference: Reference) -> JsonValue:
        """The part of an earlier result that a reference names.

        Raises:
            MissingPath: there is no such part, or the action has no output.
        """
        result = self.results[self.graph.index[reference.action_id]]
        if result is None or result.status != "succeeded":
            raise MissingPath(f"reference '{reference}' names an action that has no output")
        return reference.lookup(result.output)

    def _reserve(self, i: int, *, is_tool_call: bool) -> bool:
        allowance = self._allowance
        if allowance.budget is None:
            return True
        elapsed_ms = (perf_counter() - self.run.started) * 1000
        if allowance.reserve(is_tool_call=is_tool_call, elapsed_ms=elapsed_ms):
            return True
        if self.stop is None:
            self.stop = Stop("budget", "cost budget exceeded", "cost budget exceeded")
        self.skip(i, "cost budget exceeded")
        return False

    # Actions on the state

    def _state_output(self, action: Action, changes: dict[str, JsonValue]) -> JsonValue:
        key = action.parameters["key"]
        if action.type == "state_write":
            value = action.parameters.get("value")
            self._write(action, key, value)
            changes[key] = value
            return f"written: {key}"
        actual = self.state.get(key)
        if action.type == "state_read":
            return actual
        expected = action.parameters.get("expected")
        if not json_equal(actual, expected):
            raise AttemptFailed(
                f"assertion failed: '{key}' is {show_json(actual)}, expected {show_json(expected)}"
            )
        return {"asserted": key, "value": actual}

    def _write(self, action: Action, key: str, value: JsonValue) -> None:
        self.state.set(key, value, action_id=action.id, unit=self.unit)

    # Tool calls

    def _answered(self, i: int, action: Action, tool: Tool, key: CallKey) -> bool:
        """Answer from an earlier equal call, if there is one."""
        if deduplicates(action, tool):
            answer = self.page.get(key)
            if answer is not None:
                self._deduplicate(i, action, tool, answer)
                return True
        if tool.schema.cache_ttl_secs is not None:
            cached = self.services.cache.get(key)
            if cached is not None:
                self._succeed(i, action, cached[0], 0.0, tool, {}, cached=True)
                return True
        return False

    def _deduplicate(self, i: int, action: Action, tool: Tool, answer: Answer) -> None:
        self.emit("action_deduplicated", action.id, self._spans[i].span_id, {"of": answer.action_id})
        self._succeed(i, action, answer.output, 0.0, tool, {}, cached=True)

    async def _follow(self, i: int, action: Action, tool: Tool, key: CallKey) -> None:
        """Wait for an equal call in flight; run it ourselves if that one fails."""
        while self.page.is_in_flight(key):
            waiter = asyncio.get_running_loop().create_future()
            self.page.wait(key, waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._stopped(i, action, tool, begun=False)
                return
        if self.stop is not None:
            self.skip(i, self.stop.words)
            return
        answer = self.page.get(key)
        if answer is not None:
            self._deduplicate(i, action, tool, answer)
            return
        self.page.begin(key)
        if self._reserve(i, is_tool_call=True):
            await self._attempts(i, action, tool, key)
        else:
            self.page.end(key, None)

    def _attempt_now(
        self, i: int, action: Action, tool: Tool | None, key: CallKey | None
    ) -> Coroutine[Any, Any, None] | None:
        """A first attempt that cannot wait: an action on the state, or a cheap function."""
        started = perf_counter()
        self._executing(i, action, 1)
        changes: dict[str, JsonValue] = {}
        try:
            if tool is None:
                output = self._state_output(action, changes)
            else:
                self.tool_calls += 1
                positional, named = arguments(tool, action.parameters, lambda: self.context(i, action))
                output = checked_output(tool, handler(tool)(*positional, **named))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            failure = failure_of(error)
            if self._may_retry(action, 1, failure, tool):
                return self._attempts(i, action, tool, key, failure)
            self._fail(i, action, failure, 1, tool, key)
            return None
        self._succeed(i, action, output, (perf_counter() - started) * 1000, tool, changes, key)
        return None

    async def _attempts(
        self, i: int, action: Action, tool: Tool | None, key: CallKey | None, failure: AttemptFailed | None = None
    ) -> None:
        """Attempts, until one succeeds or none is left; `failure` is that of a first one already made."""
        number = 0 if failure is None else 1
        called = failure is not None
        while True:
            if failure is not None and not await self._wait_before(i, action, number + 1, failure, tool, key):
                return
            number += 1
            started = perf_counter()
            self._executing(i, action, number)
            changes: dict[str, JsonValue] = {}
            attempt = Attempt(tool, self.run.tenant, self.services.workers, self.services.limiter)
            try:
                if tool is None:
                    output = self._state_output(action, changes)
                else:
                    positional, named = arguments(tool, action.parameters, lambda: self.context(i, action))
                    answer = await attempt.run(positional, named, action.timeout_ms or tool.timeout_ms)
                    output = checked_output(tool, answer)
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    self.tool_calls += attempt.begun and not called
                    self._stopped(i, action, tool, begun=attempt.begun, key=key)
                    return
                failure = failure_of(error)
            except BaseException as error:
                failure = failure_of(error)
            else:
                self.tool_calls += attempt.begun and not called
                self._succeed(i, action, output, (perf_counter() - started) * 1000, tool, changes, key)
                return
            self.tool_calls += attempt.begun and not called
            called = called or attempt.begun
            if not self._may_retry(action, number, failure, tool):
                self._fail(i, action, failure, number, tool, key)
                return

    def context(self, i: int, action: Action) -> ToolContext:
        """What the tool gets to know about its call."""
        return ToolContext(
            action_id=action.id,
            run_id=self.run.run_id,
            tenant=self.run.tenant,
            cancel=self.run.cancel or Cancel(),
            idempotency_key=f"{self.run.run_id}-{self._attempt}-{i}",
            on_spend=self._allowance.spend,
        )

    # Attempts

    def _executing(self, i: int, action: Action, attempt: int) -> None:
        run = self.run
        data: dict[str, JsonValue] = {"attempt": attempt}
        if action.tool is not None:
            data["tool"] = action.tool
        span_id = self._spans[i].span_id
        self._append(
            "action_executing", run.run_id, self.proposal.id, action.id, run.trace_id, span_id, run.tenant, data
        )

    def _may_retry(self, action: Action, made: int, failure: AttemptFailed, tool: Tool | None) -> bool:
        if action.failure_behavior != "retry" or made > action.max_retries or not failure.retry:
            return False
        return not failure.unknown or tool is None or tool.schema.repeatable

    async def _wait_before(
        self,
        i: int,
        action: Action,
        attempt: int,
        failure: AttemptFailed,
        tool: Tool | None,
        key: CallKey | None,
    ) -> bool:
        """Sleep before the next attempt; false if the action has ended instead."""
        delay_ms = min(RETRY_BASE_MS * 2 ** min(attempt - 2, 40), RETRY_LONGEST_MS)
        self.retries += 1
        self.emit(
            "action_retrying",
            action.id,
            self._spans[i].span_id,
            {"attempt": attempt, "delay_ms": delay_ms, "error": failure.error},
        )
        try:
            await asyncio.sleep(delay_ms / 1000)
        except asyncio.CancelledError:
            # Nothing is in flight: the last attempt has failed, and that is how the action ends.
            self._note_interruption()
            self._fail(i, action, failure, attempt - 1, tool, key)
            return False
        cancel = self.run.cancel
        if i < self.size and (self.stop is not None or (cancel is not None and cancel.requested)):
            self._fail(i, action, failure, attempt - 1, tool, key)
            return False
        return True

    # Endings

    def _succeed(
        self,
        i: int,
        action: Action,
        output: JsonValue,
        duration_ms: float,
        tool: Tool | None,
        changes: dict[str, JsonValue],
        key: CallKey | None = None,
        *,
        cached: bool = False,
    ) -> None:
        if action.expected_effects:
            for name, value in action.expected_effects.items():
                self._write(action, name, value)
                changes[name] = value
        if key is not None and tool is not None:
            if deduplicates(action, tool):
                self.page.end(key, Answer(action.id, output))
            if tool.schema.cache_ttl_secs is not None:
                self.services.cache.put(key, output, tool.schema.cache_ttl_secs)
        run = self.run
        data: dict[str, JsonValue] = {"duration_ms": duration_ms}
        if tool is not None:
            data["tool"] = action.tool
            if cached:
                data["cached"] = True
        span_id = self._spans[i].span_id
        self._append(
            "action_succeeded", run.run_id, self.proposal.id, action.id, run.trace_id, span_id, run.tenant, data
        )
        if changes:
            self.emit("state_changed", action.id, span_id, {"changes": changes})
        self.finished.append(i)
        self._end(i, action.id, "succeeded", output, None, duration_ms, changes or _NO_CHANGES)

    def _fail(
        self,
        i: int,
        action: Action,
        failure: AttemptFailed,
        attempts: int,
        tool: Tool | None,
        key: CallKey | None = None,
    ) -> None:
        """No attempt is left: end the action as its failure_behavior says."""
        if key is not None:
            self.page.end(key, None)
        # A read has no effect whose outcome could be unknown.
        unknown = failure.unknown and tool is not None and tool.schema.risk != "read_only"
        data: dict[str, JsonValue] = {"error": failure.error, "attempt": attempts}
        if tool is not None:
            data["tool"] = action.tool
        if failure.left_behind:
            data["left_behind"] = failure.left_behind
        status: Status = "unknown" if unknown else "skipped" if action.failure_behavior == "skip" else "failed"
        kind = "action_unknown" if unknown else "action_failed"
        self.emit(kind, action.id, self._spans[i].span_id, data)
        if status == "skipped":
            self.emit("action_skipped", action.id, self._spans[i].span_id, {"error": failure.error})
        self._end(i, action.id, status, None, failure.error, (time() - self._spans[i].start) * 1000)
        if action.failure_behavior == "abort":
            verb = "ended with an unknown outcome" if unknown else "failed"
            self.abort(f"action '{action.id}' {verb}: {failure.error}")

    def _reject(self, i: int, action: Action, is_policy: bool, error: str) -> None:
        data: dict[str, JsonValue] = {"error": error}
        if action.tool is not None:
            data["tool"] = action.tool
        kind = "policy_violation" if is_policy else "action_rejected"
        self.emit(kind, action.id, self._spans[i].span_id, data)
        self._end(i, action.id, "rejected", None, error, None)
        if action.failure_behavior == "abort":
            self.abort(f"action '{action.id}' was rejected: {error}")

    def skip(self, i: int, error: str) -> None:
        """End an action that does not run."""
        action = self.actions[i]
        if i not in self._spans:
            self._begin_span(i, action)
        kind = "action_canceled" if error.startswith(CANCELED_PREFIX) else "action_skipped"
        self.emit(kind, action.id, self._spans[i].span_id, {"error": error})
        self._end(i, action.id, "skipped", None, error, None)

    def refuse(self, i: int, error: str) -> None:
        """End an action of a proposal that is refused whole."""
        action = self.actions[i]
        self._begin_span(i, action)
        self._end(i, action.id, "rejected", None, error, None)

    def close_spans(self) -> None:
        """End every span that is still open, whatever happened to its action."""
        for span in self._spans.values():
            self.services.events.end_span(span, "error")

    def _skip_dependent(self, i: int, needed: int) -> None:
        status = self.status[needed]
        name = self.actions[needed].id
        if needed in self.graph.targets:
            self.skip(i, f"dependency '{name}' only runs as a compensation")
        else:
            self.skip(i, f"dependency '{name}' {_DID_NOT_SUCCEED[status or 'skipped']}")

    def _stopped(
        self,
        i: int,
        action: Action,
        tool: Tool | None,
        *,
        begun: bool,
        key: CallKey | None = None,
        hung: bool = False,
    ) -> None:
        """End an action that was stopped in flight."""
        if key is not None:
            self.page.end(key, None)
        self._note_interruption()
        words = self.stop.words if self.stop is not None else "stopped in flight"
        if not begun or tool is None or tool.schema.risk == "read_only":
            self.skip(i, words)
            return
        error = f"{words}; it was stopped in flight, so it is not known whether it took effect"
        data: dict[str, JsonValue] = {"error": error, "tool": action.tool}
        if hung:
            data["left_behind"] = "the task did not stop when told to"
        self.emit("action_unknown", action.id, self._spans[i].span_id, data)
        self._end(i, action.id, "unknown", None, error, None)

    def leave_behind(self, i: int) -> None:
        """End an action whose task would not stop."""
        if self.results[i] is None:
            self._stopped(i, self.actions[i], self.tools[i], begun=True, hung=True)

    def _note_interruption(self) -> None:
        """If nobody asked us to stop, the task around us was cancelled: start nothing more. Whoever runs us
        passes the cancellation on when everything is in order."""
        self.stop_canceled("the surrounding task was cancelled")

    def _end(
        self,
        i: int,
        action_id: str,
        status: Status,
        output: JsonValue,
        error: str | None,
        duration_ms: float | None,
        changes: dict[str, JsonValue] = _NO_CHANGES,
    ) -> None:
        if self.results[i] is not None:
            return  # It was given up on, and answered late.
        self.status[i] = status
        self.results[i] = ActionResult(
            action_id=action_id,
            status=status,
            output=output,
            error=error,
            state_changes=changes,
            duration_ms=duration_ms,
            timestamp=datetime.now(UTC),
        )
        self.services.events.end_span(self._spans[i], _SPAN_STATUS[status])

    # Stopping

    def abort(self, error: str) -> None:
        """Start nothing more, and undo what was done."""
        if self.stop is None or self.stop.kind != "aborted":
            self.stop = Stop("aborted", error, "skipped: the plan was aborted")

    def stop_canceled(self, reason: str) -> None:
        """Start nothing more; what was done stays."""
        if self.stop is None:
            self.stop = Stop("canceled", f"{CANCELED_PREFIX}{reason}", f"{CANCELED_PREFIX}{reason}")

    def _keep_before(self, i: int) -> None:
        reads, writes = self.graph.touched[i]
        keys = [k for k in dict.fromkeys((*reads, *writes)) if not k.startswith("\0") and self.state.exists(k)]
        self.before[i] = {k: self.state.get(k) for k in keys}

    def undo_of(self, i: int) -> str:
        """How far an action can be taken back."""
        return undo_of(self.actions[i], self.tools[i])
