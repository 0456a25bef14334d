"""One attempt at one proposal: every action from its gate to its last attempt.

The schedule decides when an action starts; this module decides what starting it means. `start` does all
that needs no waiting and returns a coroutine only for the rest, so that actions which never wait cost
neither a task nor a coroutine.

Keep true:
1. Gates come first: an earlier answer never walks around a policy.
2. An attempt of unknown outcome is made again only if the tool says that it may be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Container, Coroutine, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from assent.approvals.approval import Approval
from assent.ir.action import Action
from assent.ir.graph import Graph
from assent.ir.json_value import JsonValue, copy_json
from assent.ir.proposal import Proposal
from assent.ir.references import MissingPath, Reference, resolve
from assent.ir.result import CANCELED_PREFIX, ActionResult
from assent.policy.budget import Allowance
from assent.policy.gate import Gate, Objection
from assent.policy.marks import UNMARKED, Flow
from assent.policy.permission import Answer as PostureAnswer
from assent.policy.permission import Tier
from assent.runtime.asking import ask, trail_of
from assent.runtime.calls import (
    Attempt,
    AttemptFailed,
    arguments,
    call,
    checked_output,
    failure_of,
    stop_tasks,
)
from assent.runtime.guards.idempotency import Answer, CallKey
from assent.runtime.journal import Beginning, key_of, undo_key_of
from assent.runtime.ledger import NOTHING, RunInfo, Stop
from assent.runtime.notes import HoldLost, Notes, NotNoted
from assent.runtime.resume import VersionsThen
from assent.runtime.without_calls import WithoutCalls
from assent.state.store import ReadOnly
from assent.tools.context import Cancel, ToolContext
from assent.tools.tool import Tool
from assent.validator import deduplicates, undo_action

if TYPE_CHECKING:
    from assent.runtime.services import Services

RETRY_BASE_MS = 100
RETRY_LONGEST_MS = 3_600_000


class Execution(WithoutCalls):
    """A proposal while it runs."""

    __slots__ = (
        "_allowance",
        "_begun",
        "_cancel",
        "_find_tool",
        "_first_attempt",
        "_flow",
        "_gate",
        "_has_budget",
        "_judge",
        "_needs",
        "_notes",
        "_owners",
        "_patient",
        "_patient_since",
        "_references",
        "_succeeded",
        "_view",
        "approved",
        "plan",
        "retries",
        "tool_calls",
    )

    def __init__(
        self,
        services: Services,
        proposal: Proposal,
        graph: Graph,
        gate: Gate,
        run: RunInfo,
        allowance: Allowance,
        attempt: int,
        notes: Notes | None = None,
    ) -> None:
        """`attempt` is the number of the plan in its run; `notes` are kept so that it can be resumed."""
        super().__init__(services, proposal, graph, run, attempt)
        self.tool_calls = 0
        self.retries = 0
        self._view = ReadOnly(self.state)
        self._gate = gate
        # Looked up once: each of these is asked for every action.
        self._judge = gate.judge
        self._find_tool = services.tools.get
        self._needs = graph.needs
        self._references = graph.references
        self._cancel = run.cancel
        self._has_budget = allowance.budget is not None
        self._allowance = allowance
        self.plan = attempt
        self._notes = notes
        self._owners: dict[int, int] = {}
        """What ran aside, and the action that it takes back."""
        self.approved: set[str] = set()
        """Keys of actions that a person has approved, and with them what would take them back."""
        self._begun: list[tuple[Action, Tool | None]] = []
        self._succeeded: list[tuple[Action, Tool | None]] = []
        """What policies that look back have counted, to be taken off again if it is taken back."""
        self._patient = 0
        """How many actions wait for people right now."""
        self._patient_since = 0.0
        self._flow: Flow | None = None
        if gate.state_marks is not None:
            self.mark_unit = services.marks.begin(proposal.id)
            self._flow = Flow(gate.marks, services.marks.scoped(run.tenant, self.mark_unit))
        if self._flow is not None or gate.counts:
            self.on_success = self.follow
        self._first_attempt: dict[str | None, dict[str, JsonValue]] = {}
        """What is said of a first attempt, by tool: the same words every time, so made once."""

    def count_versions_from(self, beginning: Beginning) -> None:
        """Compare assumptions about versions with the counting of the time when the run began."""
        self._view.version_of = VersionsThen(beginning, self.services.state, self.state)

    def start(self, i: int) -> Coroutine[Any, Any, None] | None:
        """Begin an action. What is returned, if anything, must be awaited for it to end."""
        if self._notes is not None and self.results[i] is not None:
            return None  # It ended before the run was broken off.
        action = self.actions[i]
        cancel = self._cancel
        if cancel is not None and cancel.requested:
            self.stop_canceled(cancel.reason)
        if self.stop is not None:
            if self.stop.kind == "waiting":
                return self._ask_ahead(i, action)
            self.skip(i, self.stop.words)
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
        if self._notes is not None and self._notes.recall_undo(self, i, owner):
            waiting = None
        else:
            if self._notes is not None:
                await self._notes.about_to_take_back()
            waiting = self._proceed(i, action)
        if waiting is not None:
            await self._until_hard_cancel(i, waiting)
        result = self.results[i]
        assert result is not None
        return result

    def was_undone(self, owner: int) -> bool:
        """Whether its compensation had ended before the run was broken off."""
        return self._notes is not None and self._notes.knows_undo(self.plan, owner)

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
                parameters = resolve(action.parameters, self.lookup)
            except MissingPath as error:
                self.reject(i, action, False, str(error))
                return None
            action = msgspec.structs.replace(action, parameters=parameters)
        tool: Tool | None = None
        if action.type == "tool_call":
            self.tools[i] = tool = self._find_tool(action.tool or "")
        objections = self.objections(i, action, tool)
        if self._gate.has_posture:
            self._say_permission(i, action, tool)
        if objections:
            return self.object(i, action, tool, objections)
        return self.admit(i, action, tool, now)

    def objections(self, i: int, action: Action, tool: Tool | None) -> Sequence[Objection]:
        """What the gates say to an action, as things stand now."""
        template = self.actions[i]
        aside = i >= self.size
        if self._flow is None and template.compensation is None and not aside:
            return self._judge(action, tool, self._view, [])
        inflow = self._flow.inflow(template) if self._flow is not None else UNMARKED
        undo = None if aside else undo_action(self.graph, i)
        return self._judge(action, tool, self._view, [], inflow=inflow, undo=undo, undoes=aside)

    def look_again(self, i: int, action: Action) -> tuple[Tool | None, Sequence[Objection]]:
        """The same after a while, in which policies and tools may have become others."""
        self._gate.refresh()
        tool = self._find_tool(action.tool or "") if action.type == "tool_call" else None
        self.tools[i] = tool
        return tool, self.objections(i, action, tool)

    def _say_permission(self, i: int, action: Action, tool: Tool | None) -> None:
        found = self._gate.permission(action, tool)
        if found is not None and found[0] != "read_only":
            self.note("permission_decision", i, {"tier": found[0], "decision": found[1], "tool": action.tool})

    def object(
        self, i: int, action: Action, tool: Tool | None, objections: Sequence[Objection]
    ) -> Coroutine[Any, Any, None] | None:
        """A gate does not let the action through as it is: end it, or ask."""
        if all(o.kind == "ask" for o in objections):
            owner = self._owners.get(i)
            if owner is None:
                return ask(self, i, action, tool, objections)
            if key_of(self.plan, owner) in self.approved:
                return self.admit(i, action, tool, self.now())
            # Whoever let the owner run was not told of this: it comes from what the owner put out.
            words = "it needs an approval, which cannot be asked for while a plan is taken back"
            objections = [*objections, Objection("denied", words)]
        denied = any(o.kind != "invalid" for o in objections)
        self.reject(i, action, denied, "; ".join(o.reason for o in objections), trail_of(objections))
        return None

    # People

    @property
    def policy_version(self) -> str:
        """Under which policies people are asked."""
        return self._gate.version

    def permission(self, action: Action, tool: Tool | None) -> tuple[Tier, PostureAnswer] | None:
        """The tier of a call, and what its caller is answered."""
        return self._gate.permission(action, tool)

    async def patiently(self, answer: Awaitable[Approval | None]) -> Approval | None:
        """Wait for a person; that time is nobody's budget."""
        if not self._patient:
            self._patient_since = perf_counter()
        self._patient += 1
        waiting = asyncio.ensure_future(answer)
        loop = asyncio.get_running_loop()
        unsubscribe = None
        if self._cancel is not None:
            # May come from any thread.
            unsubscribe = self._cancel.on_request(lambda: loop.call_soon_threadsafe(waiting.cancel))
        try:
            await asyncio.wait((waiting,))
            if not waiting.cancelled():
                return waiting.result()
            self.stop_canceled(self._cancel.reason if self._cancel is not None else "")
            return None
        finally:
            waiting.cancel()
            if unsubscribe is not None:
                unsubscribe()
            self._patient -= 1
            if not self._patient:
                self._allowance.waited_ms += (perf_counter() - self._patient_since) * 1000

    def approve(self, i: int, approval: str) -> None:
        """A person has approved the action."""
        self.approved.add(self.key(i))
        if self._notes is not None:
            self._notes.approved(i, approval)

    def stop_unasked(self, i: int, action: Action, tool: Tool | None, error: str) -> None:
        """Nobody can be asked now. That is no fault of the action: the run can be resumed."""
        self._stop_unnoted(i, action, error, 0, tool, None, self.now())

    def _ask_ahead(self, i: int, action: Action) -> Coroutine[Any, Any, None] | None:
        """While the plan waits nothing starts; but what must be asked anyway is asked now, in one go."""
        is_next = all(self.status[p] == "succeeded" for p in self.graph.before[i])
        if not is_next or self.services.desk is None:
            self.leave(i)
            return None
        tool = self._find_tool(action.tool or "") if action.type == "tool_call" else None
        if i in self._references:
            try:
                parameters = resolve(action.parameters, self.lookup)
            except MissingPath:
                self.leave(i)
                return None
            action = msgspec.structs.replace(action, parameters=parameters)
        objections = self.objections(i, action, tool)
        if not objections or any(o.kind != "ask" for o in objections):
            self.leave(i)
            return None
        if self._gate.has_posture:
            self._say_permission(i, action, tool)
        return ask(self, i, action, tool, objections, ahead=True)

    def admit(
        self, i: int, action: Action, tool: Tool | None, now: float
    ) -> Coroutine[Any, Any, None] | None:
        """Every gate is passed: make the first attempt as far as it needs no waiting."""
        aside = i >= self.size
        if self._gate.counts:
            self._gate.begun(action, tool)
            self._begun.append((action, tool))
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
                self._begun.remove((action, tool))
            return None
        if tool is None or (
            tool.is_direct
            and action.timeout_ms is None
            and (self._notes is None or (tool.schema.repeatable and not self._notes.attempts_made(i)))
        ):
            return self._attempt_now(i, action, tool, key, now, span_id)
        return self._attempts(i, action, tool, key)

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
        elapsed_ms = (perf_counter() - self.run.started) * 1000 - self._allowance.waited_ms
        if self._allowance.reserve(is_tool_call=is_tool_call, elapsed_ms=elapsed_ms):
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
            self.skip(i, self.stop.words)
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
        said = self._first_attempt.get(action.tool)
        if said is None:
            said = self._first_attempt[action.tool] = _attempt_words(action, 1)
        self.record("action_executing", action.id, span_id, said, now)
        try:
            changes: dict[str, JsonValue] = {}
            if tool is None:
                output = self.state_output(action, changes)
            else:
                named = arguments(tool, action.parameters)
                if tool.is_async:
                    return self._await_plain(i, action, tool, key, named, now)
                output = checked_output(tool, self._call_plain(i, action, tool, named))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = failure_of(error)
            if self._may_retry(action, 1, failure, tool):
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
        started: float,
    ) -> None:
        """The rest of a first attempt whose tool is a coroutine.

        The tool is called here, not before: a task that is stopped before its first step has then called
        nothing.
        """
        try:
            output = checked_output(tool, await self._call_plain(i, action, tool, named))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                self.release(key)
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
        first = self.now()
        notes = self._notes
        is_unsafe = tool is not None and not tool.schema.repeatable
        number = (notes.attempts_made(i) if notes is not None else 0) if failure is None else 1
        called = failure is not None
        if notes is not None and failure is not None:
            notes.tried(i, 1)
        elif failure is None and number:
            self.retries += 1  # Those before were made by a process that is gone.
        while True:
            if failure is not None and not await self._wait_before(i, action, number + 1, failure):
                self._give_up(i, action, failure, number, tool, key, first)
                return
            number += 1
            started = self.now()
            self.note("action_executing", i, _attempt_words(action, number))
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
                    self.stopped(i, action, tool, begun=attempt.begun, left_behind=attempt.left_behind)
                    return
                failure = failure_of(error)
            else:
                self.tool_calls += attempt.begun and not called
                self._complete(i, action, output, tool, key, started, changes)
                return
            if not self._may_retry(action, number, failure, tool):
                self._give_up(i, action, failure, number, tool, key, first)
                return
            if notes is not None:
                notes.tried(i, number)

    def _context(self, i: int, action: Action, tool: Tool) -> ToolContext | None:
        """What the tool gets to know about its call, if it asks."""
        if tool.context_parameter is None:
            return None
        return ToolContext(
            action_id=action.id,
            run_id=self.run.run_id,
            tenant=self.run.tenant,
            cancel=self.run.cancel or Cancel(),
            idempotency_key=f"{self.run.run_id}-{self.key(i)}",
            on_spend=self._allowance.spend,
        )

    def key(self, i: int) -> str:
        """What names this call in its run, also after a restart."""
        owner = self._owners.get(i)
        return key_of(self.plan, i) if owner is None else undo_key_of(self.plan, owner)

    # What follows from a success

    def follow(self, i: int, action: Action, output: JsonValue, but: Container[str] = ()) -> None:
        """The marks go with the output, except on keys in `but`, and policies that look back get to know."""
        tool = self.tools[i]
        if self._flow is not None:
            key = action.parameters.get("key") if action.type != "tool_call" else None
            key = key if isinstance(key, str) else None
            self._flow.ended(self.actions[i], action, tool, key=key, but=but)
            if tool is not None and "secret" in self._gate.marks(action, tool):
                self.services.events.redactor.add_secrets_in(output)
        if self._gate.counts:
            self._gate.succeeded(action, tool)
            self._succeeded.append((action, tool))

    def begun_before(self, action: Action, tool: Tool | None) -> None:
        """An action that is read back had passed every gate."""
        if self._gate.counts:
            self._gate.begun(action, tool)
            self._begun.append((action, tool))

    def forget_successes(self) -> None:
        """What was done is taken back: nothing may rely on it."""
        for action, tool in self._succeeded:
            self._gate.succeeded(action, tool, by=-1)
        self._succeeded.clear()

    def forget_all(self) -> None:
        """The plan waits, and will be gone through again: nothing of it counts twice."""
        self.forget_successes()
        for action, tool in self._begun:
            self._gate.begun(action, tool, by=-1)
        self._begun.clear()

    def _may_retry(self, action: Action, made: int, failure: AttemptFailed, tool: Tool | None) -> bool:
        if action.failure_behavior != "retry" or made > action.max_retries or not failure.retry:
            return False
        if tool is not None and tool.max_retries is not None and made > tool.max_retries:
            return False  # What the tool declares wins; the plan can only ask for fewer.
        return not failure.unknown or tool is None or tool.schema.repeatable

    async def _wait_before(self, i: int, action: Action, attempt: int, failure: AttemptFailed) -> bool:
        """Sleep before the next attempt; false if the plan stopped meanwhile."""
        if self.results[i] is not None:
            return False  # It was given up on, and fails late.
        delay_ms = min(RETRY_BASE_MS * 2 ** min(attempt - 2, 40), RETRY_LONGEST_MS)
        self.note("action_retrying", i, {"attempt": attempt, "delay_ms": delay_ms, "error": failure.error})
        try:
            await asyncio.sleep(delay_ms / 1000)
        except asyncio.CancelledError:
            # Nothing is in flight: the last attempt has failed, and that is how the action ends.
            self.stop_canceled("the surrounding task was cancelled")
            return False
        cancel = self.run.cancel
        is_over = self.stop is not None or (cancel is not None and cancel.requested)
        goes_on = i >= self.size or not is_over
        self.retries += goes_on
        return goes_on

    # Endings

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
        if action.expected_effects:
            changes = self.effects(action, dict(changes))
        if key is not None:
            assert tool is not None
            self.page.end(key, Answer(action.id, output) if deduplicates(action, tool) else None)
            ttl_s = tool.schema.cache_ttl_secs
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
        self.stop_canceled(error)
        if self.results[i] is None:
            self.skip(i, f"{CANCELED_PREFIX}{error}")

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
        if self.results[i] is None:
            self.fail(i, action, failure, attempts, tool, started)


def _time_limit(action: Action, tool: Tool) -> int | None:
    """The shorter of what the plan and the tool say."""
    if action.timeout_ms is None or tool.timeout_ms is None:
        return action.timeout_ms or tool.timeout_ms
    return min(action.timeout_ms, tool.timeout_ms)


def _attempt_words(action: Action, number: int) -> dict[str, JsonValue]:
    if action.tool is None:
        return {"attempt": number}
    return {"attempt": number, "tool": action.tool}


def _is_being_cancelled() -> bool:
    """Whether a CancelledError is meant for us, rather than made up by a tool."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
